"""Approvals as values: which requests a policy guards, and whether two requests are the same. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from braid.kernel.access.requests import Need
from braid.kernel.access.roles import Resource, ResourceKind
from braid.kernel.errors import Invalid
from braid.kernel.ids import check_name
from braid.kernel.limits.access.rights import (
    APPROVAL_LETTERS_MAX,
    APPROVAL_SECONDS_DEFAULT,
    APPROVAL_SECONDS_MAX,
    APPROVAL_SECONDS_MIN,
    GRANT_REASON_CHARS_MAX,
)


class GuardedVerb(Enum):
    """The destructive verbs for which a policy may ask for a second person's approval."""

    DELETE_STREAM = "delete-stream"
    DELETE_GROUP = "delete-group"
    CLOSE_CHANNEL = "close-channel"  # one whose remaining records are given up
    DECOMMISSION_CLUSTER = "decommission-cluster"
    DISCARD_DRAINED = "discard-drained"  # a decommission that deletes drained topics at once
    RESET_PROGRESS = "reset-progress"
    REPLAY = "replay"  # of more dead letters than a policy lets pass
    CHANGE_POLICY = "change-policy"  # which asks for less, or for nothing, afterwards


# The kinds of resources that a request with the verb is about; a policy on the whole mesh may name each verb.
VERB_KINDS: Final = {
    GuardedVerb.DELETE_STREAM: (ResourceKind.STREAM,),
    GuardedVerb.DELETE_GROUP: (ResourceKind.GROUP, ResourceKind.STREAM),
    GuardedVerb.CLOSE_CHANNEL: (ResourceKind.STREAM,),
    GuardedVerb.DECOMMISSION_CLUSTER: (ResourceKind.CLUSTER,),
    GuardedVerb.DISCARD_DRAINED: (ResourceKind.CLUSTER,),
    GuardedVerb.RESET_PROGRESS: (ResourceKind.GROUP, ResourceKind.STREAM),
    GuardedVerb.REPLAY: (ResourceKind.STREAM,),
    GuardedVerb.CHANGE_POLICY: (),
}

# The methods with those verbs, for questions about them: `delete stream`, `reset progress`.
METHOD_VERBS: Final = {
    "DeleteStream": (GuardedVerb.DELETE_STREAM,),
    "DeleteGroup": (GuardedVerb.DELETE_GROUP,),
    "CloseChannel": (GuardedVerb.CLOSE_CHANNEL,),
    "DecommissionCluster": (GuardedVerb.DECOMMISSION_CLUSTER, GuardedVerb.DISCARD_DRAINED),
    "ResetProgress": (GuardedVerb.RESET_PROGRESS,),
    "CreateReplay": (GuardedVerb.REPLAY,),
    "SetApprovalPolicy": (GuardedVerb.CHANGE_POLICY,),
    "DeleteApprovalPolicy": (GuardedVerb.CHANGE_POLICY,),
}


@dataclass(frozen=True, slots=True)
class GuardedRequest:
    """A destructive request, as far as approvals compare it.

    Attributes:
        verbs: What it does.
        resources: What it is about; the first is what it destroys.
        identity: Tells what it destroys from another of the same name, made later.
        digest: SHA-256 of service, method and request, without the request's etag.
        asked_by: The verified principal that sends it.
        letters: How many dead letters it replays.
        needs: The rights it takes.
        command: The command of `braid` that does the same, for people.
        tenant: The tenant of its caller.
    """

    verbs: tuple[GuardedVerb, ...]
    resources: tuple[Resource, ...]
    identity: str
    digest: str
    asked_by: str
    letters: int = 0
    needs: tuple[Need, ...] = ()
    command: str = ""
    tenant: str = ""

    def same_as(self, other: "GuardedRequest") -> bool:
        """Whether both ask for the same, by the same principal, of the same thing."""
        return self._key == other._key

    @property
    def _key(self) -> tuple[object, ...]:
        return (frozenset(self.verbs), self.resources[:1], self.identity, self.digest, self.asked_by, self.tenant)


