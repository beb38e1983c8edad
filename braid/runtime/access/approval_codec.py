"""Events of kind `approvals` ⇄ protobuf at rest (`registry/v1/approval.proto`); states ⇄ bytes for snapshots."""

from collections.abc import Mapping
from typing import Final

from braid.api.registry.v1 import approval_pb2 as pb
from braid.kernel.access.approvals import Approval, ApprovalPolicy, GuardedRequest, GuardedVerb
from braid.kernel.access.requests import Need
from braid.kernel.access.roles import MESH, Action, Resource, ResourceKind
from braid.kernel.errors import CorruptHistory, Invalid
from braid.kernel.limits.access.rights import APPROVAL_SECONDS_DEFAULT
from braid.runtime.access.approval_history import (
    ApprovalAsked,
    ApprovalDecided,
    ApprovalsDecider,
    ApprovalsState,
    ApprovalUsed,
    Command,
    Event,
    PolicyDeleted,
    PolicySet,
)
from braid.runtime.access.grant_codec import resource_text
from braid.runtime.histories.kinds import Kind
from braid.runtime.histories.message_codec import MessageCodec

_VERBS: Final[Mapping[GuardedVerb, "pb.GuardedVerb.ValueType"]] = {
    GuardedVerb.DELETE_STREAM: pb.GUARDED_VERB_DELETE_STREAM,
    GuardedVerb.DELETE_GROUP: pb.GUARDED_VERB_DELETE_GROUP,
    GuardedVerb.CLOSE_CHANNEL: pb.GUARDED_VERB_CLOSE_CHANNEL,
    GuardedVerb.DECOMMISSION_CLUSTER: pb.GUARDED_VERB_DECOMMISSION_CLUSTER,
    GuardedVerb.DISCARD_DRAINED: pb.GUARDED_VERB_DISCARD_DRAINED,
    GuardedVerb.RESET_PROGRESS: pb.GUARDED_VERB_RESET_PROGRESS,
    GuardedVerb.REPLAY: pb.GUARDED_VERB_REPLAY,
    GuardedVerb.CHANGE_POLICY: pb.GUARDED_VERB_CHANGE_POLICY,
}
_BY_NUMBER: Final = {number: verb for verb, number in _VERBS.items()}


def policy_message(policy: ApprovalPolicy) -> pb.ApprovalPolicy:
    """A policy as a message."""
    spec = pb.ApprovalPolicySpec(
        verbs=[_VERBS[each] for each in policy.verbs],
        resource=resource_text(policy.resource),
        expire_seconds=policy.expire_ms // 1_000,
        letters_over=policy.letters_over,
        reason=policy.reason,
    )
    return pb.ApprovalPolicy(name=policy.name, spec=spec, set_by=policy.set_by, set_time_ms=policy.set_ms)


def read_policy(message: pb.ApprovalPolicy) -> ApprovalPolicy:
    """Reads a policy's message. Raises `Invalid` for verbs and resources that this release does not know."""
    spec = message.spec
    return ApprovalPolicy(
        message.name,
        tuple(_verb(each) for each in spec.verbs),
        Resource.parse(spec.resource, "spec.resource"),
        1_000 * (spec.expire_seconds or int(APPROVAL_SECONDS_DEFAULT)),
        spec.letters_over,
        spec.reason,
        message.set_by,
        message.set_time_ms,
    )


def approval_message(approval: Approval, led_ms: int | None = None) -> pb.Approval:
    """An approval as a message; with the present led time it says how it stands."""
    message = pb.Approval(
        id=approval.id,
        request=request_message(approval.request),
        ask_time_ms=approval.asked_ms,
        expire_ms=approval.expire_ms,
        ask_led_ms=approval.led_ms,
        decided_by=approval.decided_by,
        decide_time_ms=approval.decided_ms,
        reason=approval.reason,
        used_by_request_id=approval.used_by,
        use_time_ms=approval.used_ms,
        use_led_ms=approval.used_led_ms,
        state=pb.APPROVAL_STATE_REFUSED if approval.refused else pb.APPROVAL_STATE_UNSPECIFIED,
    )
    if led_ms is not None:
        message.state = _state_number(approval, led_ms)
        message.left_ms = approval.left_ms(led_ms) if approval.open(led_ms) else 0
    return message


def request_message(request: GuardedRequest) -> pb.GuardedRequest:
    """A guarded request as a message."""
    return pb.GuardedRequest(
        verbs=[_VERBS[each] for each in request.verbs],
        resources=map(resource_text, request.resources),
        identity=request.identity,
        digest=request.digest,
        asked_by=request.asked_by,
        letters=request.letters,
        needs=[f"{each.action.value} {each.resource}" for each in request.needs],
        command=request.command,
        tenant=request.tenant,
    )


