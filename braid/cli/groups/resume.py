"""`resume`: lets members of a group continue with a lane they have stopped."""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from braid.cli.core.execution import ContextOption, EndpointOption, execute
from braid.cli.core.kinds import GROUP, parse_kind
from braid.cli.core.limits import CLI_WATCH_SECONDS
from braid.kernel.errors import NotFound
from braid.kernel.limits.envelope import CLI_RESUME_SECONDS

if TYPE_CHECKING:
    from braid.api.assigner.v1.group_pb2 import Group
    from braid.cli.core.session import Session

_RESUME: Final = """Let members go on with a lane they have stopped with, for too many dead letters or failures.

\b
  braid get members -o wide                          who has stopped with what, and why
  braid resume group indexer --lane live             all of them
  braid resume group indexer --lane live --member web-1

Mend the handler first: a member that would dead-letter as many again stops again, and loses nothing. One whose lane
failed through no fault of its records tries it by itself now and then, and needs no command.
"""


def register(app: typer.Typer) -> None:
    """Adds the verb to the application."""
    app.command("resume", help=_RESUME)(_resume)


def _resume(
    type_: Annotated[str, typer.Argument(metavar="TYPE", show_default=False)],
    name: Annotated[str, typer.Argument(metavar="NAME", show_default=False)],
    lane: Annotated[str, typer.Option(metavar="NAME", help="Which lane.", show_default=False)],
    member: Annotated[str, typer.Option(metavar="MEMBER", help="Only this member; default: all that stopped.")] = "",
    endpoint: EndpointOption = "",
    context: ContextOption = "",
) -> None:
    parse_kind(type_, "resume", (GROUP,))
    execute(endpoint, context, lambda session: _run(session, name, lane, member))


async def _run(session: "Session", name: str, lane: str, member: str) -> int:
    from braid.api.assigner.v1.assigner_service_pb2 import ResumeLaneRequest
    from braid.api.assigner.v1.group_pb2 import Group
    from braid.cli.core.lists import all_groups
    from braid.cli.core.session import missing_among

    request = ResumeLaneRequest(group=name, lane=lane, member=member)
    try:
        group = await session.change("assigner", "ResumeLane", request, Group, f"resuming {lane}")
    except NotFound as error:
        if error.field == "lane":
            raise
        raise await missing_among(error, name, all_groups(session)) from error
    group = await _gone_on(session, group, lane, member)
    left = _still(group, lane, member)
    session.terminal.print(f"group/{name} lane {lane} {'asked to go on' if left else 'goes on'}")
    for each in left:
        session.terminal.note(f"not yet: {each}; watch it: braid get members --group {name} -w")
    return 0


async def _gone_on(session: "Session", group: "Group", lane: str, member: str) -> "Group":
    """The group once those members report that they continue, or after a time-out."""
    from braid.api.assigner.v1 import assigner_service_pb2 as api
    from braid.api.assigner.v1 import group_pb2

    clock = session.ports.host.clock
    deadline = clock.elapsed() + CLI_RESUME_SECONDS
    while _still(group, lane, member) and clock.elapsed() < deadline:
        await clock.sleep(CLI_WATCH_SECONDS)
        group = await session.read("assigner", "GetGroup", api.GetGroupRequest(name=group.name), group_pb2.Group)
    return group


def _still(group: "Group", lane: str, member: str) -> list[str]:
    return [each for each in group.status.stopped_lanes if each.startswith(f"{lane} at {member}")]
