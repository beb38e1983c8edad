"""Rules of the kind `stream`: the events that its commands lead to. Pure.

Values are in `model`, steps of one channel's life in `channel_steps.py`, states after events in `evolve.py`. Decisions
that involve several histories (which cluster takes the traffic) are made in `policy`. They arrive here as commands,
which are checked against this stream alone.
"""

from collections.abc import Sequence
from dataclasses import replace

from braid.kernel.decider import Context
from braid.kernel.errors import AlreadyExists, Conflict, Invalid, NotFound, Refused
from braid.kernel.ids import ChannelId, check_name
from services.registry.domain import channel_steps
from services.registry.domain.drills import begin, check_mark, end
from services.registry.domain.evolve import evolved
from services.registry.domain.found_channels import find
from services.registry.domain.rebalances import decide_proposal, rebalanced
from services.registry.model import copies
from services.registry.model.channels import CONSUMABLE, ChannelRef, ChannelState, ChannelWeight
from services.registry.model.etags import check_etag
from services.registry.model.stream_commands import (
    BlockFailover,
    CreateStream,
    DeleteStream,
    EndDrill,
    IntendReassignment,
    MarkReturned,
    MarkStranded,
    MoveTraffic,
    PlanChannel,
    ProposeMove,
    ProposeRebalance,
    RecordCopies,
    RecordFound,
    RecordRetired,
    StreamCommand,
    UnblockFailover,
    UpdateStream,
    WithdrawRebalance,
)
from services.registry.model.stream_events import (
    ChannelPlanned,
    ChannelReturned,
    ChannelStranded,
    FailoverBlocked,
    FailoverUnblocked,
    MoveProposed,
    StreamDeleted,
    StreamEvent,
    StreamUpdated,
    TrafficMoved,
)
from services.registry.model.streams import (
    Stream,
    StreamSpec,
    check_order,
    check_partitions,
    check_size,
    check_stream_spec,
)


class StreamDecider:
    """The `Decider` of the kind `stream`."""

    def initial(self, history: str) -> Stream:
        """The state before the stream is created."""
        return Stream(history)

    def decide(self, state: Stream, command: StreamCommand, context: Context) -> Sequence[StreamEvent]:
        """See `Decider.decide`. A step that is already recorded leads to no event, so every step may be repeated."""
        match command:
            case CreateStream():
                return _create(state, command, context.tenant)
            case RecordRetired():  # the channels of a deleted stream are still to be retired
                return channel_steps.retire(state, command.ref)
            case RecordCopies():
                return copies.settle_copies(state, command)
            case _:
                _require_exists(state)
        match command:
            case UpdateStream():
                return _update(state, command)
            case DeleteStream():
                check_etag(command.etag, state.etag, f"stream {state.name}")
                if command.made_ms not in (0, state.create_time_ms):
                    raise Conflict(f"stream {state.name} was deleted and made again", field="name", remedy="look again")
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
            case ProposeRebalance() | WithdrawRebalance():
                return decide_proposal(state, command)
            case MarkStranded() | MarkReturned() | BlockFailover() | UnblockFailover() | ProposeMove():
                return _notice(state, command)
            case _:
                return channel_steps.record(state, command)

    def evolve(self, state: Stream, event: StreamEvent, context: Context) -> Stream:
        """See `Decider.evolve`."""
        return replace(evolved(state, event, context), changes=state.changes + 1)


def _require_exists(state: Stream) -> None:
    if not state.exists:
        raise NotFound(f"there is no stream {state.name}", field="stream", remedy="list them: braid get streams")


def _create(state: Stream, command: CreateStream, tenant: str) -> Sequence[StreamEvent]:
    check_name(state.name, "name")
    if state.exists:
        raise AlreadyExists(f"stream {state.name} exists already", field="name")
    spec = check_stream_spec(command.spec)
    check_size(spec.lanes, {}, "spec.lanes")
    return begin(state.name, spec, tenant)


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
    check_size(spec.lanes, state.spec.lanes, "spec.lanes")
    if spec.max_record_bytes != state.spec.max_record_bytes:
        message = "the size limit of a stream in use cannot change: it is what seals its topics"
        raise Invalid(message, field="spec.max_record_bytes", remedy=f"keep {state.spec.max_record_bytes}")
    updated = replace(state, spec=spec)
    for lane in spec.lanes:
        check_order(updated, lane, len(state.active(lane)), "spec.ordered")
    return [StreamUpdated(spec), *_told_of_keys(updated, state.spec)] if spec != state.spec else []


def _told_of_keys(updated: Stream, before: StreamSpec) -> Sequence[TrafficMoved]:
    """A new route for producers of lanes whose keys now keep to zones, or no longer do; nothing else changes in it."""
    changed = {*updated.spec.lanes_keyed_by_zone} ^ {*before.lanes_keyed_by_zone}
    kept = [ChannelWeight(each.ref, each.weight) for lane in sorted(changed) for each in updated.active(lane)]
    reason = f"keys of {', '.join(sorted(changed))} go by other zones"
    return [TrafficMoved(updated.route_revision + 1, tuple(kept), (), True, reason, True)] if kept else []


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
    return [moved, *rebalanced(state, command), *_unblocked(state, set(command.drain))]


def _require_routes(state: Stream, activated: set[ChannelRef], drained: set[ChannelRef]) -> None:
    """Raises `Refused` if a lane that has a route would lose all of it."""
    for lane in sorted({ref.lane for ref in drained}):
        left = {channel.ref for channel in state.active(lane)} - drained
        if not left and not any(ref.lane == lane for ref in activated):
            raise Refused(f"lane {lane} of stream {state.name} would have no active channel", field="lanes")


def _unblocked(state: Stream, drained: set[ChannelRef]) -> Sequence[StreamEvent]:
    """Clusters that no traffic waits to leave any more, once the `drained` channels have left."""
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
