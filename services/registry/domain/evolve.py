"""Computes a stream's state after each of its events. Pure."""

from dataclasses import replace

from braid.kernel.access.tenants import DEFAULT_TENANT
from braid.kernel.decider import Context
from braid.kernel.limits.registry.resources import FAILOVERS_MAX, RETIRED_CHANNELS_KEPT
from services.registry.domain.rebalances import evolve_rebalance, without_done_proposal
from services.registry.model.channels import Channel, ChannelState
from services.registry.model.stream_events import (
    ChannelClosed,
    ChannelDrained,
    ChannelPlanned,
    ChannelProvisioned,
    ChannelReleased,
    ChannelRetired,
    ChannelReturned,
    ChannelSealed,
    ChannelStranded,
    CopiesSettled,
    DrillBegan,
    DrillEnded,
    EndOffsetsRead,
    FailoverBlocked,
    FailoverUnblocked,
    MoveProposed,
    ProducersLeft,
    ReassignmentIntended,
    RebalanceProposed,
    RebalanceWithdrawn,
    RecordsLost,
    RetentionLifted,
    RetentionRestored,
    RetirementIntended,
    StreamCreated,
    StreamDeleted,
    StreamEvent,
    StreamRebalanced,
    StreamUpdated,
    TrafficMoved,
)
from services.registry.model.streams import Stream


def evolved(state: Stream, event: StreamEvent, context: Context) -> Stream:
    """The state after an event, without its count of changes."""
    match event:
        case StreamCreated():
            kept = Stream(state.name, channels=state.channels, generations=state.generations, changes=state.changes)
            revision = state.route_revision + 1
            created = replace(kept, exists=True, spec=event.spec, tenant=event.tenant or DEFAULT_TENANT)
            return replace(created, create_time_ms=context.now_ms, route_revision=revision)
        case StreamUpdated() | DrillBegan() | DrillEnded():
            return replace(state, spec=event.spec)
        case StreamDeleted():
            return _discard(state, context.now_ms)
        case ChannelPlanned():
            channel = Channel(event.ref, event.cluster, event.topic, event.partitions, state_since_ms=context.now_ms)
            generations = {**state.generations, event.ref.lane: event.ref.generation}
            return replace(state, channels=(*state.channels, channel), generations=generations)
        case TrafficMoved():
            return without_done_proposal(_traffic_moved(state, event, context))
        case FailoverBlocked():
            return replace(state, blocked={**state.blocked, event.cluster: event.reason})
        case FailoverUnblocked():
            blocked = {cluster: reason for cluster, reason in state.blocked.items() if cluster != event.cluster}
            proposed = tuple(cluster for cluster in state.proposed if cluster != event.cluster)
            return replace(state, blocked=blocked, proposed=proposed)
        case RebalanceProposed() | RebalanceWithdrawn() | StreamRebalanced():
            return evolve_rebalance(state, event, context.now_ms)
        case MoveProposed():
            return replace(state, proposed=(*state.proposed, event.away_from_cluster))
        case ChannelRetired():
            channel = state.channel(event.ref).enter(ChannelState.RETIRED, context.now_ms)
            return _forget_retired(state.with_channel(channel))
        case _:
            return state.with_channel(_channel_evolved(state.channel(event.ref), event, context.now_ms))


_ChannelEvent = (
    ChannelProvisioned
    | ReassignmentIntended
    | CopiesSettled
    | ProducersLeft
    | ChannelSealed
    | EndOffsetsRead
    | ChannelDrained
    | RetirementIntended
    | ChannelStranded
    | ChannelReturned
    | RetentionLifted
    | RetentionRestored
    | RecordsLost
    | ChannelClosed
    | ChannelReleased
)


