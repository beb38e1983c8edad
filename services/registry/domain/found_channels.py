"""Records channels whose topics hold records that the stream's history does not know of. Pure.

A store that was restored from a backup is older than its clusters: a spare may have carried traffic since, or the
backup may lack a channel that was planned later. Such a channel is drained like any other that left the route: groups
finish its records, its generation is used up, and its topic is deleted only after its stream's retention.

The history records it by events that every release knows: first the missing ones (planned, provisioned), then the
channel joins the route and leaves it again, in one append.
"""

from collections.abc import Sequence

from braid.kernel.limits.registry.resources import RESTORE_ROUTE_GAP
from services.registry.model.channels import SPARE, Channel, ChannelRef, ChannelState, ChannelWeight
from services.registry.model.stream_commands import RecordFound
from services.registry.model.stream_events import ChannelPlanned, ChannelProvisioned, StreamEvent, TrafficMoved
from services.registry.model.streams import Stream


def find(state: Stream, command: RecordFound) -> Sequence[StreamEvent]:
    """Records a topic that was written to, unless the history shows that it carried traffic.

    The route's new revision exceeds every revision that producers may have acknowledged since the backup. So each
    producer must acknowledge anew that it no longer writes there.
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
    """The events by which a found channel joins and leaves the route. The second move names the lane's active channels
    too, so that the lane keeps their number of partitions."""
    reason = f"topic of {ref} holds records that the history does not know of"
    revision = state.route_revision + RESTORE_ROUTE_GAP
    stay = tuple(ChannelWeight(each.ref, each.weight) for each in state.active(ref.lane))
    return [
        TrafficMoved(revision, (ChannelWeight(ref, 1.0),), (), True, reason, asked_for=True, found=True),
        TrafficMoved(revision + 1, stay, (ref,), True, reason, asked_for=True, found=True),
    ]


def _of_topic(state: Stream, command: RecordFound) -> Channel | None:
    """The channel that has this topic on this cluster. A retired channel has no topic."""
    here = (command.cluster, command.topic)
    return next((each for each in state.channels if each.live and (each.cluster, each.topic) == here), None)


def _unused(state: Stream, named: ChannelRef) -> ChannelRef:
    """The generation in a topic's name, or the next one if the history gave it to another channel."""
    used = state.generations.get(named.lane, 0)
    return named if named.generation > used else ChannelRef(named.lane, used + 1)
