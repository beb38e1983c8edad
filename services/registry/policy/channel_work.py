"""The next step of one channel on its cluster. Pure; `kafka/drain.py` and `reconciler/provision.py` carry it out.

Every step ends in an event, so a new leader continues where the last one stopped. The order is that of a safe drain:
keep everything, producers leave, seal, read the ends, wait for groups. A channel that carries traffic also keeps
everything once its cluster answers again after an outage, until groups have done the records that retention would
delete.
"""

from enum import Enum

from services.registry.model.channels import Channel, ChannelState, DrainStep
from services.registry.policy.world import World


class Work(Enum):
    """One step on the cluster."""

    LOOK_FOR_CUTS = "look for cuts"
    CREATE_TOPIC = "create topic"
    LIFT_RETENTION = "lift retention"
    AWAIT_PRODUCERS = "await producers"
    SEAL = "seal"
    READ_END_OFFSETS = "read end offsets"
    AWAIT_GROUPS = "await groups"
    AWAIT_TAIL = "await tail"
    RESTORE_RETENTION = "restore retention"
    RETIRE = "retire"


_STEPS = {
    DrainStep.SEAL: Work.SEAL,
    DrainStep.END_OFFSETS: Work.READ_END_OFFSETS,
    DrainStep.GROUPS: Work.AWAIT_GROUPS,
}


def next_work(world: World, channel: Channel) -> Work | None:
    """The channel's next step; None if there is none, or its cluster cannot be reached for it.

    Lifting retention does not wait until a returned cluster is trusted again: its brokers apply retention soon after
    they start.
    """
    reachable = world.cluster(channel.cluster).reachable
    if _to_be_kept(world, channel) and (reachable or channel.cluster in world.answering):
        return Work.LIFT_RETENTION
    if channel.state is ChannelState.DRAINING:
        return _drain_work(channel, reachable and not world.lost(channel))
    if not channel.live or not reachable:
        return None
    if channel.retiring or channel.state is ChannelState.PROVISIONING:
        uncompared = world.cluster(channel.cluster).belonging.uncompared  # what is there may be more than is known
        if uncompared or (channel.retiring and channel.copies_intended):  # throttles are taken away before the topic
            return None
        return Work.RETIRE if channel.retiring else Work.CREATE_TOPIC
    if channel.state is ChannelState.ACTIVE:
        return Work.AWAIT_TAIL if channel.retention_lifted and not channel.endangered else None
    drained = channel.state is ChannelState.DRAINED and not world.lost(channel)
    if drained and channel.closed and not channel.sealed:
        return Work.SEAL  # it was closed while its cluster was away; nobody may write to it any more
    return Work.RESTORE_RETENTION if drained and not channel.retention_restored else None


def _to_be_kept(world: World, channel: Channel) -> bool:
    """Whether its topic must keep everything and does not yet.

    If a draining channel lost something, its producers are awaited first: its topic may be gone.
    """
    if world.lost(channel):
        return False
    if channel.state is ChannelState.ACTIVE:
        return channel.endangered
    drains = channel.state is ChannelState.DRAINING and not channel.retention_lifted
    return drains and (channel.producers_left or not channel.lost)


def _drain_work(channel: Channel, reachable: bool) -> Work | None:
    if not channel.producers_left:
        return Work.AWAIT_PRODUCERS
    if not reachable or channel.drain_step is None:
        return None
    return _STEPS[channel.drain_step]
