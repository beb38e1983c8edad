"""`reset`: moves a group's progress to a time, an offset or an end of the log, and prints how to undo it."""

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Final

import typer

from braid.cli.core.asking import confirm
from braid.cli.core.execution import ContextOption, DocumentOption, EndpointOption, YesOption, execute
from braid.cli.core.limits import CLI_WATCH_SECONDS
from braid.cli.core.output import Format, parse_format, render_document
from braid.cli.core.times import parse_time, to_ms
from braid.kernel.errors import Invalid
from braid.kernel.limits.assigner.leases import CLI_FENCING_SECONDS
from braid.kernel.limits.envelope import CLI_LEASES_SHOWN

if TYPE_CHECKING:
    from braid.api.assigner.v1.assigner_service_pb2 import ResetProgressRequest, ResetProgressResponse
    from braid.cli.core.session import Session

_RESET: Final = """Move a group's progress: what lies behind the new place is done, what lies before it comes again.

\b
  braid reset group indexer --stream logs --to earliest --dry-run
  braid reset group indexer --stream logs --to 2026-11-21T14:03   or 14:03, or 2h (ago)
  braid reset group indexer --stream logs --lane bulk --to latest --yes
  braid reset group indexer --offset logs/live/1/0=17             one lease; may be repeated
  braid events --for group/indexer                                who did it, and what was before

Members of the group must have been stopped: while leases are held it is refused. Nothing is granted before the
clusters hold the new progress.
"""


def register(app: typer.Typer) -> None:
    """Adds the verb to the application."""
    app.command("reset", help=_RESET)(_reset)


def _reset(
    type_: Annotated[str, typer.Argument(metavar="TYPE", show_default=False)],
    name: Annotated[str, typer.Argument(metavar="NAME", show_default=False)],
    stream: Annotated[str, typer.Option(metavar="NAME", help="Only of this stream.")] = "",
    lane: Annotated[str, typer.Option(metavar="NAME", help="Only of this lane.")] = "",
    to: Annotated[str, typer.Option("--to", metavar="earliest|latest|TIME", help="Where to.")] = "",
    offset: Annotated[
        list[str] | None, typer.Option("--offset", metavar="LEASE=N", help="Set one lease's offset; may be repeated.")
    ] = None,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Kept in the group's history.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would change; change nothing.")] = False,
    yes: YesOption = False,
    output: DocumentOption = "table",
    endpoint: EndpointOption = "",
    context: ContextOption = "",
) -> None:
    from braid.cli.core.kinds import GROUP, parse_kind

    parse_kind(type_, "reset", (GROUP,))
    format = parse_format(output, (Format.TABLE, Format.JSON, Format.YAML))
    if bool(to) == bool(offset):
        raise Invalid(
            "give exactly one of the destinations", field="--to", remedy="use --to earliest|latest|TIME, or --offset"
        )
    if to and not stream:
        raise Invalid("say of which stream", field="--stream", remedy="--stream NAME")
    from braid.api.assigner.v1 import group_pb2
    from braid.api.assigner.v1.assigner_service_pb2 import ResetOffset, ResetProgressRequest

    start = group_pb2.StartPosition()
    if to in ("earliest", "latest"):
        setattr(start, to, True)
    elif to:
        start.time_ms = to_ms(parse_time(to, datetime.now().astimezone(), "--to"))
    request = ResetProgressRequest(
        group=name,
        stream=stream,
        lane=lane,
        to=start if to else None,
        offsets=[ResetOffset(lease=lease, offset=at) for lease, at in map(_parse_offset, offset or ())],
        reason=reason,
        dry_run=dry_run,
    )
    if not dry_run:
        told = f"This moves the progress of group {name}: records may be passed over, or handled again."
        confirm(f"group {name}", name, yes, verb="reset", told=told)
    execute(endpoint, context, lambda session: _run(session, request, format))


def _parse_offset(text: str) -> tuple[str, int]:
    lease, _, number = text.rpartition("=")
    if not lease or not number.isdecimal():
        remedy = "write LEASE=N, for example logs/live/1/0=17"
        raise Invalid(f"{text!r} is no lease's offset", field="--offset", remedy=remedy)
    return lease, int(number)


async def _run(session: "Session", request: "ResetProgressRequest", format: Format) -> int:
    from braid.api.assigner.v1.assigner_service_pb2 import ResetProgressResponse
    from braid.cli.core.documents import to_document
    from braid.cli.core.lists import all_groups
    from braid.cli.core.session import missing_among
    from braid.kernel.errors import NotFound

    group = request.group
    try:
        found = await session.change(
            "assigner", "ResetProgress", request, ResetProgressResponse, f"moving progress of {group}"
        )
    except NotFound as error:
        if error.field == "group":
            raise await missing_among(error, group, all_groups(session)) from error
        raise
    if format is not Format.TABLE:
        session.terminal.print(render_document(format, to_document(found)))
    else:
        session.terminal.print("\n".join(_lines(group, found, request.dry_run)))
    if request.dry_run:
        if found.refusal:
            session.terminal.note(f"it would be refused now: {found.refusal}")
        return 0
    left = await _written(session, group)
    if left:
        session.terminal.note(
            f"{', '.join(left)} still wait for their cluster; nothing is granted there until then: "
            f"braid events --for group/{group}"
        )
    session.terminal.note(f"take it back: {_undo(group, found)}")
    return 0


def _lines(group: str, found: "ResetProgressResponse", dry_run: bool) -> list[str]:
    parts = found.partitions
    again = sum(max(0, each.before - max(each.after, each.log_start)) for each in parts if each.before >= 0)
    passed = sum(max(0, each.after - max(each.before, each.log_start)) for each in parts)
    done = "would be moved (dry run: nothing was changed)" if dry_run else "moved"
    lines = [f"group/{group} progress of {len(parts)} leases {done}: {again:,} offsets again, {passed:,} passed over"]
    shown = parts[:CLI_LEASES_SHOWN]
    width = max((len(each.lease) for each in shown), default=0)
    lines += [
        f"  {each.lease:{width}}  {each.before if each.before >= 0 else '-'} → {each.after}"
        f"  (log {each.log_start} to {each.log_end})"
        for each in shown
    ]
    if len(parts) > len(shown):
        lines.append(f"  … and {len(parts) - len(shown)} more: -o json shows them all")
    return lines


def _undo(group: str, found: "ResetProgressResponse") -> str:
    """The command that sets every lease back to its old base; records done beyond it are repeated."""
    before = [each for each in found.partitions if each.before >= 0]
    if len(before) > CLI_LEASES_SHOWN:
        return f"the offsets of before are in braid events --for group/{group} -o json (ResetIntended)"
    return f"braid reset group {group} " + " ".join(f"--offset {each.lease}={each.before}" for each in before)


async def _written(session: "Session", name: str) -> list[str]:
    """Waits until the clusters have stored it; returns the channels where they did not in time."""
    from braid.api.assigner.v1 import assigner_service_pb2 as api
    from braid.api.assigner.v1 import group_pb2

    clock = session.ports.host.clock
    deadline = clock.elapsed() + CLI_FENCING_SECONDS
    try:
        while True:
            group = await session.read("assigner", "GetGroup", api.GetGroupRequest(name=name), group_pb2.Group)
            left = list(group.status.resetting_channels)
            if not left or clock.elapsed() >= deadline:
                return left
            session.terminal.progress(f"progress is written in {', '.join(left)}")
            await clock.sleep(CLI_WATCH_SECONDS)
    finally:
        session.terminal.progress("")
