"""Reads when a mesh's certificates end: this process's own, and each replica's by a handshake. Judges nothing."""

import asyncio
import socket
import ssl
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, cast

from braid.cli.core.limits import CLI_PROBE_SECONDS
from braid.cli.doctor.certificate_findings import CertificateFacts
from braid.host.tls.files import read_tls
from braid.host.tls.paths import Tls
from braid.kernel.errors import Invalid

if TYPE_CHECKING:
    from braid.cli.core.session import Session
    from braid.rpc.directory import KnownEndpoint

_HERE: Final = "client"  # the side that asks


async def ask_certificates(session: "Session", endpoints: Sequence["KnownEndpoint"]) -> list[CertificateFacts]:
    """The certificates of all replicas that serve mutual TLS, and of this process; none in a mesh without
    certificates."""
    tls = session.ports.tls
    found = await asyncio.gather(*(_ask(each, tls) for each in endpoints if each.tls_address))
    return [*found, *([_own(tls)] if tls is not None else [])]


async def _ask(known: "KnownEndpoint", tls: Tls | None) -> CertificateFacts:
    facts = CertificateFacts(known.instance, plaintext=known.address if known.address != known.tls_address else "")
    if tls is None:  # whom to trust is not known here
        return facts
    try:
        return facts._replace(expires_at=await asyncio.to_thread(certificate_end, known.tls_address, tls))
    except (OSError, Invalid) as error:
        return facts._replace(error=f"no handshake at {known.tls_address}: {error}")


def _own(tls: Tls) -> CertificateFacts:
    try:
        found = read_tls(tls)
        authority_ends_at = 0.0 if found.authority is None else found.authority.ends_at
        return CertificateFacts(_HERE, expires_at=found.expires_at, authority_ends_at=authority_ends_at)
    except Invalid as error:
        return CertificateFacts(_HERE, error=f"{tls.certificate}: {error.message}")


def certificate_end(address: str, tls: Tls) -> float:
    """The end of a server's certificate, in seconds since the epoch. Blocks for a handshake.

    Raises:
        OSError: the server cannot be reached, or its certificate is not trusted.
    """
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=tls.ca)
    context.load_cert_chain(tls.certificate, tls.key)
    context.set_alpn_protocols(["h2"])
    with (
        socket.create_connection((host, int(port)), CLI_PROBE_SECONDS) as raw,
        context.wrap_socket(raw, server_hostname=host) as wrapped,
    ):
        certificate = wrapped.getpeercert()
    assert certificate is not None, "a handshake that verifies has a certificate"
    return ssl.cert_time_to_seconds(cast("str", certificate["notAfter"]))
