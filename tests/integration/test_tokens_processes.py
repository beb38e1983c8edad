"""Real replicas that take tokens: of an issuer over https whose keys rotate under load, beside certificates."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from google.protobuf.wrappers_pb2 import Int64Value

from braid.host.system import system_host
from braid.host.tls.files import TlsFiles
from braid.host.token_files import TokenFiles
from braid.host.tokens import Token
from braid.rpc.directory import Directory
from braid.rpc.grpc.transport import GrpcTransport
from braid.rpc.mesh_client import ServiceClient
from testbed.authority import Authority
from tests.integration.test_mutual_tls_processes import settings_of
from tests.integration.test_runtime_serve import CALL_SECONDS, Machine
from tests.support.token_issuer import AUDIENCE, ISSUER, TokenIssuer, key_server, write_private

pytestmark = [pytest.mark.real, pytest.mark.untimed, pytest.mark.timeout(300)]

REPLICAS = ("registry-0", "registry-1")
_ROTATIONS = 3  # the server is asked for its keys once in five seconds at most


@pytest.fixture
async def machine(tmp_path: Path) -> AsyncIterator[Machine]:
    """A directory and its processes."""
    made = Machine(tmp_path)
    yield made
    await made.close()


class Client:
    """Adds to a counter, wherever it is served."""

    def __init__(self, transport: GrpcTransport, addresses: str) -> None:
        host = system_host()
        self._directory = Directory(transport, host, addresses.split(","))
        self._client = ServiceClient(self._directory, "registry", host, principal="whoever")

    async def add(self) -> int:
        """The counter's value, one more than before."""
        answer = await self._client.unary("Add", Int64Value(value=1), Int64Value, timeout_seconds=CALL_SECONDS)
        return answer.value

    async def close(self) -> None:
        """Ends its connections."""
        await self._directory.close()


async def test_keys_and_tokens_change_under_load_and_no_call_fails(machine: Machine, tmp_path: Path) -> None:
    authority, issuer = Authority.make(), TokenIssuer()
    tls = authority.service(tmp_path / "server")
    token = write_private(tmp_path / "token", issuer.token())
    with key_server(issuer, authority.service(tmp_path / "issuer")) as server:
        settings = {
            **settings_of(tls, "required"),
            "tls_clients": "either",
            "token_issuer": ISSUER,
            "token_audience": AUDIENCE,
            "token_keys": server.url,
            "token_keys_ca": str(tls.ca),
        }
        ready = [await (await machine.start(instance, **settings)).ready() for instance in REPLICAS]
        assert all(each["address"] != each["tls_address"] for each in ready)
        signed = Client(
            GrpcTransport(TokenFiles(Token(token, ca=tls.ca, reload_seconds=0.01))),
            ",".join(each["address"] for each in ready),
        )
        certified = Client(
            GrpcTransport(TlsFiles(authority.client(tmp_path / "alice"))),
            ",".join(each["tls_address"] for each in ready),
        )
        count = await signed.add()
        for number in range(_ROTATIONS):
            issuer.rotate(f"key-{number}")
            write_private(token, issuer.token(f"alice-{number}"))
            await asyncio.sleep(0.02)
            for client in (signed, certified):
                count += 1
                assert await client.add() == count
        assert server.asked < 2 * (_ROTATIONS + 2)
        server.stop()
        assert await signed.add() == count + 1  # with the keys read last
    await signed.close()
    await certified.close()
