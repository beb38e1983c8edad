"""Decides on a group's response policies, and on responses to lag. Pure.

A response that was computed from policies or responses that no longer stand leads to nothing. So a leader that was
paused, and a command that comes twice, change nothing.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from braid.kernel.decider import Context
from braid.kernel.errors import Invalid, NotFound
from braid.kernel.limits.assigner.responses import (
    RESPONSE_BUDGET_MAX,
    RESPONSE_COOLDOWN_MAX,
    RESPONSE_COOLDOWN_MIN,
    RESPONSE_FACTOR_MAX,
    RESPONSE_POLICIES_MAX,
    RESPONSE_REASON_CHARS_MAX,
    RESPONSE_UNDO_AFTER_MAX,
    RESPONSE_UNDO_AFTER_MIN,
    RESPONSE_UNDONE_MAX,
)
from services.assigner.model.backlog_splits import SplitAsked
from services.assigner.model.group import Group, GroupSpec, LeaseState
from services.assigner.model.lag.response_events import (
    ResponseCommand,
    ResponseEvent,
    ResponsesSet,
    ResponseTaken,
    ResponseUndone,
    SetResponses,
    TakeResponse,
    UndoResponse,
)
from services.assigner.model.lag.responses import (
    Response,
    ResponseKind,
    ResponseMode,
    ResponsePolicy,
    Responses,
    ResponseState,
    WorkDivision,
)

_SWITCHED_OFF = "its policy was switched off"
_AFTERWARDS = {
    None: (ResponseState.PROPOSED, ResponseState.APPLIED),
    ResponseState.PROPOSED: (ResponseState.APPLIED,),
    ResponseState.APPLIED: (ResponseState.EXHAUSTED,),
    ResponseState.EXHAUSTED: (),
}


def decide(state: Group, command: ResponseCommand) -> Sequence[ResponseEvent | SplitAsked]:
    """Returns the events of a command. Raises `NotFound`, `Invalid`; then nothing has changed."""
    if state.spec is None:
        raise NotFound(f"there is no group {state.name!r}", field="group", remedy="list them: braid get groups")
    match command:
        case SetResponses(policies):
            return _set(state, state.spec, policies)
        case TakeResponse():
            return _take(state, state.spec, command)
        case UndoResponse(key, reason, seen):
            if state.responses != seen or key not in seen.taken:
                return ()
            return [ResponseUndone(state.spec, *key, reason[:RESPONSE_REASON_CHARS_MAX])]


def _set(state: Group, spec: GroupSpec, policies: Sequence[ResponsePolicy]) -> Sequence[ResponseEvent]:
    lanes = lanes_of(state)
    for number, policy in enumerate(policies):
        check_response_policy(policy, f"policies.{number}")
        if policy.lane and policy.lane not in lanes:
            raise NotFound(
                f"group {state.name!r} consumes no lane {policy.lane!r}",
                field=f"policies.{number}.lane",
                remedy=f"use {', '.join(sorted(lanes))}" if lanes else "it consumes nothing yet",
            )
    named = {(each.kind, each.lane): each for each in (*state.responses.policies, *policies)}
    kept = tuple(each for _, each in sorted(named.items(), key=_by_kind_and_lane) if _counts(each, named))
    if len(kept) > RESPONSE_POLICIES_MAX:
        remedy = "name a lane only where it differs from the others"
        raise Invalid(f"a group has at most {RESPONSE_POLICIES_MAX} policies", field="policies", remedy=remedy)
    if kept == state.responses.policies:
        return ()
    after = replace(state.responses, policies=kept)
    undone = [ResponseUndone(spec, *key, _SWITCHED_OFF) for key, each in after.taken.items() if _ended(after, each)]
    return [ResponsesSet(spec, kept), *undone]


def _by_kind_and_lane(item: tuple[tuple[ResponseKind, str], ResponsePolicy]) -> tuple[int, str]:
    (kind, lane), _ = item
    return kind.value, lane


def _counts(policy: ResponsePolicy, named: Mapping[tuple[ResponseKind, str], ResponsePolicy]) -> bool:
    """Whether a policy says anything: one that is off does only beside one for all lanes that is not."""
    whole = named.get((policy.kind, ""))
    return policy.mode is not ResponseMode.OFF or (whole is not None and whole.mode is not ResponseMode.OFF)


def _ended(responses: Responses, response: Response) -> bool:
    """Whether the policies do not allow a response any more: it is off, or only to be proposed."""
    mode = responses.policy(response.kind, response.lane).mode
    return mode is ResponseMode.OFF or (mode is ResponseMode.PROPOSE and not response.proposed)


def _take(state: Group, spec: GroupSpec, command: TakeResponse) -> Sequence[ResponseEvent | SplitAsked]:
    responses, key = state.responses, command.key
    known = responses.taken.get(key)
    policy = responses.policy(key.kind, key.lane)
    if responses != command.seen or command.state not in _AFTERWARDS[known.state if known else None]:
        return ()
    automatic = policy.mode is ResponseMode.AUTOMATIC
    if policy.mode is ResponseMode.OFF or automatic is (command.state is ResponseState.PROPOSED):
        return ()
    alike = [each for each in responses.taken.values() if responses.policy(each.kind, each.lane) == policy]
    if known is None and len(alike) >= policy.budget:
        return ()
    reason = command.reason[:RESPONSE_REASON_CHARS_MAX]
    taken = ResponseTaken(spec, *key, command.state, command.before, command.after, reason)
    split = key.kind is ResponseKind.SPLIT_BACKLOG and command.state is ResponseState.APPLIED
    return [taken, *_asked(state, key.subject, dict(command.after).get("share", 0.0))] if split else [taken]


def _asked(state: Group, name: str, share: float) -> Sequence[SplitAsked]:
    """Returns the request to the lease's holder to split it, as an operator makes it."""
    lease = state.leases.get(name)
    if lease is None or lease.state is not LeaseState.HELD or not 0 < share < 1:
        return ()
    return [SplitAsked(name, lease.epoch, share, relaxed=False)]


