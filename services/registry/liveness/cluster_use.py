"""Decides whether a stream's clients use a cluster, so that their reports on it count. Pure.

Whoever reports on a cluster that its stream was never on knows nothing of it. A report on a cluster that the stream has
left is late, and no lie: a producer may hear of a move long after it was made.
"""

from collections.abc import Collection
from enum import Enum

from braid.kernel.limits.registry.health import LEFT_CLUSTER_SECONDS
from services.registry.model.channels import CONSUMABLE, Channel, ChannelState
from services.registry.model.streams import Stream


class ClusterUse(Enum):
    """Whether a stream's clients use a cluster now, did so once, or never."""

    NOW = "now"
    BEFORE = "before"
    NEVER = "never"


class RefusedEvidence(Enum):
    """Reports that change nothing, by what is wrong with them."""

    FOREIGN_CLUSTER = "foreign_cluster"
    LEFT_CLUSTER = "left_cluster"
    FOREIGN_CHANNEL = "foreign_channel"


def writing(stream: Stream, cluster: str, lanes: Collection[str], now_ms: int) -> ClusterUse:
    """How a producer of a stream uses a cluster.

    Args:
        stream: Its stream.
        cluster: The cluster's name.
        lanes: The only lanes that it writes to; all of them if empty.
        now_ms: Wall clock, milliseconds since the epoch.
    """
    there = [each for each in stream.channels if each.cluster == cluster and _carried(each)]
    if not there:
        return ClusterUse.NEVER
    written = [each for each in there if not lanes or each.ref.lane in lanes]
    return ClusterUse.NOW if any(_takes(each, now_ms) for each in written) else ClusterUse.BEFORE


def reading(stream: Stream, cluster: str, now_ms: int) -> bool:
    """Whether members of the stream's groups read from a cluster, or did so a moment ago."""
    there = [each for each in stream.channels if each.cluster == cluster]
    return any(each.state in CONSUMABLE or _drained_just_now(each, now_ms) for each in there)


def _carried(channel: Channel) -> bool:
    """Whether a channel has ever been on a route; one without a topic any more may have been."""
    return channel.activated_epoch > 0 or channel.state not in (ChannelState.PROVISIONING, ChannelState.STANDBY)


def _takes(channel: Channel, now_ms: int) -> bool:
    return channel.state is ChannelState.ACTIVE or (channel.state is ChannelState.DRAINING and _lately(channel, now_ms))


def _drained_just_now(channel: Channel, now_ms: int) -> bool:
    return channel.state is ChannelState.DRAINED and _lately(channel, now_ms)


def _lately(channel: Channel, now_ms: int) -> bool:
    """Whether a channel is in its state for a short time; clocks of two leaders may differ."""
    return now_ms - channel.state_since_ms <= LEFT_CLUSTER_SECONDS * 1_000
