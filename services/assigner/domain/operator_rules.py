"""Rules that operators may set for a group, and how they change the group. Pure.

A rule is refused if it would leave a partition without any present member that may hold it: such a request is almost
always a slip. Members that go later can still lead there. Then no rule is broken: the partition waits, and the group's
warnings name it. A request for what is already so changes nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from braid.kernel.decider import Context
from braid.kernel.errors import Exhausted, Invalid, NotFound, Refused
from braid.kernel.ids import ChannelId, LeaseId
from braid.kernel.limits.assigner.leases import GROUP_RULES_MAX, GROUP_RULES_SHOWN, HELLO_TEXT_MAX
from braid.kernel.limits.assigner.placement import POLICY_BAND_MAX, POLICY_BAND_MIN
from services.assigner.domain.admission import check_capacity
from services.assigner.model.commands import Loads
from services.assigner.model.group import Group, channel_of
from services.assigner.model.rules import (
    Ban,
    BanMember,
    Basis,
    CapacitySet,
    CapacityUnset,
    Drain,
    DrainMember,
    Freeze,
    FreezeGroup,
    GroupFrozen,
    GroupRules,
    GroupUnfrozen,
    LeasePinned,
    LeaseUnpinned,
    MemberBanned,
    MemberDrained,
    MemberDrainEnded,
    MemberDrainStarted,
    MemberUnbanned,
    Pin,
    PinLease,
    PlacementPolicy,
    PolicySet,
    RuleCommand,
    RuleEvent,
    SetCapacity,
    SetPolicy,
    SetShadow,
    SetSpreading,
    Shadow,
    ShadowEnded,
    ShadowSet,
    SpreadingSet,
    UnbanMember,
    UnpinLease,
)
from services.assigner.policy import constraints
from services.assigner.policy.layout import layout

V = TypeVar("V")


def decide(state: Group, command: RuleCommand, context: Context) -> Sequence[RuleEvent]:
    """Returns the events of a rule. Raises `NotFound`, `Invalid`, `Refused`, `Exhausted`; then nothing has changed."""
    if state.spec is None:
        raise NotFound(f"there is no group {state.name!r}", field="group", remedy="list them: braid get groups")
    events = _wanted(state, command)
    after = state.rules
    for event in events:
        after = evolve(after, event, context)
    if after == state.rules:
        return ()
    if after.count > max(GROUP_RULES_MAX, state.rules.count):
        raise Exhausted(f"group {state.name!r} has {GROUP_RULES_MAX} rules", remedy="take some back first")
    _check_held(state, replace(state, rules=after))
    return events


def _wanted(state: Group, command: RuleCommand) -> Sequence[RuleEvent]:
    match command:
        case PinLease():
            return _pin(state, command)
        case UnpinLease(lease):
            return [LeaseUnpinned(lease)] if lease in state.rules.pins else ()
        case BanMember(ban):
            return _ban(state, ban, absent=command.absent)
        case UnbanMember(ban):
            return [MemberUnbanned(ban.member, ban.path, ban.cluster)] if ban in state.rules.bans else ()
        case FreezeGroup(frozen, reason):
            _check_text(reason, "reason")
            thawed = [] if state.rules.freeze is None else [GroupUnfrozen()]
            return [GroupFrozen(reason)] if frozen else thawed
        case DrainMember():
            return _drain(state, command)
        case SetCapacity():
            return _capacity(state, command)
        case SetSpreading(zones, hosts):
            rules = state.rules
            return [SpreadingSet(zones or rules.zones, rules.spread if hosts is None else hosts)]
        case SetPolicy(policy):
            check_policy(policy)
            return [PolicySet(policy)]
        case SetShadow(tried):
            if tried is None:
                return [ShadowEnded()] if state.rules.shadow else ()
            check_policy(tried)
            return [ShadowSet(tried)]


def _pin(state: Group, command: PinLease) -> Sequence[RuleEvent]:
    _check_member(state, command.member, absent=command.absent)
    _check_lease(state, command.lease)
    for ban in state.rules.bans:
        if constraints.contradicts(state, ban, command.lease, command.member):
            raise Refused(
                f"{ban.member} is banned from {ban.what}",
                field="member",
                remedy=f"lift the ban first (braid unban member {ban.member}), or pin it to another member",
            )
    return [LeasePinned(command.lease, command.member, command.strict)]


def _ban(state: Group, ban: Ban, *, absent: bool) -> Sequence[RuleEvent]:
    _check_member(state, ban.member, absent=absent)
    _check_part(state, ban)
    for lease, pin in sorted(state.rules.pins.items()):
        if constraints.contradicts(state, ban, lease, pin.member):
            raise Refused(
                f"{lease} is pinned to {pin.member}",
                field="cluster" if ban.cluster else "path",
                remedy=f"unpin it first: braid unpin lease {lease}",
            )
    return [MemberBanned(ban.member, ban.path, ban.cluster)]


def _drain(state: Group, command: DrainMember) -> Sequence[RuleEvent]:
    if not command.drained:
        return [MemberDrainEnded(command.member)] if command.member in state.rules.drains else ()
    _check_member(state, command.member, absent=command.absent)
    _check_text(command.reason, "reason")
    return [MemberDrainStarted(command.member, command.reason)]


def _capacity(state: Group, command: SetCapacity) -> Sequence[RuleEvent]:
    if command.capacity is None:
        return [CapacityUnset(command.member)] if command.member in state.rules.capacities else ()
    check_capacity(command.capacity, "capacity")
    _check_member(state, command.member, absent=command.absent)
    return [CapacitySet(command.member, command.capacity)]


# --- what may not be asked for


def check_policy(policy: PlacementPolicy) -> None:
    """Raises `Invalid` for a band that makes no sense, or that could never apply."""
    for field, part, limit in (("band_high", policy.high, POLICY_BAND_MAX), ("band_low", policy.low, 1.0)):
        if part and policy.basis is Basis.COUNT:
            raise Invalid("numbers have no band", field=f"policy.{field}", remedy="leave it out, or place by load")
        if part and not POLICY_BAND_MIN <= part <= limit:  # neither for NaN
            remedy = f"use a part of the mean between {POLICY_BAND_MIN:g} and {limit:g}"
            raise Invalid(f"{part:g} is no band", field=f"policy.{field}", remedy=remedy)


def _check_text(text: str, field: str) -> None:
    if len(text) > HELLO_TEXT_MAX:
        raise Invalid(f"longer than {HELLO_TEXT_MAX} characters", field=field)


def _check_member(state: Group, name: str, *, absent: bool) -> None:
    """Checks that a name belongs to one present member, or is known from another rule."""
    if not name:
        raise Invalid("a member is needed", field="member", remedy="list them: braid get members")
    _check_text(name, "member")
    found = constraints.carriers(state, name)
    if len(found) > 1:
        remedy = f"use an id: {', '.join(sorted(found)[:GROUP_RULES_SHOWN])}"
        raise Invalid(f"{len(found)} members are called {name!r}", field="member", remedy=remedy)
    if not found and not absent and name not in state.rules.names:
        raise NotFound(
            f"group {state.name!r} has no member {name!r}",
            field="member",
            remedy="list them: braid get members; a rule for one that will come needs --absent",
        )


def _check_lease(state: Group, name: str) -> None:
    lease = LeaseId.parse(name)
    channel = state.channels.get(str(lease.channel))
    if channel is None or not state.spec or not state.spec.wants(lease.channel) or channel.closed:
        raise NotFound(
            f"group {state.name!r} does not consume channel {lease.channel}",
            field="lease",
            remedy="list them: braid get leases",
        )
    if lease.partition >= channel.partitions:
        raise NotFound(f"channel {lease.channel} has {channel.partitions} partitions", field="lease")


def _check_part(state: Group, ban: Ban) -> None:
    """Checks that a part of the group exists: a cluster, or a path."""
    if bool(ban.path) == bool(ban.cluster):
        raise Invalid("name either a path or a cluster", field="path", remedy="STREAM[/LANE[/GENERATION[/PARTITION]]]")
    if ban.path.count("/") == 3:
        _check_lease(state, ban.path)
        return
    for name, channel in state.channels.items():
        if ban.covers(name, channel.cluster):
            return
    field = "cluster" if ban.cluster else "path"
    known = sorted({channel.cluster if ban.cluster else _lane(channel.id) for channel in state.channels.values()})
    raise NotFound(
        f"group {state.name!r} consumes nothing of {ban.what}",
        field=field,
        remedy=f"use {', '.join(known[:GROUP_RULES_SHOWN])}" if known else "",
    )


def _lane(channel: ChannelId) -> str:
    return f"{channel.stream}/{channel.lane}"


def _check_held(before: Group, after: Group) -> None:
    """Raises `Refused` if a change leaves a partition to no present member, although one could hold it before."""
    if not after.members:
        return
    had = set(unowned(before))
    lost = [lease for lease in unowned(after) if lease not in had]
    if lost:
        named = ", ".join(lost[:GROUP_RULES_SHOWN])
        more = f" and {len(lost) - GROUP_RULES_SHOWN} more" if len(lost) > GROUP_RULES_SHOWN else ""
        raise Refused(
            f"then none of the {len(after.members)} members could hold {named}{more}",
            field="member",
            remedy="start another member first, or take back the rule that keeps the others from it",
        )


def unowned(state: Group) -> Sequence[str]:
    """Returns the leases that no member of the group may hold."""
    placed = layout(state, sorted(state.members), Loads(), 0)
    return [placed.leases[at] for at in constraints.stuck(placed.measured.rules).tolist()]


def warnings(state: Group) -> Sequence[str]:
    """Describes for people which wishes the rules prevent."""
    rules = state.rules
    said: list[str] = []
    if rules.constrain and state.members and (left := unowned(state)):
        named = ", ".join(left[:GROUP_RULES_SHOWN])
        said.append(f"{len(left)} leases may be held by no member that is there: {named}")
    away = sorted(name for name in rules.names if not constraints.carriers(state, name))
    if away:
        said.append(f"rules wait for members that are away: {', '.join(away[:GROUP_RULES_SHOWN])}")
    waiting = [name for name, drain in sorted(rules.drains.items()) if not drain.drained_at_ms]
    if rules.freeze is not None and waiting:
        said.append(f"the group is frozen, so {', '.join(waiting)} keeps what it holds")
    return said


def holds(state: Group, name: str) -> int:
    """Counts the leases that members with this name hold."""
    columns = state.lease_columns
    return int(columns.counts(columns.numbers(constraints.carriers(state, name))).sum())


def finished(state: Group) -> Sequence[RuleEvent]:
    """Returns the drains that are complete."""
    waiting = [name for name, drain in sorted(state.rules.drains.items()) if not drain.drained_at_ms]
    return [MemberDrained(name) for name in waiting if not holds(state, name)]


# --- what events change


def evolve(rules: GroupRules, event: RuleEvent, context: Context) -> GroupRules:
    """Returns the rules after an event."""
    match event:
        case LeasePinned(lease, member, strict):
            return replace(rules, pins={**rules.pins, lease: Pin(member, strict)})
        case LeaseUnpinned(lease):
            return replace(rules, pins=_without(rules.pins, lease))
        case MemberBanned(member, path, cluster):
            return replace(rules, bans=tuple(sorted({*rules.bans, Ban(member, path, cluster)})))
        case MemberUnbanned(member, path, cluster):
            return replace(rules, bans=tuple(ban for ban in rules.bans if ban != Ban(member, path, cluster)))
        case GroupFrozen(reason):
            since_ms = rules.freeze.since_ms if rules.freeze else context.now_ms
            return replace(rules, freeze=Freeze(since_ms, reason))
        case GroupUnfrozen():
            return replace(rules, freeze=None)
        case MemberDrainStarted() | MemberDrained() | MemberDrainEnded():
            return replace(rules, drains=_drains(rules.drains, event, context))
        case CapacitySet(member, capacity):
            return replace(rules, capacities={**rules.capacities, member: capacity})
        case CapacityUnset(member):
            return replace(rules, capacities=_without(rules.capacities, member))
        case SpreadingSet(zones, hosts):
            return replace(rules, zones=zones, spread=hosts)
        case PolicySet(policy):
            return replace(rules, policy=policy)
        case ShadowSet(policy):
            since_ms = rules.shadow.since_ms if rules.shadow and rules.shadow.policy == policy else context.now_ms
            return replace(rules, shadow=Shadow(policy, since_ms))
        case ShadowEnded():
            return replace(rules, shadow=None)


def without_channel(rules: GroupRules, channel: str) -> GroupRules:
    """Returns the rules without those that name a channel that is gone, or a lease on it."""
    gone = [lease for lease in rules.pins if channel_of(lease) == channel]
    bans = tuple(ban for ban in rules.bans if ban.path != channel and channel_of(ban.path) != channel)
    if not gone and bans == rules.bans:
        return rules
    pins = {lease: pin for lease, pin in rules.pins.items() if lease not in gone}
    return replace(rules, pins=pins, bans=bans)


def _drains(
    drains: Mapping[str, Drain], event: MemberDrainStarted | MemberDrained | MemberDrainEnded, context: Context
) -> Mapping[str, Drain]:
    known = drains.get(event.member)
    match event:
        case MemberDrainStarted(member, reason):
            started = replace(known, reason=reason) if known else Drain(context.now_ms, reason)
            return {**drains, member: started}
        case MemberDrained(member) if known:
            return {**drains, member: replace(known, drained_at_ms=context.now_ms)}
        case MemberDrainEnded(member):
            return _without(drains, member)
    return drains


def _without(entries: Mapping[str, V], name: str) -> Mapping[str, V]:
    return {key: value for key, value in entries.items() if key != name}
