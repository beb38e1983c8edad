"""Whether callers' certificates are still trusted: a handshake said so once, and files and time go on.

A certificate is trusted no more when it has ended, or when its authority was taken out of the file. A call on such a
connection is refused, and streams on it are ended as streams that lasted long enough: a client with a new certificate
opens them again at once. TLS cannot tell: an open connection is not judged anew, nor is a session that is resumed.
"""

import time
from collections.abc import AsyncIterator, Callable
from functools import partial

from braid.host.tls.files import TlsFiles
from braid.host.tls.peers import vouched_for
from braid.kernel.errors import CertificateUntrusted
from braid.kernel.limits.rpc import PEER_CERTIFICATES_REMEMBERED_MAX, PEER_TRUST_GRACE_SECONDS
from braid.kernel.ports import (
    Caller,
    DuplexHandler,
    DuplexServing,
    PeerCertificate,
    RpcService,
    StreamHandler,
    UnaryHandler,
)

Check = Callable[[str, Caller], None]  # raises where the caller is trusted no more


class PeerTrust:
    """One server's trust in the certificates of its connections."""

    def __init__(
        self,
        files: TlsFiles,
        *,
        grace_seconds: float = PEER_TRUST_GRACE_SECONDS,
        now: Callable[[], float] = time.time,
        elapsed: Callable[[], float] = time.monotonic,
    ) -> None:
        """`files` are the server's own; a certificate is refused `grace_seconds` after it was found untrusted.

        `now` is the wall clock, by which certificates end; `elapsed` a clock that is never set.
        """
        self._files = files
        self._grace_seconds = grace_seconds
        self._now = now
        self._elapsed = elapsed
        self._authorities = files.current().ca
        self._changed_at: float | None = None
        self._vouched: dict[str, bool] = {}

    def distrust(self, caller: Caller) -> CertificateUntrusted | None:
        """Why a caller's certificate is trusted no more; None for one that is trusted, or where there is none."""
        certificate = caller.certificate
        if certificate is None:
            return None
        if self._now() > certificate.expire_ms / 1_000 + self._grace_seconds:
            return _untrusted(caller, "has ended")
        self._look()
        if self._changed_at is None or self._elapsed() < self._changed_at + self._grace_seconds:
            return None
        if self._is_vouched_for(certificate):
            return None
        return _untrusted(caller, "is signed by an authority that is trusted no more")

    def _look(self) -> None:
        authorities = self._files.current().ca
        if authorities != self._authorities:
            self._authorities, self._changed_at = authorities, self._elapsed()
            self._vouched.clear()

    def _is_vouched_for(self, certificate: PeerCertificate) -> bool:
        known = self._vouched.get(certificate.fingerprint)
        if known is None:
            if len(self._vouched) >= PEER_CERTIFICATES_REMEMBERED_MAX:
                self._vouched.clear()
            known = self._vouched[certificate.fingerprint] = vouched_for(certificate.chain, self._authorities)
        return known


def trusted_only(service: RpcService, trust: PeerTrust) -> RpcService:
    """The same service, where no handler runs for a caller whose certificate is trusted no more."""

    def check(path: str, caller: Caller) -> None:
        error = trust.distrust(caller)
        if error is not None:
            service.refused(path, caller, error)
            raise error

    return service.wrapped(partial(_unary, check), partial(_stream, check), partial(_duplex, check))


def _unary(check: Check, path: str, handler: UnaryHandler) -> UnaryHandler:
    async def handle(request: object, caller: Caller) -> object:
        check(path, caller)
        return await handler(request, caller)

    return handle


def _stream(check: Check, path: str, handler: StreamHandler) -> StreamHandler:
    def handle(request: object, caller: Caller) -> AsyncIterator[object]:
        check(path, caller)
        return handler(request, caller)

    return handle


def _duplex(check: Check, path: str, handler: DuplexHandler) -> DuplexHandler:
    async def handle(stream: DuplexServing) -> None:
        check(path, stream.caller)
        await handler(stream)

    return handle


def _untrusted(caller: Caller, what: str) -> CertificateUntrusted:
    return CertificateUntrusted(
        f"the certificate of {caller.principal} {what}",
        remedy="give the caller a certificate of an authority that the server trusts now",
    )
