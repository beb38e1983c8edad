"""The CA of a mesh in its directory: certificate and key, and during a rotation the link between two CAs.

A rotation of the CA has two steps, and files may reach machines in any order during both. `begin` creates a new CA,
which the old one signs too; every leaf's chain carries that cross-certificate. So machines that trust only the old CA
accept new leaves, and machines with the bundle of both accept old ones (RFC 4210, section 4.4, describes such a change
of root). `finish` drops the old CA.
"""

from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple

from cryptography import x509

from braid.certs.contents import ca_validity
from braid.certs.generations import replace_directory
from braid.certs.signing import (
    Ca,
    certificates_pem,
    key_pem,
    load_certificates,
    load_key,
    sign_cross,
    sign_root,
)
from braid.kernel.errors import NotFound, Refused

_CERTIFICATE: Final = "certificate.pem"
_KEY: Final = "key.pem"
_PREVIOUS: Final = "previous.pem"
_CROSS: Final = "cross.pem"


class CaFiles(NamedTuple):
    """A CA and, during a rotation, its predecessor.

    Attributes:
        ca: Signs new leaves.
        previous: The previous CA's certificate, still trusted; None outside a rotation.
        cross: This CA's certificate by the previous one; None outside a rotation, or if the previous one had expired.
    """

    ca: Ca
    previous: x509.Certificate | None = None
    cross: x509.Certificate | None = None

    @property
    def trusted(self) -> list[x509.Certificate]:
        """The CAs that every process of the mesh trusts."""
        return [self.ca.certificate, *([self.previous] if self.previous else [])]

    @property
    def intermediates(self) -> list[x509.Certificate]:
        """The certificates after a leaf in its chain."""
        return [self.cross] if self.cross else []


def create(directory: Path, trust_domain: str, now: datetime) -> CaFiles:
    """Creates the first CA in a directory that has none."""
    found = CaFiles(sign_root(trust_domain, ca_validity(now)))
    _save(directory, found)
    return found


def load(directory: Path) -> CaFiles:
    """Reads the CA from its directory.

    Raises:
        NotFound: there is none.
        Invalid: a file is damaged, or others may read the key.
    """
    if not (directory / _KEY).exists():
        remedy = "make it: braid certs init DIR; or name another directory with --dir"
        raise NotFound(f"{directory.parent} holds no CA", field="--dir", remedy=remedy)
    key = load_key(directory / _KEY)
    certificate, previous, cross = (_certificate(directory / name) for name in (_CERTIFICATE, _PREVIOUS, _CROSS))
    if certificate is None or certificate.public_key() != key.public_key():
        raise Refused(f"the key and the certificate in {directory} are not of one CA", remedy="restore a backup of it")
    return CaFiles(Ca(certificate, key), previous, cross)


def begin(directory: Path, old: CaFiles, now: datetime) -> CaFiles:
    """Begins a rotation. If one is under way, it continues unchanged."""
    if old.previous is not None:
        return old
    ca = sign_root(old.ca.trust_domain, ca_validity(now))
    ended = old.ca.certificate.not_valid_after_utc <= now
    found = CaFiles(ca, old.ca.certificate, None if ended else sign_cross(ca.certificate, old.ca))
    _save(directory, found)
    return found


def finish(directory: Path, old: CaFiles) -> CaFiles:
    """Ends a rotation: the previous CA is no longer trusted. Raises `Refused` if none is under way."""
    if old.previous is None:
        raise Refused("no rotation of the CA is under way", remedy="begin one: braid certs rotate --ca")
    found = CaFiles(old.ca)
    _save(directory, found)
    return found


def _save(directory: Path, files: CaFiles) -> None:
    content = {_CERTIFICATE: certificates_pem(files.ca.certificate), _KEY: key_pem(files.ca.key)}
    for name, certificate in ((_PREVIOUS, files.previous), (_CROSS, files.cross)):
        if certificate is not None:
            content[name] = certificates_pem(certificate)
    replace_directory(directory, content)


def _certificate(path: Path) -> x509.Certificate | None:
    return load_certificates(path)[0] if path.exists() else None
