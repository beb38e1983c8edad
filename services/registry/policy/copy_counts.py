"""Decides how many copies a channel's partitions should have, and how many of them an append needs. Pure."""

from collections.abc import Mapping
from typing import Final

from braid.kernel.ids import read_number
from services.registry.model.channels import IN_USE, Channel
from services.registry.model.clusters.cluster import Cluster
from services.registry.model.streams import Stream, StreamSpec
from services.registry.model.topics import MIN_IN_SYNC, default_copies, default_in_sync
from services.registry.policy.world import World

LEADER_THROTTLED: Final = "leader.replication.throttled.replicas"
FOLLOWER_THROTTLED: Final = "follower.replication.throttled.replicas"


def wanted_copies(spec: StreamSpec, cluster: Cluster, channel: Channel) -> int:
    """The number of copies that each partition of a channel in use should have; 0 if unknown.

    A declared number is established by adding or removing copies. If none is declared, missing copies are added, but
    none is removed: a cluster whose broker is being replaced would lose copies that it needs again.
    """
    if spec.replication_factor:
        return spec.replication_factor
    return max(channel.copies, default_copies(len(cluster.usual_brokers))) if cluster.usual_brokers else channel.copies


def is_due(world: World, stream: Stream, channel: Channel) -> bool:
    """Whether a channel's copies need work now.

    A reassignment under way is followed to its end whatever happens to the channel. A new one begins only if the
    channel's topic accepts records or soon may.
    """
    cluster = world.cluster(channel.cluster)
    if not cluster.reachable or cluster.belonging.refusal:
        return False
    if channel.copies_intended:
        return True
    known = channel.state in IN_USE and not channel.retiring and not channel.discarded and not world.lost(channel)
    return known and not cluster.belonging.uncompared and wanted_copies(stream.spec, cluster, channel) != channel.copies


def in_sync_change(spec: StreamSpec, channel: Channel) -> Mapping[str, str | None]:
    """The change of `min.insync.replicas` that a channel's topic needs now; empty while its copies are unknown.

    While copies are added or removed, an append needs no more of them than both numbers allow, or it would be refused.
    """
    if not channel.copies:
        return {}
    fewest = min(channel.copies, channel.copies_intended or channel.copies)
    declared = spec.topic_config.get(MIN_IN_SYNC)
    number = read_number(declared) if declared else None
    if number is None:
        return {MIN_IN_SYNC: declared or default_in_sync(fewest)}
    return {MIN_IN_SYNC: str(min(number, fewest)) if channel.copies_intended else declared}


def throttled(replicas: Mapping[int, tuple[tuple[int, ...], tuple[int, ...]]]) -> Mapping[str, str]:
    """Topic settings that throttle new copies, and only those (KIP-73).

    Args:
        replicas: By partition, the brokers that have a copy, and those that will get one.
    """
    leading = [f"{number}:{broker}" for number, (present, _) in sorted(replicas.items()) for broker in present]
    following = [f"{number}:{broker}" for number, (_, new) in sorted(replicas.items()) for broker in new]
    return {LEADER_THROTTLED: ",".join(leading), FOLLOWER_THROTTLED: ",".join(following)}


def unthrottled(spec: StreamSpec) -> Mapping[str, str | None]:
    """Topic settings that end `throttled`: what the stream declares, or the default."""
    return {name: spec.topic_config.get(name) for name in (LEADER_THROTTLED, FOLLOWER_THROTTLED)}
