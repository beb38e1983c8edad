"""Why a TLS connection could not be made: what a client's library said of the server, and what the server disliked.

gRPC tells what was wrong with the server's certificate. Of what the server did not like it tells that the connection
was closed. Then a handshake with `ssl`, beside gRPC, tells at which step that happens.
"""

import socket
import ssl
from enum import Enum
from typing import Final

from braid.host.tls.paths import Tls
from braid.kernel.limits.rpc import TLS_PROBE_SECONDS

# What gRPC's details say of the server's certificate.
_EXPIRED: Final = "certificate has expired"
_NOT_YET: Final = "certificate is not yet valid"
_UNTRUSTED: Final = "CERTIFICATE_VERIFY_FAILED"
_WRONG_HOST: Final = "Hostname Verification Check failed"
_PLAINTEXT: Final = "WRONG_VERSION_NUMBER"

SERVER_EXPIRED: Final = "the server's certificate has expired"


class Refusal(Enum):
    """A server's reason for ending a handshake."""

    NONE = "it did not end it"
    CLOSED = "it closed the connection"
    ALERT = "it sent an alert"
    EXPIRED = "the client's certificate has expired"


def server_fault(said: str, address: str, trusted: str, plaintext: str) -> str:
    """Says in words which fault gRPC found with a server; '' where it found nothing.

    Args:
        said: The details of gRPC's status.
        address: The server's, `host:port`.
        trusted: Who may sign the server's certificate, in words.
        plaintext: What to say of a server that speaks no TLS.
    """
    if _PLAINTEXT in said:
        return plaintext
    if _EXPIRED in said:
        return SERVER_EXPIRED
    if _NOT_YET in said:
        return "the server's certificate is not valid yet: check this machine's clock"
    if _UNTRUSTED in said:
        return f"the server's certificate is not signed by {trusted}"
    if _WRONG_HOST in said:
        return f"the server's certificate is not for {address.rpartition(':')[0]}"
    return ""


def refusal_of(address: str, tls: Tls | None) -> Refusal:
    """How a server answers a handshake, with these files or none. Blocks a moment.

    Without files a server that completes the handshake counts as one that closes: it speaks TLS.

    Nothing is asked of the server and nothing is believed, so whom it is need not be verified.

    Raises:
        OSError: it cannot be reached, or does not answer.
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
            if tls is None:
                return Refusal.CLOSED
            # With TLS 1.3 the server judges the client's certificate when its own part of the handshake is over.
            return Refusal.NONE if wrapped.recv(1) else Refusal.CLOSED
    except ssl.SSLError as error:
        reason = error.reason or ""
        if "CERTIFICATE_EXPIRED" in reason:
            return Refusal.EXPIRED
        return Refusal.ALERT if "ALERT" in reason else Refusal.NONE
