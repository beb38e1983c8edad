"""Kind `approvals`: policies that ask for a second person, and the requests that wait for one. Pure.

One history for the mesh, under a name of its own in the store, as grants have one: a release that does not know it
passes it over. Times that end something are led time (`runtime.clocks.led_time`): a wall clock that steps must not
make an approval last.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from braid.kernel.access.approvals import Approval, ApprovalPolicy, GuardedRequest, GuardedVerb, check_policy
from braid.kernel.access.roles import Resource
from braid.kernel.decider import Context
from braid.kernel.errors import AccessDenied, Exhausted, Invalid, NotFound, Refused
from braid.kernel.limits.access.rights import (
    APPROVAL_KEPT_SECONDS,
    APPROVAL_POLICIES_MAX,
    APPROVAL_REPEAT_SECONDS,
    APPROVALS_MAX,
    APPROVALS_PER_PRINCIPAL_MAX,
    GRANT_REASON_CHARS_MAX,
)

HISTORIES: Final = "approvals"  # the name in the store under which the history lies
HISTORY: Final = "mesh"  # its id: there is one
_KEPT_MS: Final = int(APPROVAL_KEPT_SECONDS * 1_000)
_REPEAT_MS: Final = int(APPROVAL_REPEAT_SECONDS * 1_000)


@dataclass(frozen=True, slots=True)
class ApprovalsState:
    """State of a history of kind `approvals`.

    Attributes:
        policies: By name.
        approvals: By id, in the order in which they were asked for; those that are over for a day are left out.
        led_ms: The highest led time in an event.
    """

    policies: Mapping[str, ApprovalPolicy] = field(default_factory=lambda: MappingProxyType({}))
    approvals: Mapping[str, Approval] = field(default_factory=lambda: MappingProxyType({}))
    led_ms: int = 0

    def guarding(self, request: GuardedRequest) -> Sequence[ApprovalPolicy]:
        """The policies that ask for an approval of a request, by name."""
        return [self.policies[name] for name in sorted(self.policies) if self.policies[name].guards(request)]

    def may_guard(self, verbs: Sequence[GuardedVerb], resource: Resource) -> Sequence[str]:
        """Names of the policies that guard some requests with these verbs about a resource, sorted."""
        return sorted(name for name, each in self.policies.items() if each.may_guard(verbs, resource))

    def find(self, id: str) -> Approval:
        """The approval of an id. Raises `NotFound`."""
        found = self.approvals.get(id)
        if found is None:
            raise NotFound(f"no request waits as {id}", field="id", remedy="see: braid get approvals")
        return found

    def used_by(self, request: GuardedRequest, request_id: str, led_ms: int) -> Approval | None:
        """The approval that a call with this id has used up for the same request, while its repeats may go on."""
        return next(
            (
                each
                for each in self._of(request)
                if each.used_by == request_id and led_ms - each.used_led_ms < _REPEAT_MS
            ),
            None,
        )

    def usable(self, request: GuardedRequest, lost: Collection[str], led_ms: int) -> Approval | None:
        """The approval that a request may use up: given by somebody else, who may still do so, and not expired."""
        return next(
            (
                each
                for each in self._open(request, led_ms)
                if each.decided_by not in ("", request.asked_by) and each.decided_by not in lost
            ),
            None,
        )

    def waiting(self, request: GuardedRequest, led_ms: int) -> Approval | None:
        """The approval that a request waits for, the newest; None when nobody was asked, or it is over."""
        return next(reversed([*self._open(request, led_ms)]), None)

    def _of(self, request: GuardedRequest) -> Iterator[Approval]:
        policies = self.guarding(request)
        return (each for each in self.approvals.values() if each.covers(request, policies))

    def _open(self, request: GuardedRequest, led_ms: int) -> Iterator[Approval]:
        bound_ms = min((each.expire_ms for each in self.guarding(request)), default=None)
        return (each for each in self._of(request) if each.open(led_ms, bound_ms))


# --- events


@dataclass(frozen=True, slots=True)
class PolicySet:
    """A policy holds from now on; one of the same name is replaced."""

    policy: ApprovalPolicy


@dataclass(frozen=True, slots=True)
class PolicyDeleted:
    """A policy holds no more."""

    name: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ApprovalAsked:
    """A request waits for a second person."""

    id: str
    request: GuardedRequest
    expire_ms: int
    led_ms: int


@dataclass(frozen=True, slots=True)
class ApprovalDecided:
    """A second person approved or refused a request."""

    id: str
    refused: bool
    reason: str
    led_ms: int


@dataclass(frozen=True, slots=True)
class ApprovalUsed:
    """A call used an approval up."""

    id: str
    request_id: str
    led_ms: int


Event = PolicySet | PolicyDeleted | ApprovalAsked | ApprovalDecided | ApprovalUsed


# --- commands


@dataclass(frozen=True, slots=True)
class SetPolicy:
    """Sets a policy, or replaces one of its name."""

    policy: ApprovalPolicy


@dataclass(frozen=True, slots=True)
class DeletePolicy:
    """Deletes a policy, after which it guards nothing."""

    name: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Decide:
    """Approves or refuses a request, in the name of the context's actor."""

    id: str
    refused: bool
    reason: str
    led_ms: int


