"""The verbs of `dlq`: create, pause, resume and cancel replays. `get` and `describe` show them."""

from collections.abc import Callable
from typing import Annotated, Final

import typer

from braid.cli.core.execution import ContextOption, EndpointOption, OutputOption, execute
from braid.cli.core.output import parse_format
from braid.kernel.errors import Invalid
from braid.kernel.limits.envelope import CLI_REJECTED_FETCHED_MAX

_DLQ: Final = """Replay dead letters: send them again, at a rate that is bearable, as a job that survives crashes.

\b
  braid get deadletters --stream logs
  braid dlq replay --stream logs --where 'error=ValueError' --dry-run
  braid dlq replay --stream logs --where 'error=ValueError' --rate 500
  braid get replays -w
  braid dlq pause|resume|cancel REPLAY
  braid dlq promote GROUP                  what a group rejected in place, as dead letters
"""
_PROMOTE: Final = """Copy records that a group rejected in place to the dlq lane, while the log still has them.

\b
  braid get rejected indexer                                       what there is
  braid dlq promote indexer --dry-run
  braid dlq promote indexer --range logs/live/1/0@17-23
  braid get deadletters --where 'error=Rejected and group=indexer'
  braid dlq replay --stream logs --where 'error=Rejected and group=indexer'
"""
_REPLAY: Final = """Send dead letters again: to the lane each came from, for the group that gave it up alone.

\b
  braid dlq replay --stream logs --dry-run                     count, and show some
  braid dlq replay --stream logs --where 'error=ValueError and time>=2026-11-21T14:03' --rate 500
  braid dlq replay --stream logs --where 'group=indexer' --wait
  braid dlq replay --stream logs --to repaired/live            to another stream or lane
  braid dlq replay --stream logs --broadcast                   for every group that reads it

Filters: error, message, group, lane, key, id, attempts, time, partition, header.NAME; = != ~ < <= > >=;
and, or, not, parentheses. What arrives after the job was made is not part of it.
"""
_CHANGES: Final = {
    "pause": "Hold a replay; what was sent stays sent.",
    "resume": "Let a paused replay go on where it stopped.",
    "cancel": "End a replay; what was sent stays sent.",
}


def register(app: typer.Typer) -> None:
    """Adds `dlq` and its sub-commands to the application."""
    dlq = typer.Typer(rich_markup_mode=None, no_args_is_help=True)
    dlq.callback(help=_DLQ)(_dlq)
    dlq.command("replay", help=_REPLAY)(_replay)
    dlq.command("promote", help=_PROMOTE)(_promote)
    for verb, summary in _CHANGES.items():
        dlq.command(verb, help=f"{summary}\n\n\b\n  braid dlq {verb} REPLAY\n")(_change(verb))
    app.add_typer(dlq, name="dlq")


def _dlq() -> None:
    """Replay dead letters."""


def _replay(
    stream: Annotated[str, typer.Option(metavar="NAME", help="The stream with the dead letters.", show_default=False)],
    where: Annotated[str, typer.Option(metavar="FILTER", help="A filter for them; default: all.")] = "",
    rate: Annotated[
        float, typer.Option(metavar="N", min=0, show_default=False, help="At most this many records a second.")
    ] = 0.0,
    to: Annotated[
        str, typer.Option(metavar="STREAM[/LANE]", help="Send to this stream or lane instead of each letter's own.")
    ] = "",
    broadcast: Annotated[
        bool, typer.Option("--broadcast", help="For every group, not only for the one that gave the record up.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count what would be sent; send nothing.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until it ends.")] = False,
    output: OutputOption = "table",
    endpoint: EndpointOption = "",
    context: ContextOption = "",
) -> None:
    format = parse_format(output)
    if broadcast and to:
        raise Invalid(
            "a replay to another stream cannot be for every group of the origin",
            field="--broadcast",
            remedy="leave out one of both",
        )
    from braid.api.dlq.v1.replay_pb2 import ReplaySpec
    from braid.cli.dlq.replay_jobs import create_replay

    spec = ReplaySpec(stream=stream, filter=where, destination=to, rate_per_s=rate, broadcast=broadcast)
    execute(endpoint, context, lambda session: create_replay(session, spec, dry_run, wait, format))


def _promote(
    group: Annotated[str, typer.Argument(metavar="GROUP", show_default=False)],
    stream: Annotated[str, typer.Option(metavar="NAME", help="Only of this stream.")] = "",
    names: Annotated[
        list[str] | None, typer.Option("--range", metavar="LEASE@FIRST-LAST", help="This range; may be repeated.")
    ] = None,
    most: Annotated[
        int,
        typer.Option(
            "--max", min=1, max=CLI_REJECTED_FETCHED_MAX, metavar="N", help="Refuse to continue if there are more."
        ),
    ] = 1_000,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be copied; copy nothing.")] = False,
    endpoint: EndpointOption = "",
    context: ContextOption = "",
) -> None:
    from braid.cli.dlq.promote import promote

    execute(endpoint, context, lambda session: promote(session, group, stream, names or (), most, dry_run))


def _change(verb: str) -> Callable[[str, str, str], None]:
    def change(
        replay: Annotated[str, typer.Argument(metavar="REPLAY", show_default=False)],
        endpoint: EndpointOption = "",
        context: ContextOption = "",
    ) -> None:
        from braid.cli.dlq.replay_jobs import change_replay

        execute(endpoint, context, lambda session: change_replay(session, verb, replay))

    return change
