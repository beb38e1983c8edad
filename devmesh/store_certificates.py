"""Certificates between services and etcd, by a CA of their own: nothing else that the mesh signs opens the store.

Whoever may write to the store decides everything. An application's certificate, which the mesh's CA signs, must not do.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from braid.certs.authority import BUNDLE, CERTIFICATE, KEY, Authority
from braid.certs.contents import Reached
from braid.certs.identity import Identity, IdentityKind
from braid.host.tls.paths import Tls
from devmesh.credentials import HERE

TRUST_DOMAIN: Final = "store.braid.local"


class StoreCertificates:
    """The certificates of one store.

    Args:
        directory: Of its CA; made when it is not there.
        members: Names of etcd's members.
        replicas: Names of the service replicas, its only clients.
    """

    def __init__(self, directory: Path, members: Sequence[str], replicas: Sequence[str]) -> None:
        self._directory = directory
        self._members = [Identity(IdentityKind.SERVICE, each) for each in members]
        self._replicas = [Identity(IdentityKind.APP, each) for each in replicas]

    def prepare(self) -> None:
        """Makes what is missing, and renews what ends soon. Raises `BraidError` when the directory is damaged."""
        now = datetime.now(UTC)
        there = (self._directory / "ca").exists()
        authority = Authority(self._directory) if there else Authority.create(self._directory, TRUST_DOMAIN, now)
        known = {leaf.contents.identity for leaf in authority.leaves()}
        for identity in (*self._members, *self._replicas):
            if identity not in known:
                authority.issue(identity, now, HERE if identity in self._members else Reached())
        authority.renew(now)

    def member(self, name: str) -> Tls:
        """A member's certificate for clients and for other members of etcd, and the CA it trusts."""
        return self._tls(Identity(IdentityKind.SERVICE, name))

    def replica(self, name: str) -> Tls:
        """A service replica's credentials for etcd."""
        return self._tls(Identity(IdentityKind.APP, name))

    def _tls(self, identity: Identity) -> Tls:
        holder = self._directory / identity.kind / identity.name
        return Tls(holder / CERTIFICATE, holder / KEY, holder / BUNDLE)
