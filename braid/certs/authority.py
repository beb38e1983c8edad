"""A directory with a mesh's CA and the leaves it issued: what `braid certs` does, as calls.

    DIR/ca/                     the CA: keep it offline, and a backup of it
    DIR/service/registry-0/     certificate.pem (with its chain), key.pem, ca.pem: all that one process needs

Every directory is replaced as one (`generations`), and a leaf that is made anew keeps its key. So a reader that opens
the files one after the other never finds a key beside a certificate of another key. Only a new key, which somebody asks
for, can be read beside the old certificate for an instant; readers that check the pair try again.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple

from braid.certs import ca_directory
from braid.certs.contents import NOWHERE, LeafContents, Reached, Validity, leaf_contents
from braid.certs.generations import make_private_directory, replace_directory
from braid.certs.identity import Identity, IdentityKind, check_trust_domain
from braid.certs.renewal import IssuedLeaf, LeafState, leaf_state
from braid.certs.signing import (
    certificates_pem,
    is_signed_by,
    key_pem,
    load_certificates,
    load_key,
    new_key,
    read_leaf,
    sign_leaf,
    validity_of,
)
from braid.kernel.errors import AlreadyExists, Refused
from braid.kernel.limits.certs import LEAF_DAYS

CERTIFICATE: Final = "certificate.pem"
KEY: Final = "key.pem"
BUNDLE: Final = "ca.pem"
_CA: Final = "ca"
_LOCK: Final = "lock"


class Renewed(NamedTuple):
    """A leaf that was made anew, and why."""

    contents: LeafContents
    reason: LeafState


class Authority:
    """The CA in a directory, which exists."""

    def __init__(self, directory: Path) -> None:
        """Raises `NotFound` when the directory holds no CA, `Invalid` when it is damaged or open to others."""
        self.directory = directory
        self._files = ca_directory.load(directory / _CA)

    @classmethod
    def create(cls, directory: Path, trust_domain: str, now: datetime) -> "Authority":
        """Makes a CA in a new or empty directory that only its owner can open.

        Raises:
            Invalid: the trust domain is out of form.
            AlreadyExists: something lies there; nothing is overwritten.
        """
        check_trust_domain(trust_domain)
        if os.path.lexists(directory) and not (directory.is_dir() and not any(directory.iterdir())):
            raise AlreadyExists(f"{directory} is not empty", field="DIR", remedy="name a directory that is not there")
        make_private_directory(directory)
        ca_directory.create(directory / _CA, trust_domain, now)
        return cls(directory)

    @property
    def trust_domain(self) -> str:
        """The trust domain of every name that it signs."""
        return self._files.ca.trust_domain

    @property
    def ca_validity(self) -> Validity:
        """The validity of the CA that signs."""
        return validity_of(self._files.ca.certificate)

    @property
    def previous_validity(self) -> Validity | None:
        """Of the CA before, while a rotation goes on."""
        return validity_of(self._files.previous) if self._files.previous else None

    def path(self, identity: Identity) -> Path:
        """The directory with a leaf's files."""
        return self.directory / identity.kind / identity.name

    def issue(
        self,
        identity: Identity,
        now: datetime,
        reached: Reached = NOWHERE,
        days: int | None = None,
        *,
        fresh_key: bool = False,
    ) -> LeafContents:
        """Makes a leaf, or makes it anew. What is not given stays as the leaf has it.

        Args:
            identity: Whom it speaks for.
            now: In UTC.
            reached: Names and addresses of a service.
            days: How long it is valid.
            fresh_key: Whether it gets another key.

        Raises:
            Invalid: an argument is out of form; `field` names the flag.
            Refused: it would outlive the CA, or something else works in the directory.
        """
        with self._locked():
            before = self._read(identity) if self._exists(identity) else None
            if before is not None:
                reached = reached if reached != NOWHERE else before.contents.reached
                days = before.contents.validity.days if days is None else days
            ends = self.ca_validity.ends
            days = LEAF_DAYS if days is None else days
            contents = leaf_contents(identity, self.trust_domain, reached, days, now, ends)
            self._write(contents, fresh_key=fresh_key or before is None)
        return contents

    def leaves(self) -> list[IssuedLeaf]:
        """Every leaf in the directory, by kind and name. Raises `Invalid` when one is damaged."""
        return [self._read(identity) for identity in self._identities()]

    def renew(self, now: datetime, within_days: float | None = None, *, fresh_keys: bool = False) -> list[Renewed]:
        """Makes anew every leaf that ends soon, that another CA signed, or that lies beside an old bundle.

        Args:
            now: In UTC.
            within_days: A leaf that ends within so many days ends soon; by default within a third of its life.
            fresh_keys: Whether they get other keys.

        Raises:
            Refused: it would outlive the CA, or something else works in the directory.
        """
        with self._locked():
            return self._renew(now, within_days, fresh_keys)

    def begin_rotation(self, now: datetime, within_days: float | None = None) -> list[Renewed]:
        """Makes a new CA, gives every leaf the bundle of both and a certificate of the new one.

        While a rotation goes on, a second call only makes leaves anew that an interrupted first one left.
        """
        with self._locked():
            self._files = ca_directory.begin(self.directory / _CA, self._files, now)
            return self._renew(now, within_days, False)

    def finish_rotation(self, now: datetime, within_days: float | None = None) -> list[Renewed]:
        """Drops the CA before from every bundle.

        Raises:
            Refused: no rotation goes on, or a leaf of the CA before would be accepted by nobody.
        """
        with self._locked():
            if self._files.previous is not None:
                self._check_all_signed()
            self._files = ca_directory.finish(self.directory / _CA, self._files)
            return self._renew(now, within_days, False)

    def _renew(self, now: datetime, within_days: float | None, fresh_keys: bool) -> list[Renewed]:
        renewed = []
        for leaf in self.leaves():
            reason = leaf_state(leaf, now, within_days)
            if reason is LeafState.OK:
                continue
            old = leaf.contents
            ends = self.ca_validity.ends
            contents = leaf_contents(old.identity, self.trust_domain, old.reached, old.validity.days, now, ends)
            self._write(contents, fresh_key=fresh_keys)
            renewed.append(Renewed(contents, reason))
        return renewed

    def _check_all_signed(self) -> None:
        left = [str(leaf.contents.identity) for leaf in self.leaves() if not leaf.signed_by_ca]
        if left:
            remedy = "make it anew first: braid certs rotate --ca"
            raise Refused(f"{left[0]} is still signed by the CA before", remedy=remedy)

    def _identities(self) -> Iterator[Identity]:
        for kind in IdentityKind:
            holder = self.directory / kind
            names = sorted(each.name for each in holder.iterdir()) if holder.is_dir() else []
            yield from (Identity(kind, name) for name in names if not name.startswith("."))

    def _exists(self, identity: Identity) -> bool:
        return (self.path(identity) / CERTIFICATE).exists()

    def _read(self, identity: Identity) -> IssuedLeaf:
        path = self.path(identity)
        leaf, *intermediates = load_certificates(path / CERTIFICATE)
        trusted = load_certificates(path / BUNDLE)
        current = trusted == self._files.trusted and intermediates == self._files.intermediates
        return IssuedLeaf(read_leaf(leaf), is_signed_by(leaf, self._files.ca.certificate), current)

    def _write(self, contents: LeafContents, *, fresh_key: bool) -> None:
        path = self.path(contents.identity)
        key = new_key() if fresh_key else load_key(path / KEY)
        leaf = sign_leaf(contents, key, self._files.ca)
        make_private_directory(path.parent)
        chain = certificates_pem(leaf, *self._files.intermediates)
        replace_directory(path, {CERTIFICATE: chain, KEY: key_pem(key), BUNDLE: certificates_pem(*self._files.trusted)})

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Keeps a second `braid certs` out, and reads what a first one wrote."""
        descriptor = os.open(self.directory / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            _lock(descriptor, self.directory)
            self._files = ca_directory.load(self.directory / _CA)
            yield
        finally:
            os.close(descriptor)


def _lock(descriptor: int, directory: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise Refused(f"another process works in {directory}", remedy="try again when it is done") from error
