"""`drill`: rehearses a failure on this mesh, with a stream of the drill's own."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Final

import typer

from braid.cli.core.asking import require_terminal
from braid.cli.core.endpoints import Choice, find_endpoint, typed
from braid.cli.core.execution import ContextOption, EndpointOption, YesOption, execute
from braid.cli.core.output import Format, parse_format
from braid.kernel.errors import Invalid
from braid.kernel.limits.registry.drill import DRILL_RATE_MAX

_DRILL: Final = """Rehearse a failure on this mesh: with a stream of its own, placed like yours, and a verdict.

\b
  braid drill cluster-loss --stream logs               its cluster goes; how soon is it elsewhere, is anything lost?
  braid drill broker-loss --stream logs --broker 2     one broker of several goes
  braid drill member-loss --stream logs                a consuming process is killed
  braid drill move --stream logs --for 30s             a planned move
  braid drill clean                                    remove what killed drills left behind

A drill makes a stream `drill-…` on the clusters of the stream named, with a group of its own, and removes both. Streams
of applications are not touched. Clusters and brokers are not broken: only the drill's own processes refuse connections
to them, and what these report is judged for the drill's stream alone.
"""
_KINDS: Final = {
    "move": """Rehearse a planned move: how long do producers wait, is anything lost?

\b
  braid drill move --stream logs
  braid drill move --stream logs --for 30s --yes -o json
""",
    "cluster-loss": """Rehearse the loss of a cluster: how soon is traffic elsewhere, is anything lost?

\b
  braid drill cluster-loss --stream logs
  braid drill cluster-loss --stream logs --for 30s --yes -o json
""",
    "broker-loss": """Rehearse the loss of one broker of several.

\b
  braid drill broker-loss --stream logs --broker 2
""",
    "member-loss": """Rehearse the loss of a consuming process: how soon do survivors work on its partitions?

\b
  braid drill member-loss --stream logs
""",
}
_CLEAN: Final = """Remove streams and groups that drills left behind when they were killed.

\b
  braid drill clean
"""
_Stream = Annotated[str, typer.Option("--stream", metavar="NAME", help="The stream to rehearse the failure for.")]
_For = Annotated[str, typer.Option("--for", metavar="TIME", help="How long to send records: 60s, 5m.")]
_Rate = Annotated[int, typer.Option(min=1, max=DRILL_RATE_MAX, metavar="N", help="Records a second, of 100 bytes.")]
_Output = Annotated[str, typer.Option("-o", "--output", metavar="FORMAT", help="table or json.")]
_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600}


def register(app: typer.Typer) -> None:
    """Adds `drill` and its kinds to the application."""
    drill = typer.Typer(rich_markup_mode=None, no_args_is_help=True)
    drill.callback(help=_DRILL)(_drill)
    for kind, text in _KINDS.items():
        drill.command(kind, help=text)(_broker_loss if kind == "broker-loss" else _rehearse(kind))
    drill.command("clean", help=_CLEAN)(_clean)
    app.add_typer(drill, name="drill")


def _drill() -> None:
    """Rehearse a failure on this mesh."""


def _rehearse(kind: str) -> Callable[..., None]:
    def rehearse(
        stream: _Stream,
        for_: _For = "60s",
        rate: _Rate = 100,
        yes: YesOption = False,
        output: _Output = "table",
        endpoint: EndpointOption = "",
        context: ContextOption = "",
    ) -> None:
        _play(kind, stream, for_, -1, rate, yes, output, typed(endpoint, context))

    return rehearse


def _broker_loss(
    stream: _Stream,
    broker: Annotated[int, typer.Option(min=0, metavar="ID", help="The number of the broker to lose.")],
    for_: _For = "60s",
    rate: _Rate = 100,
    yes: YesOption = False,
    output: _Output = "table",
    endpoint: EndpointOption = "",
    context: ContextOption = "",
) -> None:
    _play("broker-loss", stream, for_, broker, rate, yes, output, typed(endpoint, context))


def _play(kind: str, stream: str, for_: str, broker: int, rate: int, yes: bool, output: str, choice: Choice) -> None:
    format = parse_format(output, (Format.TABLE, Format.JSON))
    seconds = parse_seconds(for_)
    require_terminal(yes, f"play the drill {kind}")
    from braid.cli.drill.play import rehearse
    from braid.drill.plan import DrillKind, Order

    order = Order(DrillKind(kind), stream, seconds, broker, rate)
    addresses = ",".join(find_endpoint(choice, os.environ, Path.cwd()).addresses)
    execute(choice.endpoint or "", choice.context, lambda session: rehearse(session, order, addresses, yes, format))


def _clean(yes: YesOption = False, endpoint: EndpointOption = "", context: ContextOption = "") -> None:
    require_terminal(yes, "remove them")
    from braid.cli.drill.play import clean

    execute(endpoint, context, lambda session: clean(session, yes))


def parse_seconds(text: str) -> float:
    """Parses `60s`, `5m`, `1h` to seconds. Raises `Invalid`."""
    number, unit = text[:-1], text[-1:]
    if unit not in _SECONDS or not number.isdecimal() or len(number) > 6:
        raise Invalid(f"{text!r} is not a length of time", field="--for", remedy="for example 60s, 5m or 1h")
    return float(int(number) * _SECONDS[unit])
