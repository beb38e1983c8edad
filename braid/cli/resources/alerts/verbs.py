"""Defines the verb `silence` for alerts. `braid get alerts` and `braid describe alert` show alerts."""

from typing import Annotated, Final

import typer

from braid.cli.core.execution import ContextOption, EndpointOption, execute
from braid.cli.core.times import parse_duration
from braid.kernel.errors import Invalid

_SILENCE: Final = """Silence an alert for a time, whether it fires or not. It takes a reason.

\b
  braid get alerts                                        what fires
  braid silence stream/logs/lag-page/live/indexer --for 2h --reason 'ticket 17'
  braid silence stream/logs/lag-page/live/indexer --end

A silenced alert still fires and is resolved; it is shown as SILENCED. No silence lasts longer than 30 days.
"""


def register(app: typer.Typer) -> None:
    """Adds the verb to the application."""
    app.command("silence", help=_SILENCE)(_silence)


def _silence(
    alert: Annotated[str, typer.Argument(metavar="ALERT", show_default=False)],
    lasting: Annotated[str, typer.Option("--for", metavar="TIME", help="How long: 30m, 8h, 7d.")] = "",
    reason: Annotated[str, typer.Option(metavar="TEXT", help="What is being done about it.")] = "",
    end: Annotated[bool, typer.Option("--end", help="End its silence.")] = False,
    endpoint: EndpointOption = "",
    context: ContextOption = "",
) -> None:
    if end and (lasting or reason):
        raise Invalid("a silence is made or ended", field="--end", remedy="leave out --for and --reason")
    if not end and not lasting:
        raise Invalid("no silence is for ever", field="--for", remedy="say how long, for example --for 2h")
    lasting_ms = parse_duration(lasting, "--for") if lasting else 0
    from braid.cli.resources.alerts.silences import end_silence, silence

    if end:
        execute(endpoint, context, lambda session: end_silence(session, alert))
    else:
        execute(endpoint, context, lambda session: silence(session, alert, lasting_ms, reason))
