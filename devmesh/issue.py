"""Makes the certificates of a composed mesh: `python -m braid._mesh devmesh.issue CAS TARGET NAME …`.

The first step of a composed mesh. It makes two CAs below CAS, which nothing else opens, and copies each holder's files
to TARGET/<holder>. Run again, it renews what ends soon; processes read changed files by themselves. A NAME is
`service/registry-0`, `app/event-store`, or `member/etcd-0` for a member of the store. A service gets its certificate
for the store, too, in TARGET/<holder>/store. `admin/user/me` is somebody who may do everything: TARGET/admins lists the
principals of all of them, for the services' settings.
"""

import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from braid.certs.authority import BUNDLE, CERTIFICATE, KEY, Authority
from braid.certs.contents import Reached
from braid.certs.identity import DEFAULT_TRUST_DOMAIN, Identity, IdentityKind
from braid.host import private_files
from braid.host.tls.paths import Tls
from braid.kernel.errors import BraidError, Invalid
from devmesh.credentials import HERE
from devmesh.store_certificates import StoreCertificates

MEMBER: Final = "member/"
ADMIN: Final = "admin/"
ADMINS_FILE: Final = "admins"
_USAGE: Final = "CAS TARGET NAME …"


def issue(
    cas: Path, target: Path, holders: Sequence[Identity], members: Sequence[str], admins: Sequence[Identity] = ()
) -> None:
    """Makes, renews and copies everything, and names the admins.

    Raises:
        BraidError: a CA's directory is damaged.
        OSError: a directory cannot be written.
    """
    services = [each.name for each in holders if each.kind is IdentityKind.SERVICE]
    store = StoreCertificates(cas / "store", members, services)
    store.prepare()
    mesh = _mesh(cas / "mesh", holders)
    for identity in holders:
        holder = mesh.path(identity)
        _copy(Tls(holder / CERTIFICATE, holder / KEY, holder / BUNDLE), target / identity.name)
    for name in services:
        _copy(store.replica(name), target / name / "store")
    for name in members:
        _copy(store.member(name), target / name)
    _write(target / ADMINS_FILE, "".join(f"{each.spiffe_id(mesh.trust_domain)}\n" for each in admins).encode())


def _mesh(directory: Path, holders: Sequence[Identity]) -> Authority:
    now = datetime.now(UTC)
    there = (directory / "ca").exists()
    authority = Authority(directory) if there else Authority.create(directory, DEFAULT_TRUST_DOMAIN, now)
    known = {leaf.contents.identity for leaf in authority.leaves()}
    for identity in holders:
        if identity not in known:
            authority.issue(identity, now, HERE if identity.kind is IdentityKind.SERVICE else Reached())
    authority.renew(now)
    return authority


def _copy(tls: Tls, target: Path) -> None:
    """Copies three files, each whole or not at all. A renewal keeps the key, so that their order does not matter."""
    private_files.make_directory(target)
    for source, name in ((tls.key, KEY), (tls.certificate, CERTIFICATE), (tls.ca, BUNDLE)):
        _write(target / name, source.read_bytes())


def _write(path: Path, content: bytes) -> None:
    part = path.with_name(f".{path.name}")
    with private_files.write_file(part) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def main(arguments: Sequence[str]) -> int:
    """0 when all is there; 2 for wrong usage, 1 when something cannot be made, with the reason on stderr."""
    if len(arguments) < 3:
        print(f"usage: python -m braid._mesh devmesh.issue {_USAGE}", file=sys.stderr)
        return 2
    cas, target, *names = arguments
    members = [name.removeprefix(MEMBER) for name in names if name.startswith(MEMBER)]
    try:
        admins = [Identity.parse(name.removeprefix(ADMIN)) for name in names if name.startswith(ADMIN)]
        others = [Identity.parse(name) for name in names if not name.startswith((MEMBER, ADMIN))]
        issue(Path(cas), Path(target), [*others, *admins], members, admins)
    except (BraidError, OSError) as error:
        print(error, file=sys.stderr)
        return 2 if isinstance(error, Invalid) and error.field == "NAME" else 1
    print(f"certificates of {', '.join(names)} are in {target}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
