"""Why a connection to a replica could not be made, in words: what grpc says of a handshake, and what it does not.

A server on grpc sends no alert when it does not like a client's certificate: it closes the connection.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Final

import grpc

from braid.host.tls.faults import Refusal, refusal_of, server_fault
from braid.host.tls.files import TlsFiles
from braid.host.tls.paths import CA_VARIABLE, CERTIFICATE_VARIABLE, KEY_VARIABLE, Tls
from braid.host.token_files import TokenFiles
from braid.kernel.errors import BraidError, CertificateUntrusted, Unauthenticated, Unavailable
from braid.rpc.grpc.wire import error_of

_WANTS_TLS: Final = f"the server wants mutual TLS: set {CERTIFICATE_VARIABLE}, {KEY_VARIABLE} and {CA_VARIABLE}"
_WANTS_CERTIFICATE: Final = "the server wants a certificate there: give the address at which it takes tokens"
_PLAINTEXT: Final = f"the server speaks plaintext, and {CERTIFICATE_VARIABLE}, a token or their like ask for TLS"


class HandshakeFailures:
    """Turns what grpc raises into errors. A server that closes connections is asked why, once in a row of failures."""

    def __init__(self, address: str, files: TlsFiles | TokenFiles | None, on_untrusted: Callable[[], None]) -> None:
        """Judges the connections to `address`; in plaintext, or over TLS with `files`.

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
        """The error of a call that failed, as `wire.error_of`, with the cause where a handshake failed."""
        found, said = error_of(error, self._address), error.details() or ""
        if isinstance(found, CertificateUntrusted):
            self._on_untrusted()
        if isinstance(self._files, TokenFiles) and isinstance(found, Unauthenticated):
            return self._files.refused(found)
        if not isinstance(found, Unavailable) or "failed to connect" not in said.lower():
            return found
        cause = "" if self._files is None else server_fault(said, self._address, self._trusted(), _PLAINTEXT)
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


def probe(address: str, tls: Tls | None) -> str:
    """Why a server closes connections, as a handshake beside grpc tells; '' where it does not tell. Blocks a moment."""
    try:
        refused = refusal_of(address, tls)
    except OSError:
        return ""
    if refused is Refusal.NONE:
        return ""
    return f"the server does not trust the authority that signed {tls.certificate}" if tls else _WANTS_TLS
