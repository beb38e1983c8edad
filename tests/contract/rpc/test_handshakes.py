"""TLS handshakes as grpc shows them to a server: that one begins, and not how it ends. Hence no metric of failures."""

import asyncio
import socket
import ssl
from pathlib import Path
from typing import Final

from braid.host.tls.files import TlsFiles, TlsMaterial
from braid.host.tls.paths import Tls
from braid.rpc.grpc.transport import GrpcTransport
from testbed.authority import Authority
from testbed.patience import until
from tests.contract.rpc.test_mutual_tls import serving

WAITED_SECONDS: Final = 5.0


class CountingFiles(TlsFiles):
    """Files that count how often they are asked for; by a server that is at each handshake."""

    asked = 0

    def current(self) -> TlsMaterial:
        self.asked += 1
        return super().current()


def connect(address: str, authority: Path, client: Tls | None, said: bytes = b"") -> str:
    """Opens a connection, and says how the server took it: `open`, or `closed`."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), WAITED_SECONDS) as plain:
        try:
            if said:
                plain.sendall(said)
                return "open" if plain.recv(1) else "closed"
            context = ssl.create_default_context(cafile=authority)
            context.set_alpn_protocols(["h2"])
            if client is not None:
                context.load_cert_chain(client.certificate, client.key)
            with context.wrap_socket(plain, server_hostname="localhost") as wrapped:
                return "open" if wrapped.recv(1) else "closed"
        except (ConnectionError, ssl.SSLError):
            return "closed"


async def test_a_handshake_that_fails_looks_as_one_that_succeeds(authority: Authority, tmp_path: Path) -> None:
    """The threat model says so: once a server can tell them apart, failures belong into a metric."""
    files = CountingFiles(authority.service(tmp_path / "server"))
    ours = authority.client(tmp_path / "ours")
    others = Authority.make("Other CA").client(tmp_path / "others")
    assert ours.ca is not None
    async with serving(GrpcTransport(files)) as server:
        kinds = ((ours, b""), (others, b""), (None, b""), (None, b"GET / HTTP/1.0\r\n\r\n"))
        for (client, said), took in zip(kinds, ("open", "closed", "closed", "closed"), strict=True):
            before = files.asked
            assert await asyncio.to_thread(connect, server.address, ours.ca, client, said) == took

            async def counted(before: int = before) -> bool:
                return files.asked == before + 1

            await until(counted, "the files are asked for once", WAITED_SECONDS)
