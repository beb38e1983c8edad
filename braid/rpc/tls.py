"""TLS of control RPCs: what both ends of a connection show, and what a call shows of its caller."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, cast

import grpc

from braid.host.tls.files import TlsFiles, TlsMaterial
from braid.host.tls.paths import Tls as Tls
from braid.host.tls.peers import peer_certificate
from braid.kernel.errors import Unauthenticated
from braid.kernel.limits.rpc import (
    CONNECTIONS_MAX,
    HEALTH_CONNECTIONS_MAX,
    PEER_TRUST_GRACE_SECONDS,
    PEER_TRUST_LOOK_SECONDS,
    TLS_CONNECTION_SECONDS,
    TLS_GRACE_SECONDS,
    TLS_JITTER,
)
from braid.kernel.ports import CertificateNames, PeerCertificate, Shown

_SECURITY_TYPE: Final = "transport_security_type"
_CERTIFICATE: Final = "x509_pem_cert"


@dataclass(frozen=True, slots=True)
class TlsServing:
    """How a server with a certificate serves.

    Attributes:
        permissive_listen: Where mutual TLS is served beside plaintext at the server's own address, `host:port`; empty
            for mutual TLS alone.
        health_listen: Where health checks need no certificate, `host:port`. Empty for any port of 127.0.0.1 where TLS
            is served alone, and for none beside plaintext, which answers them itself.
        mutual_listen: Where mutual TLS is served beside TLS at the server's own address, which asks for no client
            certificate: callers show tokens there. Empty where no tokens are taken.
        connection_seconds: A connection takes no new calls after about so long, and its streams end within as long
            again.
        distrust_look_seconds: Between two looks whether the callers of open streams are still trusted.
        distrust_grace_seconds: A caller is refused so long after its certificate ended, or its authority was removed.
        connections_max: A port closes connections beyond so many at once.
        health_connections_max: The same, of a port for health checks alone.
    """

    permissive_listen: str = ""
    health_listen: str = ""
    mutual_listen: str = ""
    connection_seconds: float = TLS_CONNECTION_SECONDS
    distrust_look_seconds: float = PEER_TRUST_LOOK_SECONDS
    distrust_grace_seconds: float = PEER_TRUST_GRACE_SECONDS
    connections_max: int = CONNECTIONS_MAX
    health_connections_max: int = HEALTH_CONNECTIONS_MAX


def server_credentials(files: TlsFiles, *, certificates: bool = True) -> grpc.ServerCredentials:
    """Credentials that use the files as they are at each handshake.

    They ask for a client certificate; without `certificates` they do not, for callers who prove themselves by tokens:
    grpc for Python knows no certificate that is asked for and may be missing.
    """
    used = files.current()

    def fetch() -> grpc.ServerCertificateConfiguration | None:  # called by threads of grpc; None keeps what is in use
        nonlocal used
        material = files.current()
        if material is used:
            return None
        used = material
        return _server_configuration(material)

    fetcher = cast("Callable[[], grpc.ServerCertificateConfiguration]", fetch)  # its stub knows no None
    return grpc.dynamic_ssl_server_credentials(_server_configuration(used), fetcher, certificates)


def channel_credentials(material: TlsMaterial) -> grpc.ChannelCredentials:
    """Credentials of a client; a channel keeps them for its life. Without `ca` it trusts the system's authorities."""
    return grpc.ssl_channel_credentials(material.ca or None, material.key or None, material.certificate or None)


def connection_options(connection_seconds: float) -> Sequence[tuple[str, int]]:
    """Options that end a server's connections in time; grpc adds a jitter of a tenth, either way, of its own."""
    grace = connection_seconds * (1 + TLS_JITTER) + TLS_GRACE_SECONDS
    return (
        ("grpc.max_connection_age_ms", int(connection_seconds * 1000)),
        ("grpc.max_connection_age_grace_ms", int(grace * 1000)),
    )


def shown(authentication: Mapping[str, Iterable[bytes]], bearer: str) -> Shown:
    """Returns the proofs that a call presents of its caller.

    Args:
        authentication: The call's `auth_context()`.
        bearer: The token it came with; empty for none.
    """
    if b"ssl" not in authentication.get(_SECURITY_TYPE, ()):
        return Shown(bearer=bearer)
    if not any(authentication.get(_CERTIFICATE, ())):
        return Shown(encrypted=True, bearer=bearer)
    subject = next(iter(_texts(authentication, "x509_subject")), "a client")
    names = CertificateNames(_texts(authentication, "peer_uri"), _texts(authentication, "peer_dns"), subject)
    return Shown(encrypted=True, certificate=names, bearer=bearer)


def certificate_of(authentication: Mapping[str, Iterable[bytes]]) -> PeerCertificate | None:
    """The certificate that a call's connection was opened with; None in plaintext, and where a token is shown instead.

    A session that was resumed shows the certificate that it was begun with.

    Raises:
        Unauthenticated: it cannot be read, so nobody could tell whether it was revoked.
    """
    leaf, others = (b"".join(authentication.get(key, ())) for key in (_CERTIFICATE, "x509_pem_cert_chain"))
    if b"ssl" not in authentication.get(_SECURITY_TYPE, ()) or not leaf:
        return None
    found = peer_certificate(leaf, others)
    if found is None:
        raise Unauthenticated("the caller's certificate cannot be read", remedy="issue it anew")
    return found


def _texts(authentication: Mapping[str, Iterable[bytes]], key: str) -> list[str]:
    return [value.decode("utf-8", errors="replace") for value in authentication.get(key, ())]


def _server_configuration(material: TlsMaterial) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration([(material.key, material.certificate)], material.ca)
