"""Decides on a group's scaling policy and on the number of members that follows from it. Pure.

A number that was computed from a policy or a number that no longer stands leads to nothing. So a leader that was
paused, and a command that comes twice, change nothing.
"""

from collections.abc import Sequence
from dataclasses import replace

from braid.kernel.decider import Context
from braid.kernel.errors import Invalid, NotFound
from braid.kernel.ids import split_epoch
from braid.kernel.limits.assigner.leases import GROUP_MEMBERS_MAX
from braid.kernel.limits.assigner.scaling import (
    SCALING_COOLDOWN_MAX,
    SCALING_COOLDOWN_MIN,
    SCALING_FACTOR_MAX,
    SCALING_REASON_CHARS_MAX,
    SCALING_WINDOW_MAX,
    SCALING_WINDOW_MIN,
)
from services.assigner.model.group import Group, GroupSpec
from services.assigner.model.lag.scaling import (
    NO_RATES,
    NO_SCALING,
    CapacityLimit,
    DesiredCapacity,
    Scaling,
    ScalingMode,
    ScalingPolicy,
)
from services.assigner.model.lag.scaling_events import (
    CapacityDesired,
    DesireCapacity,
    ScalingCommand,
    ScalingEvent,
    ScalingSet,
    SetScaling,
)


def decide(state: Group, command: ScalingCommand, context: Context) -> Sequence[ScalingEvent]:
    """Returns the events of a command. Raises `NotFound`, `Invalid`; then nothing has changed."""
    if state.spec is None:
        raise NotFound(f"there is no group {state.name!r}", field="group", remedy="list them: braid get groups")
    match command:
        case SetScaling(policy):
            return _set(state, state.spec, policy)
        case DesireCapacity():
            return _desire(state, state.spec, command, context)


def _set(state: Group, spec: GroupSpec, policy: ScalingPolicy) -> Sequence[ScalingEvent]:
    check_scaling(policy)
    present = state.scaling.policy
    off = policy.mode is ScalingMode.OFF
    if policy == present or (off and present.mode is ScalingMode.OFF):
        return ()
    events: list[ScalingEvent] = [ScalingSet(spec, policy)]
    if off:
        return events
    desired = state.scaling.desired
    before = desired.members if desired is not None else len(state.members)
    members = min(max(before, policy.min_members), policy.max_members)
    if desired is None or members != desired.members:
        had = f"{before} were desired" if desired else f"the group had {before}"
        reason = f"a policy of {policy.min_members} to {policy.max_members} members was set when {had}"
        events.append(CapacityDesired(spec, members, reason))
    return events


def _desire(state: Group, spec: GroupSpec, command: DesireCapacity, context: Context) -> Sequence[ScalingEvent]:
    scaling = state.scaling
    desired, policy = scaling.desired, scaling.policy
    if scaling != command.seen or desired is None:
        return ()
    if not policy.min_members <= command.members <= policy.max_members:
        return ()
    restored = desired.incarnation < _incarnation(context)
    if (command.members, command.limit) == (desired.members, desired.limit) and not restored:
        return ()
    reason = command.reason[:SCALING_REASON_CHARS_MAX]
    return [CapacityDesired(spec, command.members, reason, command.limit, command.shortage)]


def evolve(state: Group, event: ScalingEvent, context: Context) -> Group:
    """Applies an event. It changes the etag, as the event that carries it does in the first release."""
    changed = replace(state, spec_changes=state.spec_changes + 1)
    match event:
        case ScalingSet(_, policy):
            if policy.mode is ScalingMode.OFF:
                return replace(changed, scaling=NO_SCALING)
            known = state.scaling.desired  # what was learned counts no more: the operator knows better
            kept = replace(known, limit=CapacityLimit.NONE, shortage=NO_RATES) if known else None
            return replace(changed, scaling=Scaling(policy, kept))
        case CapacityDesired():
            before = state.scaling.desired.shortage if state.scaling.desired else NO_RATES
            shortage = event.shortage if event.shortage.members else before
            desired = DesiredCapacity(
                event.members, context.now_ms, event.reason, event.limit, shortage, _incarnation(context)
            )
            return replace(changed, scaling=Scaling(state.scaling.policy, desired))


def _incarnation(context: Context) -> int:
    return split_epoch(context.leader_epoch)[0]


def check_scaling(policy: ScalingPolicy) -> None:
    """Raises `Invalid` for a policy that makes no sense; fields are named as in `SetScaling`."""
    if policy.mode is ScalingMode.OFF:
        return
    if not 1 <= policy.min_members <= GROUP_MEMBERS_MAX:
        raise Invalid(
            f"a group cannot be kept at {policy.min_members} members",
            field="policy.min_members",
            remedy=f"use 1 to {GROUP_MEMBERS_MAX}: without members nobody sees that records wait",
        )
    if not policy.min_members <= policy.max_members <= GROUP_MEMBERS_MAX:
        raise Invalid(
            f"{policy.max_members} members at most is out of bounds",
            field="policy.max_members",
            remedy=f"use {policy.min_members} (the least) to {GROUP_MEMBERS_MAX}",
        )
    _check_range(policy.cooldown_seconds, "cooldown_seconds", SCALING_COOLDOWN_MIN, SCALING_COOLDOWN_MAX)
    _check_range(policy.window_seconds, "window_seconds", SCALING_WINDOW_MIN, SCALING_WINDOW_MAX)
    if not 1 < policy.factor <= SCALING_FACTOR_MAX:  # neither for NaN
        raise Invalid(
            f"a change by the factor {policy.factor:g} is none",
            field="policy.factor",
            remedy=f"use more than 1, and at most {SCALING_FACTOR_MAX:g}",
        )


def _check_range(seconds: float, name: str, least: float, most: float) -> None:
    if not least <= seconds <= most:
        remedy = f"use {least:g} to {most:g} seconds"
        raise Invalid(f"{seconds:g} seconds are out of bounds", field=f"policy.{name}", remedy=remedy)
