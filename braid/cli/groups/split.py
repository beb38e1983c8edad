"""`split`: lets holders of lagging leases work at the end of the log and on the backlog at once."""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from braid.cli.core.execution import ContextOption, EndpointOption, execute
from braid.cli.core.limits import CLI_WATCH_SECONDS
from braid.kernel.errors import NotFound
from braid.kernel.limits.client import BACKLOG_PERMILLE_DEFAULT
from braid.kernel.limits.envelope import CLI_SPLIT_SECONDS

if TYPE_CHECKING:
    from braid.api.assigner.v1.group_pb2 import Group, LeaseSplitStatus
    from braid.cli.core.session import Session

_SHARE: Final = BACKLOG_PERMILLE_DEFAULT / 1_000
_SPLIT: Final = """Let a group that is far behind work on what is new at once, and on its backlog beside that.

\b
  braid split indexer logs                               all leases of the stream
  braid split indexer logs --lane live --partition 3 --share 0.5
  braid describe group indexer                           which leases are split, and since when
  braid get lag indexer                                  the lag of the backlog, and of what is live

The backlog has the share of the memory, turns and handlers that its lane has at its member; what is new has the rest.
A split outlives its member and closes itself once the backlog is done. Records of a key keep their order within the
backlog and within what is new, not between them: a group with an order is split with --relaxed only.
"""


def register(app: typer.Typer) -> None:
    """Adds the verb to the application."""
    app.command("split", help=_SPLIT)(_split)


def _split(
    group: Annotated[str, typer.Argument(metavar="GROUP", show_default=False)],
    stream: Annotated[str, typer.Argument(metavar="STREAM", show_default=False)],
    lane: Annotated[str, typer.Option(metavar="NAME", help="Only of this lane.")] = "",
    partition: Annotated[int | None, typer.Option(min=0, metavar="N", help="Only of this partition.")] = None,
    share: Annotated[float, typer.Option(metavar="PART", help="The backlog's share, above 0 and below 1.")] = _SHARE,
    relaxed: Annotated[bool, typer.Option("--relaxed", help="Keep the order of a key only within each part.")] = False,
    endpoint: EndpointOption = "",
    context: ContextOption = "",
) -> None:
    from braid.api.assigner.v1.assigner_service_pb2 import SplitBacklogRequest

    request = SplitBacklogRequest(
        group=group, stream=stream, lane=lane, partition=partition, share=share, relaxed=relaxed
    )
    execute(endpoint, context, lambda session: _run(session, request))


async def _run(session: "Session", request: object) -> int:
    from braid.api.assigner.v1.assigner_service_pb2 import SplitBacklogRequest
    from braid.api.assigner.v1.group_pb2 import Group
    from braid.cli.core.lists import all_groups
    from braid.cli.core.session import missing_among

    assert isinstance(request, SplitBacklogRequest), "made above"
    try:
        group = await session.change("assigner", "SplitBacklog", request, Group, f"splitting {request.stream}")
    except NotFound as error:
        if error.field == "stream":
            raise
        raise await missing_among(error, request.group, all_groups(session)) from error
    meant = {each.lease for each in group.status.splits if each.asked}
    known = {each.lease: each for each in await _answered(session, group, meant)}
    for lease in sorted(meant):
        if lease not in known:  # a wish ends with its holder
            session.terminal.note(f"{lease} is not split, or not any more: it may have moved meanwhile; say it again")
        elif known[lease].asked:
            session.terminal.note(f"no answer yet: {lease}; see later: braid describe group {request.group}")
        else:
            session.terminal.print(f"lease/{lease} {split_text(known[lease])}")
    return 0


def split_text(split: "LeaseSplitStatus") -> str:
    """The state of one lease's split."""
    if split.asked:
        return "was asked to be split"
    if split.refused:
        return f"is not split: {split.refused}"
    return f"is split at {split.at}, {split.share:.0%} for what lies behind"


async def _group(session: "Session", name: str) -> "Group":
    from braid.api.assigner.v1 import assigner_service_pb2 as api
    from braid.api.assigner.v1 import group_pb2

    return await session.read("assigner", "GetGroup", api.GetGroupRequest(name=name), group_pb2.Group)


async def _answered(session: "Session", group: "Group", meant: set[str]) -> "list[LeaseSplitStatus]":
    """The state of those leases once all holders have answered, or after a time-out; none for a lease that moved."""
    clock = session.ports.host.clock
    deadline = clock.elapsed() + CLI_SPLIT_SECONDS
    while any(each.asked for each in group.status.splits if each.lease in meant) and clock.elapsed() < deadline:
        await clock.sleep(CLI_WATCH_SECONDS)
        group = await _group(session, group.name)
    return [each for each in group.status.splits if each.lease in meant]
