"""Events of a group ⇄ protobuf at rest (`events.proto`); states ⇄ bytes for snapshots. No rules, no API messages."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, cast

from google.protobuf.message import DecodeError

from braid.api.assigner.v1 import events_pb2 as pb
from braid.kernel.decider import Context
from braid.kernel.errors import CorruptHistory
from braid.kernel.offset_ranges import OffsetRange
from braid.runtime.event_metadata import metadata_message, read_context
from services.assigner.codec import later_events, rules, snapshots
from services.assigner.codec.specs import decode_spec, spec_message
from services.assigner.model.backlog_splits import LeaseSplit, SplitAsked, SplitEnded, SplitRefused
from services.assigner.model.events import (
    BumpIntended,
    ChannelClosed,
    ChannelObserved,
    Event,
    FencingWaived,
    GenerationBumped,
    GoneReason,
    GroupDeleted,
    GroupIdleAlerted,
    GroupIdleExpired,
    GroupRegistered,
    GroupUpdated,
    LeaseGrant,
    LeasesGranted,
    LeasesReleased,
    MemberGone,
    MemberJoined,
    MembershipEnded,
    ProgressSetAside,
    ReleaseReason,
    RevokesStarted,
    StartFixed,
)
from services.assigner.model.group import Group
from services.assigner.model.progress_findings import ProgressDoubted
from services.assigner.model.progress_resets import ProgressReset, ResetIntended
from services.assigner.model.stopped_lanes import LaneResumeAsked, LaneResumed, LaneStopped


class GroupCodec:
    """`kernel.decider.EventCodec` for kind `group`."""

    def encode(self, event: Event, context: Context) -> bytes:
        """An event with its metadata, as an `AssignerEvent`; equal inputs give equal bytes."""
        message = _encode_event(event)
        message.metadata.CopyFrom(metadata_message(context))
        return message.SerializeToString(deterministic=True)

    def decode(self, data: bytes) -> tuple[Event, Context]:
        """Reads `encode`'s bytes. Raises `CorruptHistory` for bytes that do not decode or an unknown type of event."""
        try:
            message = pb.AssignerEvent.FromString(data)
        except DecodeError as error:
            raise CorruptHistory("the bytes are no AssignerEvent") from error
        later = later_events.decode(message)
        if later is not None:
            return later, read_context(message.metadata)
        name = message.WhichOneof("event")
        if name is None:
            raise CorruptHistory("the event is of an unknown type", remedy="run a newer release")
        try:
            return _DECODERS[name](getattr(message, name)), read_context(message.metadata)
        except ValueError as error:  # a number no enum of ours has
            raise CorruptHistory(f"{name}: {error}", remedy="run a newer release") from error

    def encode_state(self, state: Group) -> bytes:
        """A state as bytes; equal states give equal bytes."""
        return snapshots.encode(state)

    def state_pieces(self, state: object) -> Iterator[bytes]:
        """See `PiecewiseCodec`: a group may have thousands of members and very many leases."""
        return snapshots.pieces(cast("Group", state))

    def decode_state(self, data: bytes) -> Group:
        """Reads `encode_state`'s bytes. Raises `CorruptHistory`."""
        return snapshots.decode(data)


# --- shared values


def _grants(grants: Iterable[LeaseGrant]) -> list[pb.LeaseGrant]:
    return [pb.LeaseGrant(lease=grant.lease, member=grant.member, epoch=grant.epoch) for grant in grants]


def _decode_grants(grants: Iterable[pb.LeaseGrant]) -> tuple[LeaseGrant, ...]:
    return tuple(LeaseGrant(grant.lease, grant.member, grant.epoch) for grant in grants)


# --- events


