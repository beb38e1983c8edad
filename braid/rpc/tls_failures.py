"""Why a connection to a replica could not be made, in words: what grpc says of a handshake, and what it does not.

grpc tells what was wrong with the server's certificate. Of what the server did not like it tells that the connection
was closed: a server on grpc sends no alert. Then a handshake with `ssl`, beside grpc, tells at which step that happens.
"""

import asyncio
import socket
import ssl
import time
from collections.abc import Callable
from typing import Final

import grpc

from braid.host.tls import CA_VARIABLE, CERTIFICATE_VARIABLE, KEY_VARIABLE, Tls
from braid.host.tls_files import TlsFiles
from braid.host.token_files import TokenFiles
from braid.kernel.errors import BraidError, CertificateUntrusted, Unauthenticated, Unavailable
from braid.kernel.limits.rpc import TLS_PROBE_SECONDS
from braid.rpc.grpc_wire import error_of

_WANTS_TLS: Final = f"the server wants mutual TLS: set {CERTIFICATE_VARIABLE}, {KEY_VARIABLE} and {CA_VARIABLE}"
_WANTS_CERTIFICATE: Final = "the server wants a certificate there: give the address at which it takes tokens"
# What grpc's details say of the server's certificate.
_EXPIRED: Final = "certificate has expired"
_NOT_YET: Final = "certificate is not yet valid"
_UNTRUSTED: Final = "CERTIFICATE_VERIFY_FAILED"
_WRONG_HOST: Final = "Hostname Verification Check failed"
_PLAINTEXT: Final = "WRONG_VERSION_NUMBER"


class HandshakeFailures:
    """Turns what grpc raises into errors. A server that closes connections is asked why, once in a row of failures."""

    def __init__(
        self, address: str, files: TlsFiles | TokenFiles | None, on_untrusted: Callable[[], None]
    ) -> None:
        """Of the connections to `address`; in plaintext, or over TLS with `files`.

        `on_untrusted` is called when the server says that it trusts the certificate of its connection no more.
        """
        self._on_untrusted = on_untrusted
        self._address = address
        self._files = files
        self._tls = files.tls if isinstance(files, TlsFiles) else None
        self._asked: asyncio.Task[str] | None = None

    def answered(self) -> None:
        """A call was answered: the next failure begins another row."""
        self._asked = None

    async def error_of(self, error: grpc.aio.AioRpcError) -> BraidError:
        """The error of a call that failed, as `grpc_wire.error_of`, with the cause where a handshake failed."""
        found, said = error_of(error, self._address), error.details() or ""
        if isinstance(found, CertificateUntrusted):
            self._on_untrusted()
        if isinstance(self._files, TokenFiles) and isinstance(found, Unauthenticated):
            return self._files.refused(found)
        if not isinstance(found, Unavailable) or "failed to connect" not in said.lower():
            return found
        cause = "" if self._files is None else _server_fault(said, self._address, self._trusted())
        if not cause and "Socket closed" in said:
            cause = self._expired() or await self._probed()
        return Unavailable(f"{self._address}: no connection ({cause})") if cause else found

    def _expired(self) -> str:
        if not isinstance(self._files, TlsFiles) or self._files.current().expires_at > time.time():
            return ""
        return f"the certificate {self._files.tls.certificate} has expired"

    def _trusted(self) -> str:
        ca = self._tls.ca if self._tls is not None else None
        if isinstance(self._files, TokenFiles):
            ca = self._files.token.ca
        return "the system's authorities" if ca is None else f"an authority in {ca}"

    async def _probed(self) -> str:
        if self._asked is None:
            self._asked = asyncio.create_task(asyncio.to_thread(probe, self._address, self._tls))
        said = await asyncio.shield(self._asked)
        return _WANTS_CERTIFICATE if said and isinstance(self._files, TokenFiles) else said


def _server_fault(said: str, address: str, trusted: str) -> str:
    """What grpc found wrong with the server, or ''. `trusted` says who may sign its certificate."""
    if _PLAINTEXT in said:
        return f"the server speaks plaintext, and {CERTIFICATE_VARIABLE}, a token or their like ask for TLS"
    if _EXPIRED in said:
        return "the server's certificate has expired"
    if _NOT_YET in said:
        return "the server's certificate is not valid yet: check this machine's clock"
    if _UNTRUSTED in said:
        return f"the server's certificate is not signed by {trusted}"
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
