"""Certificates of the other ends of connections: what names one, and whether an authority still vouches for it."""

from functools import lru_cache
from typing import TYPE_CHECKING

from braid.kernel.limits.rpc import PEER_CERTIFICATES_REMEMBERED_MAX, PEER_CHAIN_MAX
from braid.kernel.ports import PeerCertificate

if TYPE_CHECKING:
    from cryptography.x509 import Certificate


@lru_cache(PEER_CERTIFICATES_REMEMBERED_MAX)
def peer_certificate(leaf: bytes, others: bytes = b"") -> PeerCertificate | None:
    """Returns the names of a certificate that a handshake verified; None for bytes that are no certificate.

    Args:
        leaf: Its PEM.
        others: PEM of those that came with it.
    """
    # Lazy: most programs that import Braid serve no TLS connection.
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.x509 import load_pem_x509_certificate

    try:
        found = load_pem_x509_certificate(leaf)
        expire_ms = int(found.not_valid_after_utc.timestamp() * 1_000)
        return PeerCertificate(
            found.fingerprint(SHA256()).hex(), format(found.serial_number, "x"), expire_ms, leaf + others
        )
    except ValueError:
        return None


def vouched_for(chain: bytes, authorities: bytes) -> bool:
    """Whether signatures lead from a certificate, through those that came with it, to a trusted authority.

    A handshake has checked everything else. An intermediate authority may be trusted by itself, as it is there.

    Args:
        chain: PEM of the certificate, then of the others in any order.
        authorities: PEM of those that are trusted.
    """
    from cryptography.x509 import load_pem_x509_certificates

    try:
        found, trusted = load_pem_x509_certificates(chain), load_pem_x509_certificates(authorities)
    except ValueError:
        return False
    links = [each for each in found[1 : PEER_CHAIN_MAX + 1] if is_authority(each)]
    reached = [found[0]]
    for each in reached:  # grows
        if any(each == authority or _signed_by(each, authority) for authority in trusted):
            return True
        reached += [link for link in links if link not in reached and _signed_by(each, link)]
    return False


def is_authority(certificate: "Certificate") -> bool:
    """Whether a certificate may sign others (RFC 5280, section 4.2.1.9)."""
    from cryptography.x509 import BasicConstraints, ExtensionNotFound

    try:
        return certificate.extensions.get_extension_for_class(BasicConstraints).value.ca
    except (ExtensionNotFound, ValueError):
        return False


def _signed_by(certificate: "Certificate", issuer: "Certificate") -> bool:
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm

    try:
        certificate.verify_directly_issued_by(issuer)
    except (InvalidSignature, UnsupportedAlgorithm, ValueError, TypeError):
        return False
    return True