def _encode_event(event: Event) -> pb.AssignerEvent:
    match event:
        case GroupRegistered(spec):
            return pb.AssignerEvent(group_registered=pb.GroupRegistered(spec=spec_message(spec)))
        case GroupUpdated(spec):
            return pb.AssignerEvent(group_updated=pb.GroupUpdated(spec=spec_message(spec)))
        case GroupDeleted():
            return pb.AssignerEvent(group_deleted=pb.GroupDeleted())
        case GroupIdleAlerted():
            return later_events.encode(event)
        case GroupIdleExpired():
            return pb.AssignerEvent(group_idle_expired=pb.GroupIdleExpired())
        case MemberJoined() | MemberGone():
            return _encode_member(event)
        case StartFixed() | ChannelObserved() | ChannelClosed():
            return _encode_channel(event)
        case ResetIntended(channel, before, offsets):
            intended = pb.ResetIntended(channel=channel, before=before, offsets=offsets)
            return pb.AssignerEvent(reset_intended=intended)
        case LaneStopped(member, lane, reason):
            return pb.AssignerEvent(lane_stopped=pb.LaneStopped(member=member, lane=lane, reason=reason))
        case LaneResumed(member, lane):
            return pb.AssignerEvent(lane_resumed=pb.LaneResumed(member=member, lane=lane))
        case LaneResumeAsked(member, lane):
            return pb.AssignerEvent(lane_resume_asked=pb.LaneResumeAsked(member=member, lane=lane))
        case ProgressDoubted(lease, epoch, kind, start, end, reason):
            doubted = pb.ProgressDoubted(lease=lease, epoch=epoch, kind=kind, start=start, end=end, reason=reason)
            return pb.AssignerEvent(progress_doubted=doubted)
        case SplitAsked(lease, epoch, share, relaxed):
            wished = pb.SplitAsked(lease=lease, epoch=epoch, share=share, relaxed=relaxed)
            return pb.AssignerEvent(split_asked=wished)
        case LeaseSplit(lease, epoch, at, share):
            return pb.AssignerEvent(lease_split=pb.LeaseSplit(lease=lease, epoch=epoch, at=at, share=share))
        case SplitRefused(lease, epoch, reason):
            return pb.AssignerEvent(split_refused=pb.SplitRefused(lease=lease, epoch=epoch, reason=reason))
        case SplitEnded(lease):
            return pb.AssignerEvent(split_ended=pb.SplitEnded(lease=lease))
        case ProgressReset(channel, offsets):
            return pb.AssignerEvent(progress_reset=pb.ProgressReset(channel=channel, offsets=offsets))
        case LeasesGranted() | RevokesStarted() | LeasesReleased():
            return _encode_leases(event)
        case BumpIntended(cluster, member_id):
            return pb.AssignerEvent(bump_intended=pb.BumpIntended(cluster=cluster, member_id=member_id))
        case GenerationBumped(cluster, member_id, generation):
            bumped = pb.GenerationBumped(cluster=cluster, member_id=member_id, generation=generation)
            return pb.AssignerEvent(generation_bumped=bumped)
        case FencingWaived(cluster):
            return pb.AssignerEvent(fencing_waived=pb.FencingWaived(cluster=cluster))
        case ProgressSetAside(cluster):
            return pb.AssignerEvent(progress_set_aside=pb.ProgressSetAside(cluster=cluster))
        case MembershipEnded(cluster):
            return pb.AssignerEvent(membership_ended=pb.MembershipEnded(cluster=cluster))
        case _:
            return rules.encode(event)


def _encode_member(event: MemberJoined | MemberGone) -> pb.AssignerEvent:
    if isinstance(event, MemberGone):
        reason = cast("pb.GoneReason.ValueType", event.reason.value)
        return pb.AssignerEvent(member_gone=pb.MemberGone(member=event.member, reason=reason))
    joined = pb.MemberJoined(
        member=event.member,
        client_id=event.client_id,
        zone=event.zone,
        capacity=event.capacity,
        protocol_version=event.protocol_version,
        capabilities=event.capabilities,
        peer=event.peer,
    )
    return pb.AssignerEvent(member_joined=joined)


def _encode_channel(event: StartFixed | ChannelObserved | ChannelClosed) -> pb.AssignerEvent:
    match event:
        case StartFixed(channel, offsets):
            return pb.AssignerEvent(start_fixed=pb.StartFixed(channel=channel, offsets=offsets))
        case ChannelClosed(channel, revision, unread):
            ranges = [pb.UnreadRange(partition=each.partition, first=each.first, last=each.last) for each in unread]
            closed = pb.ChannelClosed(channel=channel, registry_revision=revision, unread=ranges)
            return pb.AssignerEvent(channel_closed=closed)
        case ChannelObserved():
            observed = pb.ChannelObserved(
                channel=event.channel,
                cluster=event.cluster,
                topic=event.topic,
                partitions=event.partitions,
                consumable=event.consumable,
                registry_revision=event.registry_revision,
                appeared_later=event.appeared_later,
                zone=event.zone,
                reading=event.reading,
                finished=event.finished,
                ending=event.ending,
                unproved=event.unproved,
                left_revision=event.left_revision,
                in_order=event.in_order,
            )
            return pb.AssignerEvent(channel_observed=observed)


