"""A directory with a mesh's CA and the leaves it issued: the operations of `braid certs`.

    DIR/ca/                     the CA: keep it offline, and a backup of it
    DIR/service/registry-0/     certificate.pem (with its chain), key.pem, ca.pem: all that one process needs

Every directory is replaced as one (`generations`), and a renewed leaf keeps its key. So a reader that opens the files
one after the other never finds a key beside a certificate of another key. Only a new key, which must be asked for, can
briefly be read beside the old certificate; readers that check the pair retry.
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
from braid.kernel.limits.access.certs import LEAF_DAYS

CERTIFICATE: Final = "certificate.pem"
KEY: Final = "key.pem"
BUNDLE: Final = "ca.pem"
_CA: Final = "ca"
_LOCK: Final = "lock"


class Renewed(NamedTuple):
    """A leaf that was renewed, and the reason."""

    contents: LeafContents
    reason: LeafState


class Authority:
    """A mesh's CA in an existing directory."""

    def __init__(self, directory: Path) -> None:
        """Opens the directory. Raises `NotFound` if it holds no CA, `Invalid` if it is damaged or readable by
        others."""
        self.directory = directory
        self._files = ca_directory.load(directory / _CA)

    @classmethod
    def create(cls, directory: Path, trust_domain: str, now: datetime) -> "Authority":
        """Creates a CA in a new or empty directory that only its owner can open.

        Raises:
            Invalid: the trust domain is malformed.
            AlreadyExists: the directory is not empty; nothing is overwritten.
        """
        check_trust_domain(trust_domain)
        if os.path.lexists(directory) and not (directory.is_dir() and not any(directory.iterdir())):
            raise AlreadyExists(f"{directory} is not empty", field="DIR", remedy="name a directory that is not there")
        make_private_directory(directory)
        ca_directory.create(directory / _CA, trust_domain, now)
        return cls(directory)

    @property
    def trust_domain(self) -> str:
        """The trust domain of all its certificates."""
        return self._files.ca.trust_domain

    @property
    def ca_validity(self) -> Validity:
        """The validity of the signing CA."""
        return validity_of(self._files.ca.certificate)

    @property
    def previous_validity(self) -> Validity | None:
        """The validity of the previous CA, during a rotation."""
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
        """Issues a leaf, or renews it. Arguments that are not given keep the leaf's values.

        Args:
            identity: The leaf's holder.
            now: In UTC.
            reached: Names and addresses of a service.
            days: How long it is valid.
            fresh_key: Whether it gets a new key.

        Raises:
            Invalid: an argument is malformed; `field` names the flag.
            Refused: it would outlive the CA, or another process works in the directory.
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
        """Every leaf in the directory, by kind and name. Raises `Invalid` if one is damaged."""
        return [self._read(identity) for identity in self._identities()]

    def renew(self, now: datetime, within_days: float | None = None, *, fresh_keys: bool = False) -> list[Renewed]:
        """Renews every leaf that ends soon, was signed by another CA, or has an outdated bundle.

        Args:
            now: In UTC.
            within_days: A leaf that ends within so many days ends soon; by default within a third of its life.
            fresh_keys: Whether they get new keys.

        Raises:
            Refused: it would outlive the CA, or another process works in the directory.
        """
        with self._locked():
            return self._renew(now, within_days, fresh_keys)

    def begin_rotation(self, now: datetime, within_days: float | None = None) -> list[Renewed]:
        """Creates a new CA, and gives every leaf the bundle of both and a certificate of the new one.

        During a rotation, a second call only renews leaves that an interrupted first one left.
        """
        with self._locked():
            self._files = ca_directory.begin(self.directory / _CA, self._files, now)
            return self._renew(now, within_days, False)

    def finish_rotation(self, now: datetime, within_days: float | None = None) -> list[Renewed]:
        """Removes the previous CA from every bundle.

        Raises:
            Refused: no rotation is under way, or a leaf of the previous CA would be accepted by nobody.
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
        """Excludes a second `braid certs`, and reads the state that a first one wrote."""
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
