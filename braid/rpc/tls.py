"""Mutual TLS of control RPCs: what both ends of a connection show, and whom a verified certificate names."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, cast

import grpc

from braid.host.tls import Tls as Tls
from braid.host.tls_files import TlsFiles, TlsMaterial
from braid.host.tls_peers import peer_certificate
from braid.kernel.errors import Unauthenticated
from braid.kernel.limits.rpc import (
    PEER_TRUST_GRACE_SECONDS,
    PEER_TRUST_LOOK_SECONDS,
    TLS_CONNECTION_SECONDS,
    TLS_GRACE_SECONDS,
    TLS_JITTER,
)
from braid.kernel.ports import PeerCertificate
from braid.kernel.principals import principal_of

_SECURITY_TYPE: Final = "transport_security_type"


@dataclass(frozen=True, slots=True)
class TlsServing:
    """How a server with a certificate serves.

    Attributes:
        permissive_listen: Where mutual TLS is served beside plaintext at the server's own address, `host:port`; empty
            for mutual TLS alone.
        health_listen: Where health checks need no certificate, `host:port`. Empty for any port of 127.0.0.1 where TLS
            is served alone, and for none beside plaintext, which answers them itself.
        connection_seconds: A connection takes no new calls after about so long, and its streams end within as long
            again.
        distrust_look_seconds: Between two looks whether the callers of open streams are still trusted.
        distrust_grace_seconds: A caller is refused so long after its certificate ended, or its authority was removed.
    """

    permissive_listen: str = ""
    health_listen: str = ""
    connection_seconds: float = TLS_CONNECTION_SECONDS
    distrust_look_seconds: float = PEER_TRUST_LOOK_SECONDS
    distrust_grace_seconds: float = PEER_TRUST_GRACE_SECONDS


def server_credentials(files: TlsFiles) -> grpc.ServerCredentials:
    """Credentials that ask for a client certificate, and use the files as they are at each handshake."""
    used = files.current()

    def fetch() -> grpc.ServerCertificateConfiguration | None:  # called by threads of grpc; None keeps what is in use
        nonlocal used
        material = files.current()
        if material is used:
            return None
        used = material
        return _server_configuration(material)

    fetcher = cast("Callable[[], grpc.ServerCertificateConfiguration]", fetch)  # its stub knows no None
    return grpc.dynamic_ssl_server_credentials(_server_configuration(used), fetcher, require_client_authentication=True)


def channel_credentials(material: TlsMaterial) -> grpc.ChannelCredentials:
    """Credentials of a client; a channel keeps them for its life."""
    return grpc.ssl_channel_credentials(material.ca, material.key, material.certificate)


def connection_options(connection_seconds: float) -> Sequence[tuple[str, int]]:
    """Options that end a server's connections in time; grpc adds a jitter of a tenth, either way, of its own."""
    grace = connection_seconds * (1 + TLS_JITTER) + TLS_GRACE_SECONDS
    return (
        ("grpc.max_connection_age_ms", int(connection_seconds * 1000)),
        ("grpc.max_connection_age_grace_ms", int(grace * 1000)),
    )


def verified_principal(authentication: Mapping[str, Iterable[bytes]]) -> str:
    """The principal of the certificate that a call came with; empty for a call in plaintext.

    Args:
        authentication: The call's `auth_context()`.

    Raises:
        Unauthenticated: the certificate names no principal.
    """
    if b"ssl" not in authentication.get(_SECURITY_TYPE, ()):
        return ""
    return principal_of(
        _texts(authentication, "peer_uri"),
        _texts(authentication, "peer_dns"),
        next(iter(_texts(authentication, "x509_subject")), "a client"),
    )


def certificate_of(authentication: Mapping[str, Iterable[bytes]]) -> PeerCertificate | None:
    """The certificate that a call's connection was opened with; None for a call in plaintext.

    A session that was resumed shows the certificate that it was begun with.

    Raises:
        Unauthenticated: it cannot be read, so nobody could tell whether it was revoked.
    """
    if b"ssl" not in authentication.get(_SECURITY_TYPE, ()):
        return None
    leaf, others = (b"".join(authentication.get(key, ())) for key in ("x509_pem_cert", "x509_pem_cert_chain"))
    found = peer_certificate(leaf, others)
    if found is None:
        raise Unauthenticated("the caller's certificate cannot be read", remedy="issue it anew")
    return found


def _texts(authentication: Mapping[str, Iterable[bytes]], key: str) -> list[str]:
    return [value.decode("utf-8", errors="replace") for value in authentication.get(key, ())]


def _server_configuration(material: TlsMaterial) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration([(material.key, material.certificate)], material.ca)
