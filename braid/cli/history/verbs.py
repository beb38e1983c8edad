"""`events`: every decision of the mesh with its cause, up to a moment or as they happen."""

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Final

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
  braid events --at 14:03                  as it was known then
  braid events -w                          as they happen
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
    most: Annotated[int, typer.Option("--max", min=0, metavar="N", help="The latest N; 0 for all.")] = MOST_DEFAULT,
    output: OutputOption = "table",
    endpoint: EndpointOption = "",
    context: ContextOption = "",
) -> None:
    show_events(for_, at, watch, most, parse_format(output), endpoint, context)


def show_events(for_: str, at: str, watch: bool, most: int, format: Format, endpoint: str, context: str) -> None:
    """Runs the verb; `get events` calls it too, with `most` 0 for its default.

    Raises:
        Invalid: `for_` or `at` is malformed, or the arguments contradict each other.
    """
    if watch and at:
        raise Invalid("a watch shows the future, and --at the past", field="--at", remedy="leave out -w or --at")
    until_ms = to_ms(parse_time(at, datetime.now().astimezone(), "--at")) if at else 0
    from braid.cli.history.feed import parse_subject

    subject = parse_subject(for_)
    execute(endpoint, context, lambda session: _show(session, subject, until_ms, most, format, watch))


async def _show(session: "Session", subject: "Subject", until_ms: int, most: int, format: Format, watch: bool) -> int:
    from braid.cli.history.feed import COLUMNS, event_item, follow_events, list_events

    found = await list_events(session, subject, until_ms, most)
    records = found.records
    if until_ms or subject.history:
        found.note_gaps(session)
    if not records and not found.gaps and subject.history and not watch:
        raise NotFound(f"nothing is recorded of {subject.history}", remedy="check the name: braid get streams")
    items = [event_item(each) for each in records[-most if most else 0 :]]
    if not watch:
        text = render(format, COLUMNS, items, session.now_ms, narrow=session.terminal.narrow)
        session.terminal.print_table(format, text)
        return 0
    session.interrupt_code = 0
    _print_some(session, format, items, header=True)
    async for record in follow_events(session, subject, found):
        _print_some(session, format, [event_item(record)], header=False)
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