def _channel_evolved(channel: Channel, event: _ChannelEvent, now_ms: int) -> Channel:
    match event:
        case ChannelProvisioned():
            standby = channel.enter(ChannelState.STANDBY, now_ms)
            found = replace(standby, topic_id=event.topic_id, kafka_cluster_id=event.kafka_cluster_id)
            return replace(found, copies=event.copies)
        case ReassignmentIntended():
            return replace(channel, copies_intended=event.copies, throttle_bytes_per_s=event.throttle_bytes_per_s)
        case CopiesSettled():
            return replace(channel, copies=event.copies, copies_intended=0, throttle_bytes_per_s=0)
        case ProducersLeft():
            untold = channel.untold or event.unheard or bool(event.expired)
            return replace(channel, producers_left=True, acknowledged=event.acknowledged, untold=untold)
        case ChannelSealed():
            return replace(channel, sealed=True)
        case EndOffsetsRead():
            return replace(channel, end_offsets=event.offsets)
        case ChannelDrained():
            return channel.enter(ChannelState.DRAINED, now_ms)
        case RecordsLost():
            told = replace(channel, lost=event.ranges, lost_evidence=event.evidence)
            return replace(told, overwritten=event.overwritten)
        case ChannelClosed():
            return replace(channel.enter(ChannelState.DRAINED, now_ms), closed=True)
        case ChannelReleased():
            return replace(channel, released=True)
        case RetirementIntended():
            return replace(channel, retiring=True)
        case ChannelStranded():
            return replace(channel, stranded=True, endangered=channel.state is ChannelState.ACTIVE)
        case ChannelReturned():
            return replace(channel, stranded=False)
        case RetentionLifted():
            return replace(channel, retention_lifted=True, endangered=False)
        case RetentionRestored():
            drained = channel.state is ChannelState.DRAINED
            return replace(channel, retention_lifted=False, retention_restored=drained)


def _traffic_moved(state: Stream, event: TrafficMoved, context: Context) -> Stream:
    weights = dict(event.activated)
    lanes = dict(state.spec.lanes)
    channels: list[Channel] = []
    for channel in state.channels:
        if channel.ref in weights:
            active = channel if channel.state is ChannelState.ACTIVE else _activate(channel, event, context)
            channels.append(replace(active, weight=weights[channel.ref]))
            lanes[channel.ref.lane] = channel.partitions
        elif channel.ref in event.draining:
            draining = channel.enter(ChannelState.DRAINING, context.now_ms)
            channels.append(replace(draining, weight=0.0, drain_revision=event.route_revision, planned=event.planned))
        else:
            channels.append(channel)
    failovers = state.failovers_ms
    if event.draining and not event.planned and not event.asked_for:
        failovers = (*failovers, context.now_ms)[-FAILOVERS_MAX:]
    return replace(
        state,
        route_revision=event.route_revision,
        channels=tuple(channels),
        spec=replace(state.spec, lanes=lanes),
        failovers_ms=failovers,
    )


def _activate(channel: Channel, event: TrafficMoved, context: Context) -> Channel:
    """Puts channels on the route. The leader that does so sees all their producers; of a found channel nobody knows
    them."""
    active = channel.enter(ChannelState.ACTIVE, context.now_ms)
    return replace(active, activated_epoch=0 if event.found else context.leader_epoch, retiring=False)


def _discard(state: Stream, now_ms: int) -> Stream:
    """The state of a deleted stream: no route and no drain; topics are deleted once their clusters can be reached."""
    channels: list[Channel] = []
    for channel in state.channels:
        if channel.live and channel.state is not ChannelState.DRAINED:
            channel = replace(channel.enter(ChannelState.DRAINED, now_ms), weight=0.0)
        channels.append(replace(channel, retiring=True, discarded=True) if channel.live else channel)
    return Stream(
        state.name,
        channels=tuple(channels),
        generations=state.generations,
        route_revision=state.route_revision + 1,
        changes=state.changes,
    )


def _forget_retired(state: Stream) -> Stream:
    retired = [channel.ref for channel in state.channels if not channel.live]
    forgotten = set(retired[:-RETIRED_CHANNELS_KEPT])
    return replace(state, channels=tuple(each for each in state.channels if each.ref not in forgotten))
