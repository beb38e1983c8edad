"""Explains why a lease is where it is: one sentence for each step of the group's history. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from braid.kernel.decider import Context
from braid.kernel.ids import LeaseId, epoch_text
from braid.kernel.offset_ranges import ranges_text
from services.assigner.model.channels import (
    ChannelClosed,
    ChannelObserved,
)
from services.assigner.model.events import (
    Event,
    GoneReason,
    GroupRegistered,
    GroupUpdated,
    LeaseGrant,
    LeasesGranted,
    LeasesReleased,
    MemberGone,
    MemberJoined,
    ReleaseReason,
    RevokesStarted,
    StartFixed,
)
from services.assigner.model.group import Group, GroupSpec, StartKind
from services.assigner.model.lag.response_events import ResponseTaken, ResponseUndone
from services.assigner.model.lag.responses import ResponseKind, ResponseState
from services.assigner.model.progress_resets import UNTOUCHED, ProgressReset, ResetEvent, ResetIntended
from services.assigner.model.rules import (
    Ban,
    CapacitySet,
    CapacityUnset,
    GroupFrozen,
    GroupUnfrozen,
    LeasePinned,
    LeaseUnpinned,
    MemberBanned,
    MemberDrained,
    MemberDrainEnded,
    MemberDrainStarted,
    MemberUnbanned,
    PlacementPolicy,
    PolicySet,
    SpreadingSet,
)

_GONE = {
    GoneReason.LEFT: "left",
    GoneReason.DISCONNECTED: "lost its connection",
    GoneReason.EXPIRED: "sent no heartbeat for the lease time",
}
_RELEASED = {
    ReleaseReason.RELEASED: "gave it back",
    ReleaseReason.MEMBER_GONE: "is gone",
    ReleaseReason.TAKEN: "did not give it back in time, so it was taken",
    ReleaseReason.CHANNEL_GONE: "lost it because nothing is left to consume there",
}


@dataclass(frozen=True, slots=True)
class Step:
    """One event about a lease, and what it means for it."""

    sequence: int
    event: Event
    context: Context
    text: str


def explain(lease: LeaseId, history: Sequence[tuple[int, Event, Context]], before: Group) -> list[Step]:
    """Tells the history of a lease, oldest step first.

    Args:
        lease: Which.
        history: (sequence, event, context) of the group's events, in order.
        before: The group before the first of these events.
    """
    names = {member.id: member.client_id for member in before.members.values()}
    known, channel = before.leases.get(str(lease)), before.channels.get(str(lease.channel))
    holder, cluster = known.holder if known else "", channel.cluster if channel else ""
    steps: list[Step] = []
    for sequence, event, context in history:
        if isinstance(event, MemberJoined):
            names[event.member] = event.client_id
        if isinstance(event, ChannelObserved) and event.channel == str(lease.channel):
            cluster = event.cluster
        text = _text(lease, event, holder, names) or rule_text(
            str(lease), cluster, event, (holder, names.get(holder, holder))
        )
        if text:
            because = f", because {context.cause}" if context.cause else ""
            steps.append(Step(sequence, event, context, f"{text} (decided by {context.actor}{because})"))
        holder = _holder(str(lease), event, holder)
    return steps


def _holder(lease: str, event: Event, holder: str) -> str:
    match event:
        case LeasesGranted(grants) if (grant := _find(lease, grants)) is not None:
            return grant.member
        case LeasesReleased(leases) if _find(lease, leases) is not None:
            return ""
    return holder


def _find(lease: str, grants: Sequence[LeaseGrant]) -> LeaseGrant | None:
    return next((grant for grant in grants if grant.lease == lease), None)


def _text(lease: LeaseId, event: Event, holder: str, names: dict[str, str]) -> str:
    """Returns the sentence for an event; empty when the event does not concern the lease."""
    match event:
        case GroupRegistered(spec=spec):
            return f"The group was registered for {', '.join(spec.streams)}, {_start(spec)}"
        case GroupUpdated(spec):
            return f"The group was changed to consume {_lanes(spec)} of {', '.join(spec.streams)}"
        case ChannelObserved() | ChannelClosed() | StartFixed() | ResetIntended() | ProgressReset():
            return _channel_text(lease, event)
        case MemberGone(member, reason) if member == holder:
            return f"{_name(member, names)} {_GONE[reason]}"
        case LeasesGranted() | RevokesStarted() | LeasesReleased():
            return _lease_text(str(lease), event, names)
    return ""


def _channel_text(lease: LeaseId, event: ChannelObserved | ChannelClosed | StartFixed | ResetEvent) -> str:
    if event.channel != str(lease.channel):
        return ""
    match event:
        case ChannelObserved():
            state = _prospects(event)
            return (
                f"Channel {event.channel} on {event.cluster} {state}, as of registry revision {event.registry_revision}"
            )
        case ChannelClosed():
            left = [each for each in event.unread if each.partition == lease.partition]
            unread = f"; the group had not done {ranges_text(left)}" if left else ""
            return f"Channel {event.channel} was closed: its topic is going to be deleted{unread}"
        case ResetIntended(_, before, offsets):
            was, will = before[lease.partition], offsets[lease.partition]
            return "" if will == UNTOUCHED else f"The group's progress is to be set from {was} to {will} by hand"
        case ProgressReset(_, offsets):
            will = offsets[lease.partition]
            return "" if will == UNTOUCHED else f"The group's progress was set to {will} by hand"
        case StartFixed(_, offsets):
            at = offsets[lease.partition] if lease.partition < len(offsets) else 0
            return f"The group's start in partition {lease.partition} was fixed at offset {at}"


def _prospects(event: ChannelObserved) -> str:
    """Says what the group is to do with a channel."""
    if event.ending:
        return "is about to be deleted"
    if event.reading and event.consumable:
        return "is drained, and to be read to its end"
    return "is to be consumed" if event.consumable else "is finished"


def _lease_text(lease: str, event: LeasesGranted | RevokesStarted | LeasesReleased, names: dict[str, str]) -> str:
    grant = _find(lease, event.grants if isinstance(event, LeasesGranted) else event.leases)
    if grant is None:
        return ""
    who = _name(grant.member, names)
    match event:
        case LeasesGranted():
            return f"Granted to {who} under epoch {epoch_text(grant.epoch)}"
        case RevokesStarted():
            return f"Revoked from {who}: {event.reason}"
        case LeasesReleased():
            waived = "; its final commit could not be made" if lease in event.commit_waived else ""
            return f"{who} {_RELEASED[event.reason]}{waived}"


def _name(member: str, names: dict[str, str]) -> str:
    client = names.get(member, "")
    return f"{client} ({member})" if client else member


def _lanes(spec: GroupSpec) -> str:
    return ", ".join(lane for lane, _ in spec.lanes) or "every lane but dlq"


def _start(spec: GroupSpec) -> str:
    match spec.start.kind:
        case StartKind.EARLIEST:
            return "beginning at the earliest records"
        case StartKind.LATEST:
            return "beginning at the latest records"
        case StartKind.TIME:
            return f"beginning at records of {spec.start.time_ms} ms since 1970"


def rule_text(lease: str, cluster: str, event: Event, holder: tuple[str, ...]) -> str:
    """Returns the sentence for an event about rules; empty when it does not concern the lease.

    Args:
        lease: Which.
        cluster: Where it lies.
        event: What happened.
        holder: The names its holder goes by at that time: id and client id.
    """
    match event:
        case LeasePinned(pinned, member, strict) if pinned == lease:
            return f"Pinned to {member}" + (", and to nobody else" if strict else "")
        case LeaseUnpinned(pinned) if pinned == lease:
            return "Its pin was taken away"
        case MemberBanned(member, path, on) if Ban(member, path, on).covers(lease, cluster):
            return f"{member} was banned from {Ban(member, path, on).what}"
        case MemberUnbanned(member, path, on) if Ban(member, path, on).covers(lease, cluster):
            return f"The ban of {member} from {Ban(member, path, on).what} was lifted"
        case GroupFrozen(reason):
            return "The group was frozen: no held lease moves" + (f" ({reason})" if reason else "")
        case GroupUnfrozen():
            return "The group was unfrozen: leases move again"
        case SpreadingSet(zones, hosts):
            apart = "kept apart over hosts" if hosts else "not kept apart over hosts"
            return f"Zones count as {zones.name.lower()} from then on, and lanes are {apart}"
        case PolicySet(policy):
            return f"Leases are placed by {policy_text(policy)} from then on"
        case ResponseTaken() | ResponseUndone():
            return _response_text(lease, event) or _holder_text(event, holder)
    return _holder_text(event, holder)


def _response_text(lease: str, event: ResponseTaken | ResponseUndone) -> str:
    """Returns the sentence for a response to lag that changes how the lease's records are worked on."""
    lane = LeaseId.parse(lease).channel.lane
    if event.subject not in ("", lease) or event.lane not in ("", lane):
        return ""
    title = event.kind.title.replace("-", " ")
    state = event.state.name.lower() if isinstance(event, ResponseTaken) else "undone"
    return f"The group's response {title!r} was {state}: {event.reason}"