@dataclass(frozen=True, slots=True)
class Claim:
    """Uses an approval up for a call that is about to be carried out, or asks for one.

    Attributes:
        request: What the call does.
        request_id: The id of the call; its repeats have the same.
        id: The id of an approval that is asked for now.
        led_ms: The led time.
        lost: Principals whose approvals do not count any more.
    """

    request: GuardedRequest
    request_id: str
    id: str
    led_ms: int
    lost: Collection[str] = ()


Command = SetPolicy | DeletePolicy | Decide | Claim


@dataclass(frozen=True, slots=True)
class ApprovalsDecider:
    """Rules of the kind `approvals`."""

    def initial(self, history: str) -> ApprovalsState:
        """A mesh without policies, in which nothing needs an approval."""
        return ApprovalsState()

    def decide(self, state: ApprovalsState, command: Command, context: Context) -> Sequence[Event]:
        """See `Decider.decide`. A command without effect leads to nothing.

        Raises:
            Invalid: a policy or a reason is malformed.
            NotFound: there is no such policy or request.
            AccessDenied: whoever asked cannot approve.
            Refused: the request is used up, was decided otherwise, or has expired.
            Exhausted: there are as many policies or waiting requests as there may be.
        """
        match command:
            case SetPolicy(policy):
                return _set(state, check_policy(policy))
            case DeletePolicy(name, reason):
                if name not in state.policies:
                    remedy = "see: braid get approvalpolicies"
                    raise NotFound(f"there is no approval policy {name}", field="name", remedy=remedy)
                return [PolicyDeleted(name, _checked(reason))]
            case Decide():
                return _decided(state, command, context.actor)
            case Claim():
                return _claimed(state, command)

    def evolve(self, state: ApprovalsState, event: Event, context: Context) -> ApprovalsState:
        """See `Decider.evolve`. What is over for a day is forgotten on the way."""
        match event:
            case PolicySet(policy):
                held = replace(policy, set_by=context.actor, set_ms=context.now_ms)
                return replace(state, policies={**state.policies, policy.name: held})
            case PolicyDeleted(name):
                return replace(state, policies={key: each for key, each in state.policies.items() if key != name})
            case ApprovalAsked(id, request, expire_ms, led_ms):
                asked = Approval(id, request, context.now_ms, led_ms, expire_ms)
                return _with(state, asked, led_ms)
            case ApprovalDecided(id, refused, reason, led_ms):
                known = state.approvals.get(id)
                if known is None:
                    return state
                by, now_ms = context.actor, context.now_ms
                decided = replace(known, decided_by=by, decided_ms=now_ms, refused=refused, reason=reason)
                return _with(state, decided, led_ms)
            case ApprovalUsed(id, request_id, led_ms):
                known = state.approvals.get(id)
                if known is None:
                    return state
                used = replace(known, used_by=request_id, used_ms=context.now_ms, used_led_ms=led_ms)
                return _with(state, used, led_ms)