def read_request(message: pb.GuardedRequest) -> GuardedRequest:
    """Reads `request_message`'s message. Raises `Invalid`."""
    return GuardedRequest(
        tuple(_verb(each) for each in message.verbs),
        tuple(Resource.parse(each, "request.resources") for each in message.resources),
        message.identity,
        message.digest,
        message.asked_by,
        message.letters,
        tuple(map(_read_need, message.needs)),
        message.command,
        message.tenant,
    )


def _state_number(approval: Approval, led_ms: int) -> "pb.ApprovalState.ValueType":
    if approval.used:
        return pb.APPROVAL_STATE_USED
    if approval.refused:
        return pb.APPROVAL_STATE_REFUSED
    if not approval.open(led_ms):
        return pb.APPROVAL_STATE_EXPIRED
    return pb.APPROVAL_STATE_APPROVED if approval.decided_by else pb.APPROVAL_STATE_WAITING


def _read_approval(message: pb.Approval) -> Approval:
    return Approval(
        message.id,
        read_request(message.request),
        message.ask_time_ms,
        message.ask_led_ms,
        message.expire_ms,
        message.decided_by,
        message.decide_time_ms,
        message.state == pb.APPROVAL_STATE_REFUSED,
        message.reason,
        message.used_by_request_id,
        message.use_time_ms,
        message.use_led_ms,
    )


def _verb(number: "pb.GuardedVerb.ValueType") -> GuardedVerb:
    verb = _BY_NUMBER.get(number)
    if verb is None:
        verbs = ", ".join(each.value for each in GuardedVerb)
        raise Invalid("a verb is unknown to this release", field="spec.verbs", remedy=f"use {verbs}")
    return verb


def _read_need(text: str) -> Need:
    action, _, resource = text.partition(" ")
    known = next((each for each in Action if each.value == action), None)
    kind, _, name = resource.partition("/")
    if known is None or kind not in {each.value for each in ResourceKind}:
        raise Invalid(f"{text!r} is no right", field="request.needs")
    return Need(known, Resource(ResourceKind(kind), name) if name else MESH._replace(kind=ResourceKind(kind)))


def _message(event: Event) -> pb.ApprovalEvent:
    match event:
        case PolicySet(policy):
            spec = policy_message(policy).spec
            return pb.ApprovalEvent(policy_set=pb.ApprovalPolicySet(name=policy.name, spec=spec))
        case PolicyDeleted(name, reason):
            return pb.ApprovalEvent(policy_deleted=pb.ApprovalPolicyDeleted(name=name, reason=reason))
        case ApprovalAsked(id, request, expire_ms, led_ms):
            asked = pb.ApprovalAsked(id=id, request=request_message(request), expire_ms=expire_ms, led_ms=led_ms)
            return pb.ApprovalEvent(asked=asked)
        case ApprovalDecided(id, refused, reason, led_ms):
            decided = pb.ApprovalDecided(id=id, refused=refused, reason=reason, led_ms=led_ms)
            return pb.ApprovalEvent(decided=decided)
        case ApprovalUsed(id, request_id, led_ms):
            return pb.ApprovalEvent(used=pb.ApprovalUsed(id=id, request_id=request_id, led_ms=led_ms))


def _event(message: pb.ApprovalEvent) -> Event:
    match message.WhichOneof("event"):
        case "policy_set":
            return PolicySet(read_policy(pb.ApprovalPolicy(name=message.policy_set.name, spec=message.policy_set.spec)))
        case "policy_deleted":
            return PolicyDeleted(message.policy_deleted.name, message.policy_deleted.reason)
        case "asked":
            asked = message.asked
            return ApprovalAsked(asked.id, read_request(asked.request), asked.expire_ms, asked.led_ms)
        case "decided":
            decided = message.decided
            return ApprovalDecided(decided.id, decided.refused, decided.reason, decided.led_ms)
        case "used":
            return ApprovalUsed(message.used.id, message.used.request_id, message.used.led_ms)
        case _:
            raise CorruptHistory("the event is of an unknown type", remedy="run a newer release")


def _state_message(state: ApprovalsState) -> pb.ApprovalsSnapshot:
    return pb.ApprovalsSnapshot(
        policies=[policy_message(state.policies[name]) for name in sorted(state.policies)],
        approvals=map(approval_message, state.approvals.values()),
        led_ms=state.led_ms,
    )


def _state(message: pb.ApprovalsSnapshot) -> ApprovalsState:
    policies = {each.name: read_policy(each) for each in message.policies}
    approvals = {each.id: _read_approval(each) for each in message.approvals}
    return ApprovalsState(policies, approvals, message.led_ms)


APPROVALS: Final[Kind[ApprovalsState, Command, Event]] = Kind(
    "approvals",
    ApprovalsDecider(),
    MessageCodec(pb.ApprovalEvent, _message, _event, pb.ApprovalsSnapshot, _state_message, _state),
)
