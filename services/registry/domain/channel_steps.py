"""Steps in the life of one channel: which may be recorded, and the order of a drain. Pure."""

from collections.abc import Sequence

from braid.kernel.errors import Invalid, Refused
from services.registry.model.channels import SPARE, Channel, ChannelRef, ChannelState
from services.registry.model.clusters.losses import late_receipts, lose
from services.registry.model.stream_commands import (
    CloseChannel,
    IntendRetirement,
    RecordDrained,
    RecordEndOffsets,
    RecordProducersLeft,
    RecordProvisioned,
    RecordRetentionLifted,
    RecordRetentionRestored,
    RecordSealed,
    ReleaseChannel,
    ReportLoss,
    ReportOverwritten,
)
from services.registry.model.stream_events import (
    ChannelClosed,
    ChannelDrained,
    ChannelProvisioned,
    ChannelReleased,
    ChannelRetired,
    ChannelSealed,
    EndOffsetsRead,
    ProducersLeft,
    RetentionLifted,
    RetentionRestored,
    RetirementIntended,
    StreamEvent,
)
from services.registry.model.streams import Stream

ChannelCommand = (
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


def record(state: Stream, command: ChannelCommand) -> Sequence[StreamEvent]:
    """The events of one step in a channel's life; a step that is already recorded leads to none."""
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
    """Records a step of a drain. Enforces the order of a drain, whatever the shell assumes."""
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
    """Records end offsets. An end only grows: everything beyond the first reading was acknowledged too."""
    known = channel.end_offsets or (0,) * channel.partitions
    grown = tuple(max(pair) for pair in zip(known, offsets, strict=True))
    return [] if grown == channel.end_offsets else [EndOffsetsRead(channel.ref, grown)]


def _require(done: bool, channel: Channel, otherwise: str) -> None:
    if not done:
        raise Refused(f"channel {channel.ref} cannot go on: {otherwise}")


def retire(state: Stream, ref: ChannelRef) -> Sequence[StreamEvent]:
    """Records that the topic is deleted, once its retirement was recorded; for deleted streams too."""
    known = [each for each in state.channels if each.ref == ref and each.live]
    if not known:
        return []
    _require(known[0].retiring, known[0], "its retirement is not recorded")
    return [ChannelRetired(ref)]
