"""The verbs about where traffic goes: `move`, `cordon`, `uncordon`, `decommission`."""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from braid.cli.core.asking import confirm
from braid.cli.core.execution import ContextOption, DocumentOption, DryRunOption, EndpointOption, YesOption, execute
from braid.cli.core.kinds import CLUSTER, STREAM, parse_kind
from braid.cli.core.output import Format, parse_format, render_document
from braid.kernel.errors import Invalid, NotFound
from braid.kernel.limits.registry.traffic import DECOMMISSION_WAIT_SECONDS

if TYPE_CHECKING:
    from braid.api.registry.v1.registry_service_pb2 import (
        ChannelMove,
        DecommissionClusterRequest,
        MoveStreamRequest,
        MoveStreamResponse,
    )
    from braid.api.registry.v1.stream_pb2 import Stream
    from braid.cli.core.session import Session

_MOVE: Final = """Move a stream's traffic to another cluster, under load. What was written stays until it is consumed.

\b
  braid move stream logs --to west
  braid move stream logs --to west --lane live
  braid move stream logs --to west --dry-run
  braid move stream logs --away-from east              off it, to wherever there is room
  braid move stream logs --to west --lane live --partitions 8
  braid move stream logs --to west --percent 10        a trial: a tenth of the records
  braid move stream logs --to west --percent 0         take the trial back; 100 completes it
  braid move stream logs --spread east=3,west=1        on both, by weight
  braid move stream logs --to west --wait              until what it left is drained
  braid get channels logs -w               watch the old channels drain
"""
_CORDON: Final = """Take a cluster out of the choice for new traffic. What it carries stays.

\b
  braid cordon cluster east
  braid uncordon cluster east              take it back
"""
_UNCORDON: Final = """Let a cluster take new traffic again.

\b
  braid uncordon cluster east
"""
_DECOMMISSION: Final = """Empty a cluster: it takes no new traffic, and every stream on it leaves, some at a time.

\b
  braid decommission cluster east --dry-run            what would leave, and where to
  braid decommission cluster east --reason "new disks"
  braid describe cluster east                          how far it is, and what holds it
  braid decommission cluster east --wait               until nothing is left
  braid decommission cluster east --cancel             take it back; what has left stays
  braid decommission cluster east --discard-drained    delete what is kept for replays
  braid delete cluster east                            when it is empty
"""
_Type = Annotated[str, typer.Argument(metavar="TYPE", show_default=False)]
_Name = Annotated[str, typer.Argument(metavar="NAME", show_default=False)]
_Timeout = Annotated[float, typer.Option(metavar="SECONDS", help="Wait at most this long.")]


def register(app: typer.Typer) -> None:
    """Adds the verbs to the application."""
    app.command("move", help=_MOVE)(_move)
    app.command("cordon", help=_CORDON)(_cordon)
    app.command("uncordon", help=_UNCORDON)(_uncordon)
    app.command("decommission", help=_DECOMMISSION)(_decommission)


def _move(
    type_: _Type,
    name: _Name,
    to: Annotated[str, typer.Option(metavar="CLUSTER", help="Where to.", show_default=False)] = "",
    away_from: Annotated[
        str, typer.Option(metavar="CLUSTER", help="Leave this cluster for the best other one.", show_default=False)
    ] = "",
    percent: Annotated[
        float | None,
        typer.Option(metavar="N", show_default=False, help="Move this share of the records; the rest stays."),
    ] = None,
    spread: Annotated[str, typer.Option(metavar="CLUSTER=WEIGHT,…", help="Use exactly these clusters.")] = "",
    lane: Annotated[
        list[str] | None, typer.Option("--lane", metavar="NAME", help="Only this lane; may be repeated.")
    ] = None,
    partitions: Annotated[
        int, typer.Option(metavar="N", show_default=False, help="The new number of partitions of the named lanes.")
    ] = 0,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Kept in the stream's history.")] = "",
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until the old channels are drained, and print what they wait for.")
    ] = False,
    timeout: _Timeout = DECOMMISSION_WAIT_SECONDS,
    dry_run: DryRunOption = False,
    output: DocumentOption = "table",
    endpoint: EndpointOption = "",
    context: ContextOption = "",
) -> None:
    parse_kind(type_, "move", (STREAM,))
    if partitions and not lane:
        raise Invalid("the partitions of which lane?", field="--partitions", remedy="name it: --lane live")
    format = parse_format(output, (Format.TABLE, Format.JSON, Format.YAML))
    if sum(map(bool, (to, away_from, spread))) != 1:
        message = "one of --to, --away-from and --spread is needed"
        raise Invalid(message, field="--to", remedy=f"braid move stream {name} --to west")
    from braid.api.registry.v1.registry_service_pb2 import ClusterShare, MoveStreamRequest

    request = MoveStreamRequest(
        stream=name,
        lanes=lane or (),
        to_cluster=to,
        away_from_cluster=away_from,
        spread=[ClusterShare(cluster=cluster, weight=weight) for cluster, weight in parse_spread(spread).items()],
        percent=percent,
        partitions=partitions,
        reason=reason,
        dry_run=dry_run,
    )
    execute(endpoint, context, lambda session: _move_stream(session, request, format, timeout if wait else 0.0))


