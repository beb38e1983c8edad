"""Why a connection to a replica could not be made, in words: what grpc says of a handshake, and what it does not.

grpc tells what was wrong with the server's certificate. Of what the server did not like it tells that the connection
was closed: a server on grpc sends no alert. Then a handshake with `ssl`, beside grpc, tells at which step that happens.
"""

import asyncio
import socket
import ssl
import time
from typing import Final

import grpc

from braid.host.tls import CA_VARIABLE, CERTIFICATE_VARIABLE, KEY_VARIABLE, Tls
from braid.host.tls_files import TlsFiles
from braid.kernel.errors import BraidError, Unavailable
from braid.kernel.limits.rpc import TLS_PROBE_SECONDS
from braid.rpc.grpc_wire import error_of

_WANTS_TLS: Final = f"the server wants mutual TLS: set {CERTIFICATE_VARIABLE}, {KEY_VARIABLE} and {CA_VARIABLE}"
# What grpc's details say of the server's certificate.
_EXPIRED: Final = "certificate has expired"
_NOT_YET: Final = "certificate is not yet valid"
_UNTRUSTED: Final = "CERTIFICATE_VERIFY_FAILED"
_WRONG_HOST: Final = "Hostname Verification Check failed"
_PLAINTEXT: Final = "WRONG_VERSION_NUMBER"


class HandshakeFailures:
    """Turns what grpc raises into errors. A server that closes connections is asked why, once in a row of failures."""

    def __init__(self, address: str, files: TlsFiles | None) -> None:
        """Starts for the connections to `address`; plaintext, or mutual TLS with `files`."""
        self._address = address
        self._files = files
        self._tls = files.tls if files is not None else None
        self._asked: asyncio.Task[str] | None = None

    def answered(self) -> None:
        """A call was answered: the next failure begins another row."""
        self._asked = None

    async def error_of(self, error: grpc.aio.AioRpcError) -> BraidError:
        """The error of a call that failed, as `grpc_wire.error_of`, with the cause where a handshake failed."""
        found, said = error_of(error, self._address), error.details() or ""
        if not isinstance(found, Unavailable) or "failed to connect" not in said.lower():
            return found
        cause = _server_fault(said, self._address, self._tls)
        if not cause and "Socket closed" in said:
            cause = self._expired() or await self._probed()
        return Unavailable(f"{self._address}: no connection ({cause})") if cause else found

    def _expired(self) -> str:
        if self._files is None or self._files.current().expires_at > time.time():
            return ""
        return f"the certificate {self._files.tls.certificate} has expired"

    async def _probed(self) -> str:
        if self._asked is None:
            self._asked = asyncio.create_task(asyncio.to_thread(probe, self._address, self._tls))
        return await asyncio.shield(self._asked)


def _server_fault(said: str, address: str, tls: Tls | None) -> str:
    """What grpc found wrong with the server, or ''."""
    if tls is None:
        return ""
    if _PLAINTEXT in said:
        return f"the server speaks plaintext, and {CERTIFICATE_VARIABLE} or its like asks for mutual TLS"
    if _EXPIRED in said:
        return "the server's certificate has expired"
    if _NOT_YET in said:
        return "the server's certificate is not valid yet: check this machine's clock"
    if _UNTRUSTED in said:
        return f"the server's certificate is not signed by an authority in {tls.ca}"
    if _WRONG_HOST in said:
        return f"the server's certificate is not for {address.rpartition(':')[0]}"
    return ""


def probe(address: str, tls: Tls | None) -> str:
    """Why a server closes connections, as a handshake beside grpc tells; '' where it does not tell. Blocks a moment.

    Nothing is asked of the server and nothing is believed, so whom it is need not be verified.
    """
    host, _, port = address.rpartition(":")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    try:
        if tls is not None:
            context.load_cert_chain(tls.certificate, tls.key)
        with (
            socket.create_connection((host.strip("[]"), int(port)), TLS_PROBE_SECONDS) as raw,
            context.wrap_socket(raw, server_hostname=host) as wrapped,
        ):
            # With TLS 1.3 the server judges the client's certificate when its own part of the handshake is over.
            refused = tls is None or not wrapped.recv(1)
    except ssl.SSLError as error:
        refused = "ALERT" in (error.reason or "")
    except OSError:
        return ""
    if not refused:
        return ""
    return f"the server does not trust the authority that signed {tls.certificate}" if tls else _WANTS_TLS
