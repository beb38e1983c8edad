"""`events`: every decision of the mesh with its cause, up to a moment or as they happen."""

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import typer

from braid.cli.core.execution import ContextOption, EndpointOption, OutputOption, execute
from braid.cli.core.output import Format, Item, parse_format, render, render_line
from braid.cli.core.times import parse_time, to_ms
from braid.kernel.errors import Invalid, NotFound

if TYPE_CHECKING:
    from braid.cli.core.session import Session
    from braid.cli.history.feed import Subject

_EVENTS: Final = """Show what the mesh decided, oldest first, with who and why.

\b
  braid events                             the latest of everything
  braid events --for stream/logs -o wide   with causes and request ids
  braid events --for grants/mesh           who gave which right, took it, and why
  braid events --for approvals/mesh        who asked for what, who approved it, and which request used it
  braid events --for revocations/mesh      who revoked whom
  braid events --at 14:03                  as it was known then
  braid events -w                          as they happen
  braid events --calls                     who called what, and how it ended
  braid events --refused --since 2d        what was refused
  braid events --actor dns:web             what one caller asked for, and what came of it
  braid events --for group/indexer -o json
"""
MOST_DEFAULT: Final = 50


def register(app: typer.Typer) -> None:
    """Adds the verb to the application."""
    app.command("events", help=_EVENTS)(_events)


def _events(
    for_: Annotated[
        str, typer.Option("--for", metavar="TYPE/NAME", help="Only events of this stream, cluster, group or replay.")
    ] = "",
    at: Annotated[str, typer.Option(metavar="TIME", help="Up to then: 2026-11-21T14:03:00Z, 14:03, 10m (ago).")] = "",
    watch: Annotated[
        bool, typer.Option("-w", "--watch", help="Keep running, and print events as they happen.")
    ] = False,
    actor: Annotated[
        str, typer.Option(metavar="PRINCIPAL", help="Only what this caller or instance did, calls included.")
    ] = "",
    calls: Annotated[bool, typer.Option("--calls", help="Only records of calls.")] = False,
    refused: Annotated[bool, typer.Option("--refused", help="Only calls that were refused.")] = False,
    rpc: Annotated[str, typer.Option(metavar="METHOD", help="Only calls of this method, as DeleteStream.")] = "",
    since: Annotated[str, typer.Option(metavar="TIME", help="From then on: 14:03, 2d (ago).")] = "",
    to_stream: Annotated[
        str, typer.Option("--to-stream", metavar="STREAM", help="With -w: send them to this stream, as JSON.")
    ] = "",
    most: Annotated[int, typer.Option("--max", min=0, metavar="N", help="The latest N; 0 for all.")] = MOST_DEFAULT,
    output: OutputOption = "table",
    endpoint: EndpointOption = "",
    context: ContextOption = "",
) -> None:
    query = Query(for_, at, watch, most, actor, calls or refused or bool(rpc), refused, rpc, since, to_stream)
    show_events(query, parse_format(output), endpoint, context)


class Query(NamedTuple):
    """Which events are asked for, as typed.

    Attributes:
        calls: Only records of calls.
        to_stream: Where to send them instead of printing them.
    """

    for_: str = ""
    at: str = ""
    watch: bool = False
    most: int = 0
    actor: str = ""
    calls: bool = False
    refused: bool = False
    rpc: str = ""
    since: str = ""
    to_stream: str = ""

    @property
    def narrowed(self) -> bool:
        """Whether some are left out by what they say, so that the latest cannot be counted before."""
        return bool(self.actor or self.refused or self.rpc or self.since or (self.calls and self.for_))


def show_events(query: Query, format: Format, endpoint: str, context: str) -> None:
    """Runs the verb; `get events` comes here too, with `most` 0 for its default.

    Raises:
        Invalid: a name or time is out of form, or what cannot go together is asked for.
    """
    if query.watch and query.at:
        raise Invalid("a watch shows the future, and --at the past", field="--at", remedy="leave out -w or --at")
    if query.to_stream and not query.watch:
        raise Invalid("events are sent to a stream as they happen", field="--to-stream", remedy="add -w")
    now = datetime.now().astimezone()
    until_ms = to_ms(parse_time(query.at, now, "--at")) if query.at else 0
    since_ms = to_ms(parse_time(query.since, now, "--since")) if query.since else 0
    from braid.cli.history.feed import parse_subject

    subject = parse_subject(query.for_)
    execute(endpoint, context, lambda session: _show(session, query, subject, (since_ms, until_ms), format))


async def _show(session: "Session", query: Query, subject: "Subject", times_ms: tuple[int, int], format: Format) -> int:
    from braid.cli.history.feed import COLUMNS
    from braid.cli.history.sources import event_or_call_item, opened

    since_ms, until_ms = times_ms
    events = await opened(session, query, subject, since_ms, until_ms)
    records = events.listed.records
    if until_ms or subject.history:
        events.listed.note_gaps(session)
    if not records and not events.listed.gaps and subject.history and not query.watch:
        listed = "alerts" if subject.history.startswith("alerts/") else "streams"
        raise NotFound(f"nothing is recorded of {subject.history}", remedy=f"see what there is: braid get {listed}")
    items = [event_or_call_item(each) for each in records[-query.most if query.most else 0 :]]
    if not query.watch:
        if not items and format in (Format.TABLE, Format.WIDE):
            session.terminal.note("no events match")
            return 0
        text = render(format, COLUMNS, items, session.now_ms, narrow=session.terminal.narrow)
        session.terminal.print_table(format, text)
        return 0
    session.interrupt_code = 0
    if query.to_stream:
        from braid.cli.history.forwarding import forward

        return await forward(session, query.to_stream, items, events.followed())
    _print_some(session, format, items, header=True)
    async for record in events.followed():
        _print_some(session, format, [event_or_call_item(record)], header=False)
    return 0


def _print_some(session: "Session", format: Format, items: list[Item], *, header: bool) -> None:
    """Prints some events of a longer output: in JSON, one per line."""
    from braid.cli.history.feed import COLUMNS

    if format is Format.JSON:
        for item in items:
            session.terminal.print(render_line(item.document))
        return
    narrow = session.terminal.narrow
    text = render(format, COLUMNS, items, session.now_ms, narrow=narrow, listed=False, header=header)
    if text:
        session.terminal.print_table(format, text)
