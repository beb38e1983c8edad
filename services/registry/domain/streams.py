"""Kind `stream`: its commands, its events, and the rules between them. Pure.

Values are in `streams.py` and `channels.py`, commands in `commands.py`, events in `events.py`; the kind `cluster` is
`clusters.py`. What several histories decide together (which cluster takes the traffic) is `policy.py`'s, and arrives
here as a command that is checked against this stream alone.
"""

from collections.abc import Sequence
from dataclasses import replace

from braid.kernel.decider import Context
from braid.kernel.errors import AlreadyExists, Conflict, Invalid, NotFound, Refused
from braid.kernel.ids import ChannelId, check_name
from braid.kernel.limits.registry import FAILOVERS_MAX, RETIRED_CHANNELS_KEPT
from services.registry.domain.drills import begin, check_mark, end
from services.registry.domain.found_channels import find
from services.registry.model import copies
from services.registry.model.channels import CONSUMABLE, SPARE, Channel, ChannelRef, ChannelState
from services.registry.model.etags import check_etag
from services.registry.model.losses import late_receipts, lose
from services.registry.model.stream_commands import (
    BlockFailover,
    CloseChannel,
    CreateStream,
    DeleteStream,
    EndDrill,
    IntendReassignment,
    IntendRetirement,
    MarkReturned,
    MarkStranded,
    MoveTraffic,
    PlanChannel,
    ProposeMove,
    RecordCopies,
    RecordDrained,
    RecordEndOffsets,
    RecordFound,
    RecordProducersLeft,
    RecordProvisioned,
    RecordRetentionLifted,
    RecordRetentionRestored,
    RecordRetired,
    RecordSealed,
    ReleaseChannel,
    ReportLoss,
    ReportOverwritten,
    StreamCommand,
    UnblockFailover,
    UpdateStream,
)
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
    RecordsLost,
    RetentionLifted,
    RetentionRestored,
    RetirementIntended,
    StreamCreated,
    StreamDeleted,
    StreamEvent,
    StreamUpdated,
    TrafficMoved,
)
from services.registry.model.streams import Stream, check_order, check_partitions, check_stream_spec


class StreamDecider:
    """Rules of the kind `stream`."""

    def initial(self, history: str) -> Stream:
        """A stream nobody has created."""
        return Stream(history)

    def decide(self, state: Stream, command: StreamCommand, context: Context) -> Sequence[StreamEvent]:
        """See `Decider.decide`. Recording what is recorded already leads to no event, so every step may be repeated."""
        match command:
            case CreateStream():
                return _create(state, command)
            case RecordRetired():  # the channels of a deleted stream are still to be retired
                return _retire(state, command.ref)
            case RecordCopies():
                return copies.settle_copies(state, command)
            case _:
                _require_exists(state)
        match command:
            case UpdateStream():
                return _update(state, command)
            case DeleteStream():
                check_etag(command.etag, state.etag, f"stream {state.name}")
                return [StreamDeleted()]
            case EndDrill():
                return end(state, command)
            case PlanChannel():
                return _plan_channel(state, command)
            case RecordFound():
                return find(state, command)
            case IntendReassignment():
                return copies.intend_reassignment(state, command)
            case MoveTraffic():
                return _move(state, command)
            case MarkStranded() | MarkReturned() | BlockFailover() | UnblockFailover() | ProposeMove():
                return _notice(state, command)
            case _:
                return _record(state, command)

    def evolve(self, state: Stream, event: StreamEvent, context: Context) -> Stream:
        """See `Decider.evolve`."""
        return replace(_evolved(state, event, context), changes=state.changes + 1)


# --- decide


def _require_exists(state: Stream) -> None:
    if not state.exists:
        raise NotFound(f"there is no stream {state.name}", field="stream", remedy="list them: braid get streams")


def _create(state: Stream, command: CreateStream) -> Sequence[StreamEvent]:
    check_name(state.name, "name")
    if state.exists:
        raise AlreadyExists(f"stream {state.name} exists already", field="name")
    return begin(state.name, check_stream_spec(command.spec))