def parse_spread(text: str) -> dict[str, float]:
    """Parses weights by cluster, as `east=3,west=1`. Raises `Invalid`."""
    found: dict[str, float] = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        name, separator, weight = part.partition("=")
        try:
            number = float(weight)
        except ValueError:
            number = 0.0
        if not separator or not name or not number > 0.0 or name in found:
            raise Invalid(f"{part!r} is not CLUSTER=WEIGHT", field="--spread", remedy="for example east=3,west=1")
        found[name] = number
    return found


def _cordon(type_: _Type, name: _Name, endpoint: EndpointOption = "", context: ContextOption = "") -> None:
    parse_kind(type_, "cordon", (CLUSTER,))
    execute(endpoint, context, lambda session: _set_cordon(session, name, True))


def _uncordon(type_: _Type, name: _Name, endpoint: EndpointOption = "", context: ContextOption = "") -> None:
    parse_kind(type_, "uncordon", (CLUSTER,))
    execute(endpoint, context, lambda session: _set_cordon(session, name, False))


def _decommission(
    type_: _Type,
    name: _Name,
    cancel: Annotated[
        bool, typer.Option("--cancel", help="Cancel the decommission; streams that have left stay where they are.")
    ] = False,
    discard_drained: Annotated[
        bool, typer.Option("--discard-drained", help="Delete drained topics now, not after their retention.")
    ] = False,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Kept in the cluster's history.")] = "",
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until the cluster is empty, and print the progress.")
    ] = False,
    timeout: _Timeout = DECOMMISSION_WAIT_SECONDS,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    output: DocumentOption = "table",
    endpoint: EndpointOption = "",
    context: ContextOption = "",
) -> None:
    parse_kind(type_, "decommission", (CLUSTER,))
    format = parse_format(output, (Format.TABLE, Format.JSON, Format.YAML))
    if cancel and (discard_drained or wait):
        raise Invalid(
            "--cancel goes with neither --wait nor --discard-drained", field="--cancel", remedy="use it alone"
        )
    if not cancel and not dry_run:
        confirm_decommission(name, discard_drained, yes)
    from braid.api.registry.v1.registry_service_pb2 import DecommissionClusterRequest

    request = DecommissionClusterRequest(
        name=name, cancelled=cancel, discard_drained=discard_drained, reason=reason, dry_run=dry_run
    )
    execute(endpoint, context, lambda session: _empty(session, request, format, timeout if wait else 0.0))


def confirm_decommission(name: str, discard: bool, yes: bool) -> None:
    """Asks the user to type the name of the cluster to be emptied. Raises as `confirm` does."""
    more = " and deletes what is drained there" if discard else ""
    confirm(f"cluster {name}", name, yes, verb="empty", told=f"This moves everything off cluster {name}{more}.")


async def _empty(session: "Session", request: "DecommissionClusterRequest", format: Format, wait_seconds: float) -> int:
    from braid.cli.moves.decommission import decommission, wait_empty

    code = await decommission(session, request, format)
    if wait_seconds <= 0 or request.dry_run:
        return code
    return await wait_empty(session, request.name, wait_seconds)


