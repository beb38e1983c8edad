"""What an operator's rule meant for a lease: one sentence an event, for `explain`. Pure."""

from services.assigner.model.events import Event
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


def rule_text(lease: str, cluster: str, event: Event, holder: tuple[str, ...]) -> str:
    """The sentence for an event about rules; empty when it does not concern the lease.

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
            return "The group was frozen: nothing that is held moves" + (f" ({reason})" if reason else "")
        case GroupUnfrozen():
            return "The group moves again"
        case SpreadingSet(zones, hosts):
            apart = "kept apart over hosts" if hosts else "not kept apart over hosts"
            return f"Zones count as {zones.name.lower()} from then on, and lanes are {apart}"
        case PolicySet(policy):
            return f"Leases are placed by {policy_text(policy)} from then on"
    return _holder_text(event, holder)


def policy_text(policy: PlacementPolicy) -> str:
    """A policy for people."""
    bands = [f"above {policy.high:g}" if policy.high else "", f"below {policy.low:g}" if policy.low else ""]
    named = " or ".join(filter(None, bands))
    return policy.basis.name.lower() + (f" (moved {named} of the mean)" if named else "")


def _holder_text(event: Event, holder: tuple[str, ...]) -> str:
    """Of rules that name a member only those about the holder are told."""
    match event:
        case MemberDrainStarted(member, reason) if member in holder:
            return f"{member} is to be drained" + (f" ({reason})" if reason else "")
        case MemberDrained(member) | MemberDrainEnded(member) if member in holder:
            return f"{member} is drained" if isinstance(event, MemberDrained) else f"{member} may hold leases again"
        case CapacitySet(member, capacity) if member in holder:
            return f"{member} was said to bear {capacity:g}"
        case CapacityUnset(member) if member in holder:
            return f"{member} bears what it declares again"
    return ""