def _update(state: Stream, command: UpdateStream) -> Sequence[StreamEvent]:
    check_etag(command.etag, state.etag, f"stream {state.name}")
    spec = check_stream_spec(command.spec)
    check_mark(state.spec, spec)
    for lane, partitions in state.spec.lanes.items():
        if lane not in spec.lanes:
            raise Invalid(f"lane {lane} cannot be removed from a stream in use", field="spec.lanes", remedy="keep it")
        if spec.lanes[lane] != partitions:
            move = f"braid move stream {state.name} --lane {lane} --partitions {spec.lanes[lane]}"
            message = f"the partitions of lane {lane} change only by a move, so that nothing is lost or reordered"
            raise Invalid(message, field=f"spec.lanes.{lane}.partitions", remedy=move)
    if spec.max_record_bytes != state.spec.max_record_bytes:
        message = "the size limit of a stream in use cannot change: it is what seals its topics"
        raise Invalid(message, field="spec.max_record_bytes", remedy=f"keep {state.spec.max_record_bytes}")
    updated = replace(state, spec=spec)
    for lane in spec.lanes:
        check_order(updated, lane, len(state.active(lane)), "spec.ordered")
    return [StreamUpdated(spec)] if spec != state.spec else []


def _plan_channel(state: Stream, command: PlanChannel) -> Sequence[StreamEvent]:
    if command.lane not in state.spec.lanes:
        raise Invalid(f"stream {state.name} has no lane {command.lane}", field="lane")
    check_partitions(command.partitions, "partitions")
    for channel in state.channels:
        same = channel.ref.lane == command.lane and channel.cluster == command.cluster
        if same and channel.spare and channel.partitions == command.partitions:
            return []
    ref = ChannelRef(command.lane, state.generations.get(command.lane, 0) + 1)
    topic = ChannelId(state.name, *ref).topic(command.topic_prefix)
    return [ChannelPlanned(ref, command.cluster, topic, command.partitions)]


def _move(state: Stream, command: MoveTraffic) -> Sequence[StreamEvent]:
    for ref, weight in command.activate:
        channel = state.channel(ref)
        ready = channel.state is ChannelState.STANDBY and not channel.retiring
        if not ready and channel.state is not ChannelState.ACTIVE:
            raise Conflict(
                f"channel {ref} of stream {state.name} is {channel.state.name}", remedy="plan the move again"
            )
        if not 0.0 < weight <= 1e6:
            raise Invalid(f"{weight} is not a weight", field="weight")
    activated = {ref for ref, _ in command.activate}
    for ref in command.drain:
        if state.channel(ref).state is not ChannelState.ACTIVE or ref in activated:
            raise Conflict(f"channel {ref} carries no traffic", remedy="plan the move again")
    if not command.activate and not command.drain:
        return []
    _require_routes(state, activated, set(command.drain))
    for lane in sorted({ref.lane for ref in activated}):
        left = {channel.ref for channel in state.active(lane)} - set(command.drain)
        check_order(state, lane, len(left | {ref for ref in activated if ref.lane == lane}), "lanes")
    moved = TrafficMoved(
        state.route_revision + 1, command.activate, command.drain, command.planned, command.reason, command.asked_for
    )
    return [moved, *_unblocked(state, set(command.drain))]


def _require_routes(state: Stream, activated: set[ChannelRef], drained: set[ChannelRef]) -> None:
    """No lane that has a route may lose all of it."""
    for lane in sorted({ref.lane for ref in drained}):
        left = {channel.ref for channel in state.active(lane)} - drained
        if not left and not any(ref.lane == lane for ref in activated):
            raise Refused(f"lane {lane} of stream {state.name} would have no active channel", field="lanes")


def _unblocked(state: Stream, drained: set[ChannelRef]) -> Sequence[StreamEvent]:
    """Clusters no traffic waits to leave any more, once `drained` have left."""
    left = {each.cluster for each in state.channels if each.state is ChannelState.ACTIVE and each.ref not in drained}
    waiting = sorted({*state.blocked, *state.proposed})
    return [FailoverUnblocked(cluster) for cluster in waiting if cluster not in left]