async def _move_stream(
    session: "Session", request: "MoveStreamRequest", format: Format, wait_seconds: float = 0.0
) -> int:
    from braid.api.registry.v1.registry_service_pb2 import MoveStreamResponse
    from braid.cli.core.documents import to_document
    from braid.cli.core.lists import all_clusters, all_streams
    from braid.cli.core.session import missing_among

    name, to = request.stream, request.to_cluster or ", ".join(each.cluster for each in request.spread)
    doing = f"moving stream {name} {f'to {to}' if to else f'off {request.away_from_cluster}'}"
    try:
        moved = await session.change("registry", "MoveStream", request, MoveStreamResponse, doing)
    except NotFound as error:
        if error.field in ("to_cluster", "away_from_cluster"):
            raise await missing_among(error, to or request.away_from_cluster, all_clusters(session)) from error
        if error.field.startswith("spread"):
            raise
        raise await missing_among(error, name, all_streams(session)) from error
    if format is Format.TABLE:
        session.terminal.print(_told(moved, request))
    else:
        session.terminal.print(render_document(format, to_document(moved)))
    if wait_seconds <= 0 or request.dry_run:
        return 0
    from braid.cli.moves.progress import wait_drained

    return await wait_drained(session, moved, format, wait_seconds)


def _told(moved: "MoveStreamResponse", request: "MoveStreamRequest") -> str:
    name = moved.stream.name
    shared = bool(request.spread) or request.HasField("percent")
    if not moved.moves:
        where = f"it is on {request.to_cluster}" if request.to_cluster else f"it is not on {request.away_from_cluster}"
        where = "its traffic is shared like that" if shared else where
        return f"stream/{name} unchanged: {where} already"
    lines = [f"stream/{name} {'would move (dry run: nothing was changed)' if request.dry_run else 'moved'}"]
    lines += _shares(moved) if shared else [_move_line(moved.stream, each) for each in moved.moves]
    if not request.dry_run and any(each.from_channels for each in moved.moves):
        lines.append(f"watch the old channels drain: braid get channels {name} -w")
    return "\n".join(lines)


def _move_line(stream: "Stream", move: "ChannelMove") -> str:
    left = ", ".join(f"{channel} ({_cluster_of(stream, channel)})" for channel in move.from_channels)
    return f"  {move.lane}: {left} → {_taking(move)}"


def _taking(move: "ChannelMove") -> str:
    return f"{move.to_channel or f'a new channel of {move.partitions} partitions'} ({move.to_cluster})"


def _shares(moved: "MoveStreamResponse") -> list[str]:
    """A line per lane: the clusters' shares of it, and what drains."""
    lines: list[str] = []
    for lane in dict.fromkeys(each.lane for each in moved.moves):
        moves = [each for each in moved.moves if each.lane == lane]
        whole = sum(each.weight for each in moves)
        parts = [f"{_taking(each)} {100 * each.weight / whole:.3g} %" for each in moves]
        left = [f"{each} drains" for move in moves for each in move.from_channels]
        lines.append(f"  {lane}: {', '.join([*parts, *left])}")
    return lines


def _cluster_of(stream: "Stream", channel: str) -> str:
    return next((each.cluster for each in stream.status.channels if each.name == channel), "gone")


async def _set_cordon(session: "Session", name: str, cordoned: bool) -> int:
    from braid.api.registry.v1.cluster_pb2 import Cluster
    from braid.api.registry.v1.registry_service_pb2 import CordonClusterRequest
    from braid.cli.core.lists import all_clusters
    from braid.cli.core.session import missing_among

    request = CordonClusterRequest(name=name, cordoned=cordoned)
    verb = "cordoned" if cordoned else "uncordoned"
    try:
        cluster = await session.change("registry", "CordonCluster", request, Cluster, f"{verb[:-2]}ing {name}")
    except NotFound as error:
        raise await missing_among(error, name, all_clusters(session)) from error
    carried = cluster.status.active_channels
    rest = f"; it still carries {carried} channels: braid describe cluster {name}" if cordoned and carried else ""
    session.terminal.print(f"cluster/{name} {verb}{rest}")
    return 0