@dataclass(frozen=True, slots=True)
class ApprovalPolicy:
    """Says which requests need a second person.

    Attributes:
        name: Its name.
        verbs: The verbs it is about.
        resource: What a request must be about; a pattern for many.
        expire_ms: How long after it was asked for an approval may be given and used, in led time.
        letters_over: Replays of at most so many dead letters need none.
        reason: Why there is one, for people.
        set_by: The principal that set it.
        set_ms: When.
    """

    name: str
    verbs: tuple[GuardedVerb, ...]
    resource: Resource
    expire_ms: int = int(APPROVAL_SECONDS_DEFAULT * 1_000)
    letters_over: int = 0
    reason: str = ""
    set_by: str = ""
    set_ms: int = 0

    def guards(self, request: GuardedRequest) -> bool:
        """Whether a request needs an approval by this policy."""
        verbs = {each for each in request.verbs if each in self.verbs}
        if request.letters <= self.letters_over:
            verbs.discard(GuardedVerb.REPLAY)
        return bool(verbs) and any(self.resource.covers(each) for each in request.resources)

    def may_guard(self, verbs: Iterable[GuardedVerb], resource: Resource) -> bool:
        """Whether it guards some requests with these verbs about a resource."""
        return not set(self.verbs).isdisjoint(verbs) and self.resource.covers(resource)


@dataclass(frozen=True, slots=True)
class Approval:
    """A request for a second person's approval, and what became of it.

    Attributes:
        id: Its id.
        request: What it is about.
        asked_ms: When, by the wall clock.
        led_ms: When, in led time.
        expire_ms: How long it may be given and used, in led time.
        decided_by: Who approved or refused it; empty while nobody did.
        decided_ms: When.
        refused: Whether that was a refusal.
        reason: Why, for people.
        used_by: The id of the call that used it up.
        used_ms: When, by the wall clock.
        used_led_ms: When, in led time.
    """

    id: str
    request: GuardedRequest
    asked_ms: int
    led_ms: int
    expire_ms: int
    decided_by: str = ""
    decided_ms: int = 0
    refused: bool = False
    reason: str = ""
    used_by: str = ""
    used_ms: int = 0
    used_led_ms: int = 0

    @property
    def used(self) -> bool:
        """Whether a call has used it up."""
        return bool(self.used_by)

    def left_ms(self, led_ms: int, bound_ms: int | None = None) -> int:
        """How long it may still be given and used; `bound_ms` is a shorter time by the policies that hold now."""
        lasting_ms = self.expire_ms if bound_ms is None else min(self.expire_ms, bound_ms)
        return max(0, lasting_ms - max(0, led_ms - self.led_ms))

    def open(self, led_ms: int, bound_ms: int | None = None) -> bool:
        """Whether it may still be given or used."""
        return not self.used and not self.refused and self.left_ms(led_ms, bound_ms) > 0

    def covers(self, request: GuardedRequest, policies: Sequence[ApprovalPolicy]) -> bool:
        """Whether it is about a request: the same one, and not of many more dead letters.

        A replay's letters grow while it waits. So many more as the policies let pass without an approval may be added.
        """
        more = min((each.letters_over for each in policies), default=0)
        return self.request.same_as(request) and request.letters <= self.request.letters + more


def check_policy(policy: ApprovalPolicy) -> ApprovalPolicy:
    """Returns a policy that is in form. Raises `Invalid`; the field is that of the request."""
    check_name(policy.name, "name")
    if not policy.verbs or len(set(policy.verbs)) != len(policy.verbs):
        verbs = ", ".join(each.value for each in GuardedVerb)
        raise Invalid("a policy names each verb once, and at least one", field="spec.verbs", remedy=f"of {verbs}")
    for verb in policy.verbs:
        kinds = VERB_KINDS[verb]
        if policy.resource.kind not in (ResourceKind.MESH, *kinds):
            where = " or ".join(f"{kind.value}/NAME" for kind in kinds)
            message = f"{verb.value} is never about {policy.resource}"
            remedy = f"write {where}, or leave it out for the whole mesh" if where else "leave it out"
            raise Invalid(message, field="spec.resource", remedy=remedy)
    if not APPROVAL_SECONDS_MIN * 1_000 <= policy.expire_ms <= APPROVAL_SECONDS_MAX * 1_000:
        message = f"approvals last {APPROVAL_SECONDS_MIN:g} to {APPROVAL_SECONDS_MAX:g} s"
        raise Invalid(message, field="spec.expire_seconds", remedy=f"use 0 for {APPROVAL_SECONDS_DEFAULT:g}")
    if not 0 <= policy.letters_over <= APPROVAL_LETTERS_MAX:
        message = f"{policy.letters_over} is no number of dead letters"
        raise Invalid(message, field="spec.letters_over", remedy=f"use 0 to {APPROVAL_LETTERS_MAX}")
    if policy.letters_over and GuardedVerb.REPLAY not in policy.verbs:
        raise Invalid("only replays have dead letters", field="spec.letters_over", remedy="leave it out, or add replay")
    if len(policy.reason) > GRANT_REASON_CHARS_MAX:
        raise Invalid(f"a reason has at most {GRANT_REASON_CHARS_MAX} characters", field="spec.reason")
    return policy