def _notice(
    state: Stream, command: MarkStranded | MarkReturned | BlockFailover | UnblockFailover | ProposeMove
) -> Sequence[StreamEvent]:
    match command:
        case MarkStranded():
            here = [each for each in state.channels if each.cluster == command.cluster and not each.stranded]
            return [ChannelStranded(each.ref) for each in here if each.state in CONSUMABLE]
        case MarkReturned():
            here = [each for each in state.channels if each.cluster == command.cluster and each.stranded]
            return [ChannelReturned(each.ref) for each in here]
        case BlockFailover():
            known = state.blocked.get(command.cluster) == command.reason
            return [] if known else [FailoverBlocked(command.cluster, command.reason)]
        case UnblockFailover():
            waiting = command.cluster in state.blocked or command.cluster in state.proposed
            return [FailoverUnblocked(command.cluster)] if waiting else []
        case ProposeMove():
            known = command.away_from_cluster in state.proposed
            return [] if known else [MoveProposed(command.away_from_cluster, command.reason)]


_Record = (
    RecordProvisioned
    | RecordProducersLeft
    | RecordSealed
    | RecordEndOffsets
    | RecordDrained
    | RecordRetentionLifted
    | RecordRetentionRestored
    | ReportLoss
    | ReportOverwritten
    | CloseChannel
    | ReleaseChannel
    | IntendRetirement
)


def _record(state: Stream, command: _Record) -> Sequence[StreamEvent]:
    channel = state.channel(command.ref)
    match command:
        case RecordProvisioned():
            waits = channel.state is ChannelState.PROVISIONING and not channel.retiring
            made = ChannelProvisioned(command.ref, command.topic_id, command.kafka_cluster_id, command.copies)
            return [made] if waits else []
        case RecordRetentionLifted():
            drains = channel.state is ChannelState.DRAINING and not channel.retention_lifted
            carries = channel.state is ChannelState.ACTIVE and channel.endangered
            return [RetentionLifted(command.ref)] if drains or carries else []
        case RecordRetentionRestored():
            drained = channel.state is ChannelState.DRAINED and not channel.retention_restored
            safe = channel.state is ChannelState.ACTIVE and channel.retention_lifted and not channel.endangered
            return [RetentionRestored(command.ref)] if drained or safe else []
        case ReportLoss() | ReportOverwritten():
            return lose(channel, command)
        case CloseChannel():
            return _close(channel, command)
        case ReleaseChannel():
            return _release(state, channel, command)
        case IntendRetirement():
            return _intend_retirement(channel)
        case _:
            return _drain(channel, command)


def _intend_retirement(channel: Channel) -> Sequence[StreamEvent]:
    if channel.retiring or not channel.live:
        return []
    if channel.state not in SPARE and channel.state is not ChannelState.DRAINED:
        raise Refused(f"channel {channel.ref} is {channel.state.name}: only drained and spare ones may be retired")
    return [RetirementIntended(channel.ref)]


def _close(channel: Channel, command: CloseChannel) -> Sequence[StreamEvent]:
    if channel.closed:
        return []
    if channel.state is not ChannelState.DRAINING:
        message = f"channel {channel.ref} is {channel.state.name}: only one that drains can be closed"
        raise Refused(message, field="channel", remedy="move its stream elsewhere first")
    _require(channel.producers_left, channel, "its producers may still write")
    return [ChannelClosed(command.ref, command.given_up, command.reason)]


def _release(state: Stream, channel: Channel, command: ReleaseChannel) -> Sequence[StreamEvent]:
    if channel.released:
        return []
    if not state.waits_for(channel):
        message = f"channel {channel.ref} waits for no other"
        raise Refused(message, field="channel", remedy=f"look again: braid get channels {state.name}")
    return [ChannelReleased(command.ref, command.reason)]


