"""The matrix of methods and roles, as `tests/golden/access/matrix.txt` has it, and requests to fill it with.

`python -m tests.unit.kernel.access.matrix > tests/golden/access/matrix.txt` writes it anew, for a reviewer to read.
"""

import sys
from collections.abc import Sequence
from typing import Final, cast

from google.protobuf.message import Message

from braid.kernel.access.decisions import decide, first_refused
from braid.kernel.access.grants import Grant, Rights, ServicePrincipals
from braid.kernel.access.requests import Lookup, Need, needs_of
from braid.kernel.access.roles import ANYTHING, GRANTABLE, MESH, Action, Resource, ResourceKind, Role, check_scope
from braid.kernel.access.table import Named, Row, row_of
from braid.kernel.errors import Invalid
from tests.unit.kernel.access.api import Method, methods

SAMPLES: Final = {
    ResourceKind.STREAM: "logs",
    ResourceKind.GROUP: "indexer",
    ResourceKind.CLUSTER: "east",
    ResourceKind.REPLAY: "replay-1",
}
HISTORIES: Final = {"registry": "stream/logs", "assigner": "group/indexer", "lagmon": "", "dlq": "replay/replay-1"}
LOOKUP: Final = Lookup(lambda group: ("logs",) if group == "indexer" else (), lambda id: "logs" if id else "")
ME: Final = "spiffe://braid.local/app/me"
SERVICE: Final = "spiffe://braid.local/service/assigner-0"
_HEAD: Final = "for each role: yes = granted on these resources, mesh = granted on the whole mesh alone, - = never"


def filled(method: Method, row: Row) -> Message:
    """A request that names a resource in each field where it can, and is about somebody else."""
    request = method.message()
    for named in row.names:
        _set(request, named.field, _sample(method.service, named), named.entry)
    if row.own:
        _set(request, row.own, "dns:somebody-else")
    return request


def needs(method: Method, row: Row) -> Sequence[Need]:
    """The needs of a request with all fields filled."""
    return needs_of(row, filled(method, row), LOOKUP)


def granted(role: Role, resources: Sequence[Resource]) -> Rights:
    """Rights in which the caller has a role on resources, as far as it can be granted there."""
    services = ServicePrincipals("braid.local")
    grants = [Grant(ME, role, where) for each in resources for where in _grantable(role, each)]
    return Rights({ME: grants} if role is not Role.SERVICE else {}, services=services)


def caller_of(role: Role) -> str:
    """The principal that has the role in `granted`."""
    return SERVICE if role is Role.SERVICE else ME


def allowed(role: Role, rights: Rights, wanted: Sequence[Need]) -> bool:
    """Whether all that is wanted is allowed."""
    return first_refused(decide(rights, caller_of(role), *need, now_ms=0) for need in wanted) is None


def cell(role: Role, wanted: Sequence[Need]) -> str:
    """The matrix cell of a role and a method."""
    if allowed(role, granted(role, [need.resource for need in wanted]), wanted):
        return "yes"
    return "mesh" if allowed(role, granted(role, [MESH]), wanted) else "-"


def matrix() -> str:
    """The text of the golden file."""
    roles = list(Role)
    head = f"{'method':30}{'action':9}{'about':46}{'when unnamed':14}"
    lines = [_HEAD, "", head + "".join(f"{role.value:13}" for role in roles)]
    for method in methods():
        row = row_of(method.service, method.name)
        if row is None:
            continue
        wanted = needs(method, row)
        about = " + ".join(_text(need, row) for need in wanted)
        unnamed = " + ".join(_text(need, row) for need in needs_of(row, method.message(), LOOKUP))
        cells = "".join(f"{cell(role, wanted):13}" for role in roles)
        shown = f"{method.service}/{method.name}"
        lines.append(f"{shown:30}{row.action.value:9}{about:46}{unnamed:14}{cells}")
    return "\n".join([*(line.rstrip() for line in lines), ""])


def _text(need: Need, row: Row) -> str:
    if need.action is Action.CONNECT:
        return "-"
    return f"{need.resource}" if need.action is row.action else f"{need.action.value} {need.resource}"


def _sample(service: str, named: Named) -> str:
    if named.history:
        return "stream/logs/lag-page/live/indexer" if named.part else HISTORIES[service]
    return f"{SAMPLES[named.kind]}/live/1/0" if named.part else SAMPLES[named.kind]


def _set(message: Message, path: str, text: str, entry: str = "") -> None:
    *parents, last = path.split(".")
    for parent in parents:
        message = cast("Message", getattr(message, parent))
    if entry:
        getattr(message, last)[entry] = text
    elif message.DESCRIPTOR.fields_by_name[last].is_repeated:
        getattr(message, last).append(text)
    else:
        setattr(message, last, text)


def _grantable(role: Role, resource: Resource) -> Sequence[Resource]:
    """Where a role is granted to have it on a resource; nowhere when it has no meaning there."""
    wanted = [Resource(kind, name) for kind, name in SAMPLES.items()] if resource == ANYTHING else [resource]
    return [each for each in wanted if each.kind in GRANTABLE and _has_meaning(role, each)]


def _has_meaning(role: Role, resource: Resource) -> bool:
    try:
        check_scope(role, resource, "resource")
    except Invalid:
        return False
    return True


if __name__ == "__main__":
    sys.stdout.write(matrix())