def _encode_leases(event: LeasesGranted | RevokesStarted | LeasesReleased) -> pb.AssignerEvent:
    match event:
        case LeasesGranted(grants):
            return pb.AssignerEvent(leases_granted=pb.LeasesGranted(grants=_grants(grants)))
        case RevokesStarted(leases, deadline_ms, reason):
            started = pb.RevokesStarted(leases=_grants(leases), deadline_ms=deadline_ms, reason=reason)
            return pb.AssignerEvent(revokes_started=started)
        case LeasesReleased(leases, cause, waived):
            released = pb.LeasesReleased(
                leases=_grants(leases), reason=cast("pb.ReleaseReason.ValueType", cause.value), commit_waived=waived
            )
            return pb.AssignerEvent(leases_released=released)


def _decode_joined(message: pb.MemberJoined) -> Event:
    return MemberJoined(
        message.member,
        message.client_id,
        message.zone,
        message.capacity,
        message.protocol_version,
        tuple(message.capabilities),
        message.peer,
    )


def _decode_observed(message: pb.ChannelObserved) -> Event:
    return ChannelObserved(
        message.channel,
        message.cluster,
        message.topic,
        message.partitions,
        message.consumable,
        message.registry_revision,
        message.appeared_later,
        message.zone,
        message.reading,
        message.finished,
        message.ending,
        message.unproved,
        message.left_revision,
        message.in_order,
    )


def _decode_closed(message: pb.ChannelClosed) -> Event:
    unread = tuple(OffsetRange(each.partition, each.first, each.last) for each in message.unread)
    return ChannelClosed(message.channel, message.registry_revision, unread)


def _decode_released(message: pb.LeasesReleased) -> Event:
    reason = ReleaseReason(message.reason)
    return LeasesReleased(_decode_grants(message.leases), reason, tuple(message.commit_waived))


def _decode_revokes(message: pb.RevokesStarted) -> Event:
    return RevokesStarted(_decode_grants(message.leases), message.deadline_ms, message.reason)


# By name of the field in `AssignerEvent`. Each takes the message of that field, which no type can say.
_DECODERS: Final = cast(
    "Mapping[str, Callable[[object], Event]]",
    {
        "group_registered": lambda m: GroupRegistered(decode_spec(m.spec)),
        "group_updated": lambda m: GroupUpdated(decode_spec(m.spec)),
        "group_deleted": lambda m: GroupDeleted(),
        "group_idle_expired": lambda m: GroupIdleExpired(),
        "start_fixed": lambda m: StartFixed(m.channel, tuple(m.offsets)),
        "channel_observed": _decode_observed,
        "channel_closed": _decode_closed,
        "member_joined": _decode_joined,
        "member_gone": lambda m: MemberGone(m.member, GoneReason(m.reason)),
        "leases_granted": lambda m: LeasesGranted(_decode_grants(m.grants)),
        "revokes_started": _decode_revokes,
        "leases_released": _decode_released,
        "bump_intended": lambda m: BumpIntended(m.cluster, m.member_id),
        "generation_bumped": lambda m: GenerationBumped(m.cluster, m.member_id, m.generation),
        "fencing_waived": lambda m: FencingWaived(m.cluster),
        "progress_set_aside": lambda m: ProgressSetAside(m.cluster),
        "membership_ended": lambda m: MembershipEnded(m.cluster),
        "reset_intended": lambda m: ResetIntended(m.channel, tuple(m.before), tuple(m.offsets)),
        "progress_reset": lambda m: ProgressReset(m.channel, tuple(m.offsets)),
        "lane_stopped": lambda m: LaneStopped(m.member, m.lane, m.reason),
        "lane_resumed": lambda m: LaneResumed(m.member, m.lane),
        "lane_resume_asked": lambda m: LaneResumeAsked(m.member, m.lane),
        "progress_doubted": lambda m: ProgressDoubted(m.lease, m.epoch, m.kind, m.start, m.end, m.reason),
        "split_asked": lambda m: SplitAsked(m.lease, m.epoch, m.share, m.relaxed),
        "lease_split": lambda m: LeaseSplit(m.lease, m.epoch, m.at, m.share),
        "split_refused": lambda m: SplitRefused(m.lease, m.epoch, m.reason),
        "split_ended": lambda m: SplitEnded(m.lease),
        **rules.DECODERS,
    },
)
