"""Approvals of destructive requests about groups: what such a request is about, and the check that it still is."""

from collections.abc import Iterable

from google.protobuf.message import Message

from braid.kernel.access.approvals import GuardedVerb
from braid.kernel.access.roles import Resource, ResourceKind
from braid.kernel.errors import Conflict
from braid.kernel.ports import Caller
from braid.runtime.access.approvals import Destruction
from braid.runtime.replica import Replica
from services.assigner.model.group import Group
from services.assigner.reconciler.group_loop import GROUPS


async def require_approval(
    replica: Replica,
    rpc: str,
    request: Message,
    verb: GuardedVerb,
    group: Group,
    streams: Iterable[str],
    caller: Caller,
) -> None:
    """Lets a destructive request about a group and its streams through, if it needs no approval or has one.

    Raises:
        Conflict: the group was registered anew meanwhile.
        BraidError: as `Approvals.require` does.
    """
    resources = (
        Resource(ResourceKind.GROUP, group.name),
        *(Resource(ResourceKind.STREAM, name) for name in sorted(streams)),
    )
    destruction = Destruction((verb,), resources, str(group.created_at_ms))
    await replica.approvals.require(rpc, request, destruction, caller)
    now = replica.aggregates.state(GROUPS, group.name)
    if now.spec is None or now.created_at_ms != group.created_at_ms:
        raise Conflict(f"group {group.name} was deleted or registered anew", field="group", remedy="look again")
