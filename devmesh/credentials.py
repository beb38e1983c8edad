"""Certificates of a secure mesh: its own CA below its directory, and leaves for every replica, the user and the mesh.

Everything is on this machine and may be deleted with the mesh's directory. `braid certs show --dir DIR/tls` lists it.
"""

import getpass
import re
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from braid.certs.authority import BUNDLE, CERTIFICATE, KEY, Authority
from braid.certs.contents import Reached
from braid.certs.identity import DEFAULT_TRUST_DOMAIN, Identity, IdentityKind
from braid.host.tls.paths import Tls
from braid.kernel.errors import BraidError
from devmesh.limits import DEV_RENEWAL_SECONDS

HERE: Final = Reached(("localhost",), ("127.0.0.1", "::1"))
_SUPERVISOR: Final = Identity(IdentityKind.APP, "braid-dev")
_NAME_CHARS_MAX: Final = 63


class MeshCredentials:
    """The certificates of one mesh.

    Args:
        directory: Of its CA; made when it is not there.
        instances: Names of the service replicas.
        monotonic: Seconds of a clock that never steps.
    """

    def __init__(
        self, directory: Path, instances: Sequence[str], monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._directory = directory
        self._monotonic = monotonic
        self._services = [Identity(IdentityKind.SERVICE, each) for each in instances]
        self._user = user_identity(_login_name())
        self._look_at = 0.0

    @property
    def supervisor(self) -> Tls:
        """Credentials of the mesh's own calls to its services."""
        return self._tls(_SUPERVISOR)

    @property
    def user(self) -> Tls:
        """Credentials of the commands and applications of this mesh's user."""
        return self._tls(self._user)

    @property
    def admins(self) -> tuple[str, ...]:
        """Principals that may do everything: the user, and the mesh's own calls. Others need grants."""
        domain = Authority(self._directory).trust_domain
        return tuple(each.spiffe_id(domain) for each in (self._user, _SUPERVISOR))

    def service(self, instance: str) -> Tls:
        """Credentials of a service's replica."""
        return self._tls(Identity(IdentityKind.SERVICE, instance))

    def prepare(self) -> None:
        """Makes what is missing, and renews what ends soon. Raises `BraidError` when the directory is damaged."""
        now = datetime.now(UTC)
        there = (self._directory / "ca").exists()
        authority = Authority(self._directory) if there else self._create(now)
        known = {leaf.contents.identity for leaf in authority.leaves()}
        for identity in (*self._services, self._user, _SUPERVISOR):
            if identity not in known:
                authority.issue(identity, now, HERE if identity in self._services else Reached())
        authority.renew(now)

    def renew_when_due(self, say: Callable[[str], None]) -> None:
        """Renews what ends soon, once an hour, and says so. Processes read changed files by themselves."""
        if self._monotonic() < self._look_at:
            return
        self._look_at = self._monotonic() + DEV_RENEWAL_SECONDS
        try:
            for each in Authority(self._directory).renew(datetime.now(UTC)):
                say(f"the certificate of {each.contents.identity} was renewed")
        except BraidError as error:
            say(f"certificates cannot be renewed: {error}")

    def _create(self, now: datetime) -> Authority:
        return Authority.create(self._directory, DEFAULT_TRUST_DOMAIN, now)

    def _tls(self, identity: Identity) -> Tls:
        holder = self._directory / identity.kind / identity.name
        return Tls(holder / CERTIFICATE, holder / KEY, holder / BUNDLE)


def prepared(secure: bool, directory: Path, instances: Sequence[str]) -> MeshCredentials | None:
    """The certificates of a mesh, all of them there; None for one in plain text. Raises as `prepare` does."""
    if not secure:
        return None
    credentials = MeshCredentials(directory, instances)
    credentials.prepare()
    return credentials


def paths_of(tls: Tls) -> dict[str, str]:
    """The files as the mesh's documents name them."""
    return {"ca": str(tls.ca), "certificate": str(tls.certificate), "key": str(tls.key)}


def user_identity(login: str) -> Identity:
    """The person who runs a mesh, by login name; what names of certificates do not allow becomes a hyphen."""
    name = re.sub(r"[^a-z0-9._-]", "-", login.lower()).lstrip("._-")
    return Identity(IdentityKind.USER, name[:_NAME_CHARS_MAX] or "dev")


def _login_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user without a name, as in some containers
        return ""