def _set(state: ApprovalsState, policy: ApprovalPolicy) -> Sequence[Event]:
    known = state.policies.get(policy.name)
    if known is not None and replace(known, set_by="", set_ms=0) == policy:
        return []
    if known is None and len(state.policies) >= APPROVAL_POLICIES_MAX:
        message = f"the mesh has {APPROVAL_POLICIES_MAX} approval policies, which is the most"
        raise Exhausted(message, remedy="delete some, or write patterns: stream/pay-*")
    return [PolicySet(policy)]


def _decided(state: ApprovalsState, command: Decide, actor: str) -> Sequence[Event]:
    approval, reason = state.find(command.id), _checked(command.reason)
    if actor == approval.request.asked_by and not command.refused:
        message = f"{actor} asked for it, and cannot approve it"
        raise AccessDenied(message, remedy="ask another principal with the same right", metadata={"principal": actor})
    again = "repeat the request, which asks anew"
    if approval.used:
        raise Refused(f"{approval.id} is used up", field="id", remedy="nothing is left to decide")
    if approval.refused:
        if command.refused:
            return []
        raise Refused(f"{approval.id} was refused by {approval.decided_by}", field="id", remedy=again)
    if not approval.open(command.led_ms):
        raise Refused(f"{approval.id} has expired", field="id", remedy=again)
    if approval.decided_by == actor and not command.refused:
        return []
    return [ApprovalDecided(approval.id, command.refused, reason, command.led_ms)]


def _claimed(state: ApprovalsState, command: Claim) -> Sequence[Event]:
    request, led_ms = command.request, command.led_ms
    policies = state.guarding(request)
    if not policies or state.used_by(request, command.request_id, led_ms) is not None:
        return []
    usable = state.usable(request, command.lost, led_ms)
    if usable is not None:
        return [ApprovalUsed(usable.id, command.request_id, led_ms)]
    if state.waiting(request, led_ms) is not None:
        return []
    waiting = [each for each in state.approvals.values() if each.open(led_ms)]
    if sum(each.request.asked_by == request.asked_by for each in waiting) >= APPROVALS_PER_PRINCIPAL_MAX:
        message = f"{APPROVALS_PER_PRINCIPAL_MAX} requests of {request.asked_by} wait for approval, which is the most"
        raise Exhausted(message, remedy="have some approved or refused first: braid get approvals")
    if len(waiting) >= APPROVALS_MAX:
        raise Exhausted(f"{APPROVALS_MAX} requests wait for approval", remedy="have some approved or refused first")
    return [ApprovalAsked(command.id, request, min(each.expire_ms for each in policies), led_ms)]


def _checked(reason: str) -> str:
    if len(reason) > GRANT_REASON_CHARS_MAX:
        raise Invalid(f"a reason has at most {GRANT_REASON_CHARS_MAX} characters", field="reason")
    return reason


def _with(state: ApprovalsState, changed: Approval, led_ms: int) -> ApprovalsState:
    """The state with an approval, without those that are over for long, or for which there is no room."""
    led_ms = max(state.led_ms, led_ms)
    approvals = {**state.approvals, changed.id: changed}
    kept = {id: each for id, each in approvals.items() if led_ms - each.led_ms < each.expire_ms + _KEPT_MS}
    over = [id for id, each in kept.items() if not each.open(led_ms) and not _repeatable(each, led_ms)]
    for id in over[: max(0, len(kept) - APPROVALS_MAX)]:
        del kept[id]
    return replace(state, approvals=kept, led_ms=led_ms)


def _repeatable(approval: Approval, led_ms: int) -> bool:
    return approval.used and led_ms - approval.used_led_ms < _REPEAT_MS