def evolve(state: Group, event: ResponseEvent, context: Context) -> Group:
    """Applies an event. It changes the etag, as the event that carries it does in the first release."""
    before = state.responses
    changed = replace(before, revision=before.revision + 1)
    match event:
        case ResponsesSet(_, policies):
            touched = {each.kind for each in {*policies} ^ {*before.policies}}
            undone = {key: at_ms for key, at_ms in before.undone.items() if key.kind not in touched}
            after = replace(changed, policies=policies, undone=undone)  # the operator knows better
        case ResponseTaken():
            response = Response(*event.key, event.state, event.before, event.after, event.reason, context.now_ms)
            after = replace(changed, taken={**before.taken, event.key: response})
        case ResponseUndone():
            taken = {key: each for key, each in before.taken.items() if key != event.key}
            undone = {key: at_ms for key, at_ms in before.undone.items() if key != event.key}
            undone = dict([*undone.items(), (event.key, context.now_ms)][-RESPONSE_UNDONE_MAX:])
            after = replace(changed, taken=taken, undone=undone)
    return replace(state, responses=after, spec_changes=state.spec_changes + 1)


def division_of(state: Group) -> WorkDivision:
    """Returns how members divide their work now."""
    return state.responses.division(own_shares(state))


def own_shares(state: Group) -> Mapping[str, int]:
    """Returns the shares of lanes that members have by themselves, by name."""
    said = dict(state.spec.lanes) if state.spec is not None else {}
    return said or {lane: 1 for lane in sorted(lanes_of(state))}


def lanes_of(state: Group) -> Collection[str]:
    """Returns the names of the lanes that a group consumes."""
    if state.spec is None:
        return ()
    open_channels = [each for each in state.channels.values() if state.spec.wants(each.id) and not each.closed]
    return {each.id.lane for each in open_channels} | {lane for lane, _ in state.spec.lanes}


def check_response_policy(policy: ResponsePolicy, field: str) -> None:
    """Raises `Invalid` for a policy that makes no sense; `field` is where the request has it."""
    title = policy.kind.title
    if policy.lane and policy.kind in (ResponseKind.RAISE_CONCURRENCY, ResponseKind.LEAVE_SLOW_MEMBERS):
        remedy = "leave the lane out"
        raise Invalid(f"{title} is about members with all their lanes", field=f"{field}.lane", remedy=remedy)
    if policy.mode is ResponseMode.OFF:
        return
    if not 1 <= policy.budget <= RESPONSE_BUDGET_MAX:
        remedy = f"use 1 to {RESPONSE_BUDGET_MAX}, or switch it off"
        raise Invalid(f"a budget of {policy.budget} allows no response", field=f"{field}.budget", remedy=remedy)
    least, most = (1.0, RESPONSE_FACTOR_MAX) if policy.kind is ResponseKind.RAISE_CONCURRENCY else (0.0, 1.0)
    beyond = policy.reach > most if policy.kind is ResponseKind.RAISE_CONCURRENCY else policy.reach >= most
    if not policy.reach > least or beyond:  # neither for NaN
        remedy = f"use more than {least:g}, and {'at most' if most > 1 else 'less than'} {most:g}"
        raise Invalid(f"a reach of {policy.reach:g} is none for {title}", field=f"{field}.reach", remedy=remedy)
    for name, least, most in (
        ("cooldown_seconds", RESPONSE_COOLDOWN_MIN, RESPONSE_COOLDOWN_MAX),
        ("undo_after_seconds", RESPONSE_UNDO_AFTER_MIN, RESPONSE_UNDO_AFTER_MAX),
    ):
        seconds = getattr(policy, name)
        if not least <= seconds <= most:
            remedy = f"use {least:g} to {most:g} seconds"
            raise Invalid(f"{seconds:g} seconds are out of bounds", field=f"{field}.{name}", remedy=remedy)
