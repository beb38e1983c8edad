"""`braid set fencing`: switches a group between lent generations and plain commits, and waits for the change."""

from typing import TYPE_CHECKING, Final

from braid.cli.core.limits import CLI_WATCH_SECONDS
from braid.kernel.errors import Invalid, NotFound
from braid.kernel.limits.assigner.leases import CLI_FENCING_SECONDS

if TYPE_CHECKING:
    from braid.api.assigner.v1.group_pb2 import Group
    from braid.cli.core.session import Session

FENCINGS: Final = ("generation", "none")


async def set_fencing(session: "Session", name: str, fencing: str) -> int:
    """Changes the fencing of a group without members; its progress is kept.

    Raises:
        Invalid: there is no such kind of fencing.
        NotFound: the group does not exist; the nearest one is named.
        Refused: it has members, or its previous change is not complete.
    """
    from braid.api.assigner.v1 import assigner_service_pb2 as api
    from braid.api.assigner.v1 import group_pb2
    from braid.cli.core.lists import all_groups
    from braid.cli.core.session import missing_among

    if fencing not in FENCINGS:
        raise Invalid(f"{fencing!r} is not one of the choices", field="FENCING", remedy=f"use {' or '.join(FENCINGS)}")
    wanted = group_pb2.GroupSpec(fencing=group_pb2.Fencing.Value(f"FENCING_{fencing.upper()}"))
    request = api.UpdateGroupRequest(name=name, spec=wanted)
    try:
        group = await session.change("assigner", "UpdateGroup", request, group_pb2.Group, f"changing {name}")
    except NotFound as error:
        raise await missing_among(error, name, all_groups(session)) from error
    left = await _ended(session, group)
    session.terminal.print(f"group/{name} fencing: {fencing}")
    if left:
        session.terminal.note(
            f"its membership has yet to end on {', '.join(left)}; nothing is granted there until then: "
            f"braid events --for group/{name}"
        )
    return 0


async def _ended(session: "Session", group: "Group") -> list[str]:
    """Waits until the group's Kafka memberships ended; returns the clusters where they did not in time."""
    from braid.api.assigner.v1 import assigner_service_pb2 as api
    from braid.api.assigner.v1 import group_pb2

    clock = session.ports.host.clock
    deadline = clock.elapsed() + CLI_FENCING_SECONDS
    try:
        while group.status.ending_clusters and clock.elapsed() < deadline:
            session.terminal.progress(f"its progress is kept on {', '.join(group.status.ending_clusters)}")
            await clock.sleep(CLI_WATCH_SECONDS)
            request = api.GetGroupRequest(name=group.name)
            group = await session.read("assigner", "GetGroup", request, group_pb2.Group)
    finally:
        session.terminal.progress("")
    return list(group.status.ending_clusters)