def policy_text(policy: PlacementPolicy) -> str:
    """Describes a policy for people."""
    bands = [f"above {policy.high:g}" if policy.high else "", f"below {policy.low:g}" if policy.low else ""]
    named = " or ".join(filter(None, bands))
    return policy.basis.name.lower() + (f" (moved {named} of the mean)" if named else "")


def _named(member: str, holder: tuple[str, ...]) -> str:
    """The client id of a lease's holder, or else its id."""
    return holder[-1] or member


def _holder_text(event: Event, holder: tuple[str, ...]) -> str:
    """Returns the sentence for a rule that names a member; only rules about the holder are reported."""
    match event:
        case MemberDrainStarted(member, reason) if member in holder:
            return f"{member} is to be drained" + (f" ({reason})" if reason else "")
        case MemberDrained(member) | MemberDrainEnded(member) if member in holder:
            return f"{member} is drained" if isinstance(event, MemberDrained) else f"{member} may hold leases again"
        case ResponseTaken(kind=ResponseKind.LEAVE_SLOW_MEMBERS, subject=member) if member in holder:
            part = dict(event.after).get("capacity", 1.0)
            counts = "would be counted" if event.state is ResponseState.PROPOSED else "is counted"
            return f"{_named(member, holder)} {counts} at {part:.0%} of its capacity: {event.reason}"
        case ResponseUndone(kind=ResponseKind.LEAVE_SLOW_MEMBERS, subject=member) if member in holder:
            return f"{_named(member, holder)} counts in full again: {event.reason}"
        case CapacitySet(member, capacity) if member in holder:
            return f"{member} was given the capacity {capacity:g}"
        case CapacityUnset(member) if member in holder:
            return f"{member} has the capacity that it declares again"
    return ""
