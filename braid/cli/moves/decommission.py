"""The work of `decommission`: begins to empty a cluster, cancels that, shows its progress and waits for the end."""

from collections.abc import Sequence
from typing import Final

from braid.api.registry.v1 import cluster_pb2
from braid.api.registry.v1 import registry_service_pb2 as api
from braid.cli.core.documents import to_document
from braid.cli.core.limits import CLI_WATCH_SECONDS
from braid.cli.core.lists import all_clusters
from braid.cli.core.output import Format, render_document
from braid.cli.core.session import Session, missing_among
from braid.cli.resources.clusters.decommission_progress import EMPTY, progress_text
from braid.kernel.errors import ClusterUnavailable, DeadlineExceeded, NotFound, Refused, Unavailable

_SHOWN: Final = 20  # streams listed of what begins; a dry run lists all


async def decommission(session: Session, request: api.DecommissionClusterRequest, format: Format) -> int:
    """Begins or cancels a decommission, and prints which streams leave, and where they go.

    Raises:
        NotFound: the cluster does not exist; the nearest one is named.
    """
    name = request.name
    doing = f"{'keeping' if request.cancelled else 'emptying'} cluster {name}"
    try:
        answer = await session.change(
            "registry", "DecommissionCluster", request, api.DecommissionClusterResponse, doing
        )
    except NotFound as error:
        raise await missing_among(error, name, all_clusters(session)) from error
    if format is not Format.TABLE:
        session.terminal.print(render_document(format, to_document(answer)))
    elif request.cancelled:
        session.terminal.print(_kept(answer, request.dry_run))
    else:
        session.terminal.print("\n".join(_begun(answer, request.dry_run)))
    return 0


async def wait_empty(session: Session, name: str, seconds: float) -> int:
    """Waits until a cluster is empty, and prints the progress whenever it changes.

    Raises:
        Refused: somebody cancelled it meanwhile.
        DeadlineExceeded: it takes longer; it continues in the background.
    """
    clock = session.ports.host.clock
    deadline = clock.elapsed() + seconds
    told = ""
    while True:
        try:
            cluster = await session.read(
                "registry", "GetCluster", api.GetClusterRequest(name=name), cluster_pb2.Cluster
            )
        except ClusterUnavailable:
            raise
        except Unavailable:  # a wait outlives its mesh's restarts
            cluster = None
        if cluster is not None:
            if not cluster.status.HasField("decommission"):
                raise Refused(
                    f"the decommission of cluster {name} was taken back",
                    remedy=f"see why: braid events --for cluster/{name}",
                )
            told = _told(session, cluster, told)
            if cluster.status.decommission.state == EMPTY:
                return 0
        if clock.elapsed() >= deadline:
            remedy = f"the decommission continues: braid describe cluster {name}"
            raise DeadlineExceeded(f"cluster {name} is not empty yet: {told}", remedy=remedy)
        await clock.sleep(CLI_WATCH_SECONDS)


def _told(session: Session, cluster: cluster_pb2.Cluster, before: str) -> str:
    """Prints the progress, unless it was printed already."""
    text = progress_text(cluster.status.decommission)
    if text != before:
        session.terminal.print(f"cluster/{cluster.name} {text}")
    return text


def _kept(answer: api.DecommissionClusterResponse, dry_run: bool) -> str:
    name = answer.cluster.name
    if dry_run:
        return f"cluster/{name} would stay (dry run: nothing was changed)"
    cordoned = "; it is still cordoned" if answer.cluster.status.cordoned else " and takes traffic again"
    return f"cluster/{name} stays{cordoned}; what has left is where it went"


def _begun(answer: api.DecommissionClusterResponse, dry_run: bool) -> Sequence[str]:
    name, status = answer.cluster.name, answer.cluster.status.decommission
    shown = answer.departures if dry_run else answer.departures[:_SHOWN]
    lines = [
        f"cluster/{name} would be emptied (dry run: nothing was changed)"
        if dry_run
        else f"cluster/{name} is being emptied: it takes no new traffic, and what is on it leaves",
        *(_departure_line(each) for each in shown),
    ]
    if len(shown) < len(answer.departures):
        lines.append(f"  … and {len(answer.departures) - len(shown)} more streams")
    waiting = status.draining_channels + status.drained_channels
    if waiting:
        lines.append(f"  {status.draining_channels} channels drain there, {status.drained_channels} are drained")
    kept = "are deleted at once" if status.discard_drained else "stay for their streams' retention (--discard-drained)"
    lines.append(f"  topics that are drained {kept}")
    if not dry_run:
        lines.append(f"how far it is: braid describe cluster {name}")
    return lines


def _departure_line(departure: api.Departure) -> str:
    if departure.blocked_reason:
        return f"  {departure.stream} stays: {departure.blocked_reason}"
    if not departure.moves:
        return f"  {departure.stream} fails over"
    lanes: dict[str, list[str]] = {}
    for move in departure.moves:
        lanes.setdefault(move.to_cluster, []).append(move.lane)
    return f"  {departure.stream}: " + "; ".join(f"{', '.join(names)} → {to}" for to, names in lanes.items())
