"""Channels that hold records which the stream's history does not know of. Pure: what is recorded of them.

A store that was restored from a backup is older than its clusters: a spare has carried traffic since, or a channel was
planned that the backup does not contain. Such a channel is drained like any other that left the route: groups finish
its records, its generation is used up, and its topic is deleted only after its stream's retention.

It is told by events that every release knows: what is missing in the history (planned, provisioned), then it comes onto
the route and leaves it again, in one append.
"""

from collections.abc import Sequence

from braid.kernel.limits.registry import RESTORE_ROUTE_GAP
from services.registry.model.channels import SPARE, Channel, ChannelRef, ChannelState, ChannelWeight
from services.registry.model.stream_commands import RecordFound
from services.registry.model.stream_events import ChannelPlanned, ChannelProvisioned, StreamEvent, TrafficMoved
from services.registry.model.streams import Stream


def find(state: Stream, command: RecordFound) -> Sequence[StreamEvent]:
    """Records a topic that was written to, unless the history knows that it carried traffic.

    The route's revision passes all that producers may have acknowledged since the backup, so that each must say anew
    that it writes there no more.
    """
    known = _of_topic(state, command)
    if known is not None and known.state not in SPARE:
        return []
    ref = known.ref if known else _unused(state, command.ref)
    return [*_missing(known, ref, command), *_came_and_went(state, ref)]


def _missing(known: Channel | None, ref: ChannelRef, command: RecordFound) -> Sequence[StreamEvent]:
    planned = ChannelPlanned(ref, command.cluster, command.topic, command.partitions)
    provisioned = ChannelProvisioned(ref, command.topic_id, command.kafka_cluster_id)
    if known is None:
        return [planned, provisioned]
    return [provisioned] if known.state is ChannelState.PROVISIONING else []


def _came_and_went(state: Stream, ref: ChannelRef) -> Sequence[StreamEvent]:
    """The second move names the lane's active channels as well: the lane keeps the number of partitions they have."""
    reason = f"topic of {ref} holds records that the history does not know of"
    revision = state.route_revision + RESTORE_ROUTE_GAP
    stay = tuple(ChannelWeight(each.ref, each.weight) for each in state.active(ref.lane))
    return [
        TrafficMoved(revision, (ChannelWeight(ref, 1.0),), (), True, reason, asked_for=True, found=True),
        TrafficMoved(revision + 1, stay, (ref,), True, reason, asked_for=True, found=True),
    ]


def _of_topic(state: Stream, command: RecordFound) -> Channel | None:
    """The channel that has this topic on this cluster; one that is retired has none any more."""
    here = (command.cluster, command.topic)
    return next((each for each in state.channels if each.live and (each.cluster, each.topic) == here), None)


def _unused(state: Stream, named: ChannelRef) -> ChannelRef:
    """The generation a topic is named after, or the next one where the history has given that to another channel."""
    used = state.generations.get(named.lane, 0)
    return named if named.generation > used else ChannelRef(named.lane, used + 1)
