"""Previews of load between clusters as messages. No rules."""

import math

from braid.api.registry.v1 import registry_service_pb2 as api
from services.registry.policy.balancing.preview import ClusterPreview, PreviewedMove


def cluster_preview_message(preview: ClusterPreview) -> api.ClusterBalance:
    """A cluster's load now and afterwards, as a message."""
    (rate, disk, partitions, load), (rate_then, disk_then, partitions_then, load_then) = preview.now, preview.then
    forecast = preview.forecast
    return api.ClusterBalance(
        name=preview.name,
        left_out=preview.left_out,
        bytes_per_s_now=rate,
        bytes_per_s_then=rate_then,
        disk_share_now=disk,
        disk_share_then=disk_then,
        partitions_now=int(partitions),
        partitions_then=int(partitions_then),
        load_now=load,
        load_then=load_then,
        full_seconds=_finite(forecast.seconds) if forecast else 0.0,
        full_soonest_seconds=_finite(forecast.soonest) if forecast else 0.0,
        full_latest_seconds=_finite(forecast.latest) if forecast else 0.0,
        full_seasonal=forecast.seasonal if forecast else False,
    )


def previewed_move_message(move: PreviewedMove) -> api.BalanceMove:
    """One move that would be made, as a message."""
    made = move.rebalance
    return api.BalanceMove(
        stream=move.stream,
        lanes=move.lanes,
        from_cluster=made.from_cluster,
        to_cluster=made.to_cluster,
        reason=made.reason,
        bytes_per_s=move.bytes_per_s,
        kept_bytes=made.kept_bytes,
    )


def _finite(seconds: float) -> float:
    return seconds if math.isfinite(seconds) else 0.0