def _drain(
    channel: Channel, command: RecordProducersLeft | RecordSealed | RecordEndOffsets | RecordDrained
) -> Sequence[StreamEvent]:
    """The order of a drain is enforced here, whatever the shell believes."""
    if isinstance(command, RecordProducersLeft) and channel.producers_left:
        return late_receipts(channel, command)
    if channel.state is ChannelState.DRAINED:
        unsealed = channel.closed and not channel.sealed and isinstance(command, RecordSealed)
        return [ChannelSealed(command.ref)] if unsealed else []
    if channel.state is not ChannelState.DRAINING:
        raise Refused(f"channel {channel.ref} is {channel.state.name}, it does not drain")
    match command:
        case RecordProducersLeft():
            if command.route_revision < channel.drain_revision:
                raise Refused(f"route {command.route_revision} still names channel {channel.ref}")
            told = (command.expired, command.acknowledged, command.unheard)
            return [ProducersLeft(command.ref, command.route_revision, *told)]
        case RecordSealed():
            _require(channel.producers_left, channel, "its producers may still write")
            return [] if channel.sealed else [ChannelSealed(command.ref)]
        case RecordEndOffsets():
            _require(channel.sealed, channel, "it is not sealed")
            if len(command.offsets) != channel.partitions or min(command.offsets) < 0:
                raise Invalid(f"channel {channel.ref} has {channel.partitions} partitions", field="offsets")
            return _end_offsets(channel, command.offsets)
        case RecordDrained():
            _require(channel.end_offsets is not None, channel, "its end is not known")
            return [ChannelDrained(command.ref, command.groups)]


def _end_offsets(channel: Channel, offsets: tuple[int, ...]) -> Sequence[StreamEvent]:
    """An end that was read once only grows: what is beyond it was acknowledged too."""
    known = channel.end_offsets or (0,) * channel.partitions
    grown = tuple(max(pair) for pair in zip(known, offsets, strict=True))
    return [] if grown == channel.end_offsets else [EndOffsetsRead(channel.ref, grown)]


def _require(done: bool, channel: Channel, otherwise: str) -> None:
    if not done:
        raise Refused(f"channel {channel.ref} cannot go on: {otherwise}")


def _retire(state: Stream, ref: ChannelRef) -> Sequence[StreamEvent]:
    known = [each for each in state.channels if each.ref == ref and each.live]
    if not known:
        return []
    _require(known[0].retiring, known[0], "its retirement is not recorded")
    return [ChannelRetired(ref)]


# --- evolve


def _evolved(state: Stream, event: StreamEvent, context: Context) -> Stream:
    match event:
        case StreamCreated():
            kept = Stream(state.name, channels=state.channels, generations=state.generations, changes=state.changes)
            revision = state.route_revision + 1
            return replace(kept, exists=True, spec=event.spec, create_time_ms=context.now_ms, route_revision=revision)
        case StreamUpdated() | DrillBegan() | DrillEnded():
            return replace(state, spec=event.spec)
        case StreamDeleted():
            return _discard(state, context.now_ms)
        case ChannelPlanned():
            channel = Channel(event.ref, event.cluster, event.topic, event.partitions, state_since_ms=context.now_ms)
            generations = {**state.generations, event.ref.lane: event.ref.generation}
            return replace(state, channels=(*state.channels, channel), generations=generations)
        case TrafficMoved():
            return _traffic_moved(state, event, context)
        case FailoverBlocked():
            return replace(state, blocked={**state.blocked, event.cluster: event.reason})
        case FailoverUnblocked():
            blocked = {cluster: reason for cluster, reason in state.blocked.items() if cluster != event.cluster}
            proposed = tuple(cluster for cluster in state.proposed if cluster != event.cluster)
            return replace(state, blocked=blocked, proposed=proposed)
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
    """Who puts a channel on the route sees all its producers; of one that was found, nobody knows them."""
    active = channel.enter(ChannelState.ACTIVE, context.now_ms)
    return replace(active, activated_epoch=0 if event.found else context.leader_epoch, retiring=False)


def _discard(state: Stream, now_ms: int) -> Stream:
    """Nothing of a deleted stream stays: no route, no drain; topics go as soon as their clusters can be reached."""
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
