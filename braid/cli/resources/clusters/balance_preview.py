"""Shows which streams would move to even out load, and what clusters would carry then."""

from typing import TYPE_CHECKING, Final

from braid.api.registry.v1.registry_service_pb2 import PreviewClustersRequest, PreviewClustersResponse
from braid.cli.core.documents import to_document
from braid.cli.core.output import Format, render_document
from braid.cli.core.times import duration_text
from braid.cli.resources.clusters.loads import bytes_text
from braid.kernel.limits.assigner.placement import CLI_MOVES_SHOWN

if TYPE_CHECKING:
    from braid.api.registry.v1.registry_service_pb2 import ClusterBalance
    from braid.cli.core.session import Session

_MODES: Final = {
    "off": "Balancing is off: nothing of this happens by itself.",
    "propose": "Balancing proposes such moves, and a person makes them.",
    "automatic": "Balancing makes such moves by itself, within its budget.",
}


async def preview_clusters(session: "Session", without: tuple[str, ...], new: tuple[str, ...], format: Format) -> int:
    """Asks the registry's leader, and prints the moves and the clusters."""
    request = PreviewClustersRequest(without=without, new_clusters=new)
    found = await session.read("registry", "PreviewClusters", request, PreviewClustersResponse)
    if format is Format.TABLE:
        session.terminal.print("\n".join(preview_lines(found)))
    else:
        session.terminal.print(render_document(format, to_document(found)))
    return 0


def preview_lines(found: PreviewClustersResponse) -> list[str]:
    """The lines of a preview, for people."""
    count = found.move_count
    even = "every cluster is within its band then" if found.balanced else "some cluster is not within its band then"
    lines = [f"{count or 'no'} stream{'' if count == 1 else 's'} would move; {even}", _MODES.get(found.mode, "")]
    lines += ["", *_table(found)] if found.clusters else ["", "No cluster is measured yet."]
    shown = found.moves[:CLI_MOVES_SHOWN]
    lines += [""] if shown else []
    lines += [f"{each.stream}  {each.from_cluster} → {each.to_cluster}  {each.reason}" for each in shown]
    if count > len(shown):
        lines.append(f"… and {count - len(shown)} more: -o json shows up to a thousand")
    return [*lines, *([""] if found.problems else []), *found.problems]


def _table(found: PreviewClustersResponse) -> list[str]:
    """Load of each cluster before and after."""
    width = max(len("CLUSTER"), *(len(each.name) for each in found.clusters))
    lines = [f"{'CLUSTER':{width}}  {'BYTES/S':>21}  {'DISK':>11}  {'LOAD':>11}  90 % FULL"]
    for each in found.clusters:
        if each.left_out:
            lines.append(f"{each.name:{width}}  takes no part: {each.left_out}")
            continue
        rate = f"{bytes_text(each.bytes_per_s_now)} → {bytes_text(each.bytes_per_s_then)}"
        disk = f"{100 * each.disk_share_now:.0f} → {100 * each.disk_share_then:.0f} %"
        load = f"{each.load_now:.2f} → {each.load_then:.2f}"
        lines.append(f"{each.name:{width}}  {rate:>21}  {disk:>11}  {load:>11}  {_full(each)}")
    return lines


def _full(cluster: "ClusterBalance") -> str:
    """When the cluster's fullest disk is at 90 %, for people."""
    if not cluster.full_seconds:
        return "not seen"
    latest = cluster.full_latest_seconds
    until = duration_text(int(latest * 1_000)) if latest else "?"
    told = f"in {duration_text(int(cluster.full_seconds * 1_000))}"
    return f"{told} ({duration_text(int(cluster.full_soonest_seconds * 1_000))} to {until})"
