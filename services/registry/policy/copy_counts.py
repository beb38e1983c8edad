"""How many copies a channel's partitions are to have, and how many of them an append needs. Pure."""

from collections.abc import Mapping
from typing import Final

from services.registry.model.channels import IN_USE, Channel
from services.registry.model.clusters import Cluster
from services.registry.model.streams import Stream, StreamSpec
from services.registry.model.topics import MIN_IN_SYNC, default_copies, default_in_sync
from services.registry.policy.world import World

LEADER_THROTTLED: Final = "leader.replication.throttled.replicas"
FOLLOWER_THROTTLED: Final = "follower.replication.throttled.replicas"


def wanted_copies(spec: StreamSpec, cluster: Cluster, channel: Channel) -> int:
    """Copies that each partition of a channel in use is to have; 0 while nobody knows.

    A declared number is brought about, up and down. Where none is declared missing copies are added, and none is taken
    away: a cluster whose broker is replaced would lose copies that it needs again.
    """
    if spec.replication_factor:
        return spec.replication_factor
    return max(channel.copies, default_copies(len(cluster.usual_brokers))) if cluster.usual_brokers else channel.copies


def is_due(world: World, stream: Stream, channel: Channel) -> bool:
    """Whether something is to be done about a channel's copies now.

    A reassignment that is under way has its end awaited whatever became of the channel. A new one begins only where the
    channel's topic takes records or may soon.
    """
    cluster = world.cluster(channel.cluster)
    if not cluster.reachable or cluster.belonging.refusal:
        return False
    if channel.copies_intended:
        return True
    known = channel.state in IN_USE and not channel.retiring and not channel.discarded and not world.lost(channel)
    return known and not cluster.belonging.uncompared and wanted_copies(stream.spec, cluster, channel) != channel.copies


def in_sync_change(spec: StreamSpec, channel: Channel) -> Mapping[str, str | None]:
    """What `min.insync.replicas` of a channel's topic has to be now; nothing while its copies are not known.

    While copies are added or taken away an append needs no more of them than both numbers give, or it would be refused.
    """
    if not channel.copies:
        return {}
    fewest = min(channel.copies, channel.copies_intended or channel.copies)
    declared = spec.topic_config.get(MIN_IN_SYNC)
    if declared is None or not declared.isdecimal():
        return {MIN_IN_SYNC: declared or default_in_sync(fewest)}
    return {MIN_IN_SYNC: str(min(int(declared), fewest)) if channel.copies_intended else declared}


def throttled(replicas: Mapping[int, tuple[tuple[int, ...], tuple[int, ...]]]) -> Mapping[str, str]:
    """Topic settings that throttle new copies, and nothing else (KIP-73).

    Args:
        replicas: By partition, the brokers that have a copy, and those that get one.
    """
    leading = [f"{number}:{broker}" for number, (present, _) in sorted(replicas.items()) for broker in present]
    following = [f"{number}:{broker}" for number, (_, new) in sorted(replicas.items()) for broker in new]
    return {LEADER_THROTTLED: ",".join(leading), FOLLOWER_THROTTLED: ",".join(following)}


def unthrottled(spec: StreamSpec) -> Mapping[str, str | None]:
    """What ends `throttled`: what the stream declares, or the default."""
    return {name: spec.topic_config.get(name) for name in (LEADER_THROTTLED, FOLLOWER_THROTTLED)}
