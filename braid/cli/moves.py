"""`move`, `cordon`, `uncordon`, `decommission`: where traffic goes."""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from braid.cli.errors import not_built
from braid.cli.execution import ContextOption, DryRunOption, EndpointOption, execute
from braid.cli.kinds import CLUSTER, STREAM, parse_kind
from braid.cli.output import Format, parse_format, render_document
from braid.kernel.errors import NotFound

if TYPE_CHECKING:
    from braid.api.registry.v1.registry_service_pb2 import MoveStreamResponse
    from braid.api.registry.v1.stream_pb2 import Stream
    from braid.cli.session import Session

_MOVE: Final = """Move a stream's traffic to another cluster, under load. What was written stays until it is consumed.

\b
  braid move stream logs --to west
  braid move stream logs --to west --lane live
  braid move stream logs --to west --dry-run
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
_DECOMMISSION: Final = """Empty a cluster of everything, then forget it (not built yet).

\b
  braid decommission cluster east
"""
_Type = Annotated[str, typer.Argument(metavar="TYPE", show_default=False)]
_Name = Annotated[str, typer.Argument(metavar="NAME", show_default=False)]


def register(app: typer.Typer) -> None:
    """Adds the verbs."""
    app.command("move", help=_MOVE)(_move)
    app.command("cordon", help=_CORDON)(_cordon)
    app.command("uncordon", help=_UNCORDON)(_uncordon)
    app.command("decommission", help=_DECOMMISSION)(_decommission)


def _move(
    type_: _Type,
    name: _Name,
    to: Annotated[str, typer.Option(metavar="CLUSTER", help="Where to.", show_default=False)],
    lane: Annotated[
        list[str] | None, typer.Option("--lane", metavar="NAME", help="Only this lane; may be repeated.")
    ] = None,
    partitions: Annotated[
        int, typer.Option(metavar="N", show_default=False, help="Another number of them (not built yet).")
    ] = 0,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Kept in the stream's history.")] = "",
    dry_run: DryRunOption = False,
    output: Annotated[str, typer.Option("-o", "--output", metavar="FORMAT", help="table, json or yaml.")] = "table",
    endpoint: EndpointOption = "",
    context: ContextOption = "",
) -> None:
    parse_kind(type_, "move", (STREAM,))
    if partitions:
        raise not_built("changing the number of partitions (--partitions)")
    format = parse_format(output, (Format.TABLE, Format.JSON, Format.YAML))
    lanes = tuple(lane or ())
    execute(endpoint, context, lambda session: _move_stream(session, name, to, lanes, reason, dry_run, format))


def _cordon(type_: _Type, name: _Name, endpoint: EndpointOption = "", context: ContextOption = "") -> None:
    parse_kind(type_, "cordon", (CLUSTER,))
    execute(endpoint, context, lambda session: _set_cordon(session, name, True))


def _uncordon(type_: _Type, name: _Name, endpoint: EndpointOption = "", context: ContextOption = "") -> None:
    parse_kind(type_, "uncordon", (CLUSTER,))
    execute(endpoint, context, lambda session: _set_cordon(session, name, False))


def _decommission(type_: _Type, name: _Name, endpoint: EndpointOption = "", context: ContextOption = "") -> None:
    parse_kind(type_, "decommission", (CLUSTER,))
    error = not_built("`braid decommission`")
    error.remedy = f"braid cordon cluster {name}, then `braid move stream NAME --to CLUSTER` for each stream on it"
    raise error


async def _move_stream(
    session: "Session", name: str, to: str, lanes: tuple[str, ...], reason: str, dry_run: bool, format: Format
) -> int:
    from braid.api.registry.v1.registry_service_pb2 import MoveStreamRequest, MoveStreamResponse
    from braid.cli.documents import to_document
    from braid.cli.listing import all_clusters, all_streams
    from braid.cli.session import missing

    request = MoveStreamRequest(stream=name, lanes=lanes, to_cluster=to, reason=reason, dry_run=dry_run)
    doing = f"moving stream {name} to {to}"
    try:
        moved = await session.change("registry", "MoveStream", request, MoveStreamResponse, doing)
    except NotFound as error:
        if error.field == "to_cluster":
            raise missing(error, to, [each.name for each in await all_clusters(session)]) from error
        raise missing(error, name, [each.name for each in await all_streams(session)]) from error
    if format is Format.TABLE:
        session.terminal.print(_told(moved, to, dry_run))
    else:
        session.terminal.print(render_document(format, to_document(moved)))
    return 0


def _told(moved: "MoveStreamResponse", to: str, dry_run: bool) -> str:
    name = moved.stream.name
    if not moved.moves:
        return f"stream/{name} unchanged: it is on {to} already"
    lines = [f"stream/{name} {'would move (dry run: nothing was changed)' if dry_run else 'moved'}"]
    for each in moved.moves:
        left = ", ".join(f"{channel} ({_cluster_of(moved.stream, channel)})" for channel in each.from_channels)
        taking = each.to_channel or f"a new channel of {each.partitions} partitions"
        lines.append(f"  {each.lane}: {left} → {taking} ({each.to_cluster})")
    if not dry_run:
        lines.append(f"watch the old channels drain: braid get channels {name} -w")
    return "\n".join(lines)


def _cluster_of(stream: "Stream", channel: str) -> str:
    return next((each.cluster for each in stream.status.channels if each.name == channel), "gone")


async def _set_cordon(session: "Session", name: str, cordoned: bool) -> int:
    from braid.api.registry.v1.cluster_pb2 import Cluster
    from braid.api.registry.v1.registry_service_pb2 import CordonClusterRequest
    from braid.cli.listing import all_clusters
    from braid.cli.session import missing

    request = CordonClusterRequest(name=name, cordoned=cordoned)
    verb = "cordoned" if cordoned else "uncordoned"
    try:
        cluster = await session.change("registry", "CordonCluster", request, Cluster, f"{verb[:-2]}ing {name}")
    except NotFound as error:
        raise missing(error, name, [each.name for each in await all_clusters(session)]) from error
    carried = cluster.status.active_channels
    rest = f"; it still carries {carried} channels: braid describe cluster {name}" if cordoned and carried else ""
    session.terminal.print(f"cluster/{name} {verb}{rest}")
    return 0
