"""A group's response policies and responses as messages of the API and of events, and as JSON for snapshots."""

from collections.abc import Sequence
from typing import cast

from braid.api.assigner.v1 import responses_pb2
from braid.kernel.limits.assigner.responses import (
    RESPONSE_COOLDOWN_DEFAULT,
    RESPONSE_UNDO_AFTER_DEFAULT,
    RESPONSE_UNDONE_TOLD_MAX,
)
from services.assigner.model.lag.responses import (
    Response,
    ResponseKey,
    ResponseKind,
    ResponseMode,
    ResponsePolicy,
    Responses,
    ResponseState,
    Values,
    default_budget,
    default_reach,
)


def response_policy_message(policy: ResponsePolicy) -> responses_pb2.ResponsePolicy:
    """Builds the message of a policy."""
    return responses_pb2.ResponsePolicy(
        kind=_kind(policy.kind),
        lane=policy.lane,
        mode=cast("responses_pb2.ResponseMode.ValueType", policy.mode.value),
        budget=policy.budget,
        reach=policy.reach,
        cooldown_seconds=policy.cooldown_seconds,
        undo_after_seconds=policy.undo_after_seconds,
    )


def read_response_policy(message: responses_pb2.ResponsePolicy) -> ResponsePolicy:
    """Reads a policy, with the defaults of what is left out. Raises `ValueError` for an unknown kind or mode."""
    kind = ResponseKind(message.kind)
    return ResponsePolicy(
        kind,
        message.lane,
        ResponseMode(message.mode),
        message.budget if message.HasField("budget") else default_budget(kind),
        message.reach if message.HasField("reach") else default_reach(kind),
        message.cooldown_seconds or RESPONSE_COOLDOWN_DEFAULT,
        message.undo_after_seconds or RESPONSE_UNDO_AFTER_DEFAULT,
    )


def value_message(value: tuple[str, float]) -> responses_pb2.ResponseValue:
    """Builds the message of a figure."""
    name, figure = value
    return responses_pb2.ResponseValue(name=name, value=figure)


def read_value(message: responses_pb2.ResponseValue) -> tuple[str, float]:
    """Reads the message of `value_message`."""
    return message.name, message.value


def responses_message(responses: Responses) -> responses_pb2.GroupResponses:
    """Builds the message of a group's policies and responses."""
    return responses_pb2.GroupResponses(
        policies=map(response_policy_message, responses.policies),
        responses=map(_response_message, responses.taken.values()),
        undone=[
            responses_pb2.UndoneResponse(kind=_kind(key.kind), lane=key.lane, subject=key.subject, time_ms=at_ms)
            for key, at_ms in list(responses.undone.items())[-RESPONSE_UNDONE_TOLD_MAX:]
        ],
    )


def _response_message(response: Response) -> responses_pb2.GroupResponse:
    return responses_pb2.GroupResponse(
        kind=_kind(response.kind),
        lane=response.lane,
        subject=response.subject,
        state=cast("responses_pb2.ResponseState.ValueType", response.state.value),
        before=map(value_message, response.before),
        after=map(value_message, response.after),
        reason=response.reason,
        since_ms=response.since_ms,
    )


def _kind(kind: ResponseKind) -> "responses_pb2.ResponseKind.ValueType":
    return cast("responses_pb2.ResponseKind.ValueType", kind.value)


def responses_json(responses: Responses) -> Sequence[object]:
    """Returns policies and responses as lists for a snapshot."""
    policies = [
        [p.kind.value, p.lane, p.mode.value, p.budget, p.reach, p.cooldown_seconds, p.undo_after_seconds]
        for p in responses.policies
    ]
    taken = [
        [r.kind.value, r.lane, r.subject, r.state.value, list(r.before), list(r.after), r.reason, r.since_ms]
        for r in responses.taken.values()
    ]
    undone = [[key.kind.value, key.lane, key.subject, at_ms] for key, at_ms in responses.undone.items()]
    return [policies, taken, undone, responses.revision]


def read_responses_json(item: Sequence[object]) -> Responses:
    """Reads the lists of `responses_json`. Raises `TypeError`, `ValueError` for anything else."""
    policies, taken, undone, revision = cast(
        "tuple[list[list[object]], list[list[object]], list[list[object]], int]", item
    )
    read = [_read_response(*each) for each in taken]  # type: ignore[arg-type]  # JSON has no types
    return Responses(
        tuple(_read_policy(*each) for each in policies),  # type: ignore[arg-type]
        {each.key: each for each in read},
        {_key(*each[:3]): cast("int", each[3]) for each in undone},  # type: ignore[arg-type]
        revision,
    )


def _read_policy(kind: int, lane: str, mode: int, budget: int, *figures: float) -> ResponsePolicy:
    return ResponsePolicy(ResponseKind(kind), lane, ResponseMode(mode), budget, *figures)


def _read_response(
    kind: int, lane: str, subject: str, state: int, before: Values, after: Values, reason: str, since_ms: int
) -> Response:
    was, is_now = (tuple((name, figure) for name, figure in each) for each in (before, after))
    return Response(ResponseKind(kind), lane, subject, ResponseState(state), was, is_now, reason, since_ms)


def _key(kind: int, lane: str, subject: str) -> ResponseKey:
    return ResponseKey(ResponseKind(kind), lane, subject)
