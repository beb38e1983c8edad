"""The replication throttle of a cluster's brokers (KIP-73), set for all of them while copies are made.

A rate that an operator has set is left alone: the operator knows the cluster's network. Settings of single brokers take
precedence over this one.
"""

from typing import Final

from braid.kernel.ports import KafkaAdmin
from services.registry.model.channels import Channel
from services.registry.policy.world import World

RATES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")


async def rate_for(admin: KafkaAdmin, world: World, cluster: str, bytes_per_s: int) -> int:
    """The rate to throttle a reassignment with; 0 if an operator has set one."""
    if any(channel.throttle_bytes_per_s for channel in _under_way(world, cluster).values()):
        return bytes_per_s
    present = await admin.broker_defaults()
    return 0 if any(name in present for name in RATES) else bytes_per_s


async def throttle(admin: KafkaAdmin, bytes_per_s: int) -> None:
    """Sets the rate, unless it is 0 (an operator's) or set already."""
    if not bytes_per_s:
        return
    present = await admin.broker_defaults()
    missing = {name: str(bytes_per_s) for name in RATES if name not in present}
    if missing:
        await admin.alter_broker_defaults(missing)


async def unthrottle(admin: KafkaAdmin, bytes_per_s: int) -> None:
    """Removes our rate; a rate that was changed meanwhile stays."""
    if not bytes_per_s:
        return
    present = await admin.broker_defaults()
    ours: dict[str, str | None] = {name: None for name in RATES if present.get(name) == str(bytes_per_s)}
    if ours:
        await admin.alter_broker_defaults(ours)


def is_last(world: World, stream: str, channel: Channel) -> bool:
    """Whether no other channel of the cluster needs our rate."""
    others = _under_way(world, channel.cluster)
    others.pop((stream, str(channel.ref)), None)
    return not any(each.throttle_bytes_per_s for each in others.values())


def _under_way(world: World, cluster: str) -> dict[tuple[str, str], Channel]:
    return {
        (stream.name, str(channel.ref)): channel
        for stream in world.streams.values()
        for channel in stream.channels
        if channel.cluster == cluster and channel.copies_intended
    }
