"""Events and commands about responses to lag. Values only; `domain.responses` says what they mean."""

from dataclasses import dataclass

from services.assigner.model.group import GroupSpec
from services.assigner.model.lag.responses import (
    ResponseKey,
    ResponseKind,
    ResponsePolicy,
    Responses,
    ResponseState,
    Values,
)


@dataclass(frozen=True, slots=True)
class ResponsesSet:
    """An operator set the group's response policies; its present spec travels beside (see `codec`)."""

    spec: GroupSpec
    policies: tuple[ResponsePolicy, ...]


@dataclass(frozen=True, slots=True)
class ResponseTaken:
    """The group answers lag: a response is proposed or applied, or one that is applied is not enough.

    Attributes:
        spec: The group's present spec, which travels beside (see `codec`).
        kind: What is done.
        lane: The name of the lane; empty where it is about all lanes.
        subject: The lease or the member; empty for the lane.
        state: How far it has come.
        before: What is changed, as it was.
        after: What it is changed to.
        reason: Why, for people.
    """

    spec: GroupSpec
    kind: ResponseKind
    lane: str
    subject: str
    state: ResponseState
    before: Values
    after: Values
    reason: str

    @property
    def key(self) -> ResponseKey:
        """Kind, lane and subject of the response."""
        return ResponseKey(self.kind, self.lane, self.subject)


@dataclass(frozen=True, slots=True)
class ResponseUndone:
    """A response is not in force any more, or not proposed."""

    spec: GroupSpec
    kind: ResponseKind
    lane: str
    subject: str
    reason: str

    @property
    def key(self) -> ResponseKey:
        """Kind, lane and subject of the response."""
        return ResponseKey(self.kind, self.lane, self.subject)


ResponseEvent = ResponsesSet | ResponseTaken | ResponseUndone


@dataclass(frozen=True, slots=True)
class SetResponses:
    """Sets policies, each in place of the one of its kind and lane; the others stay."""

    policies: tuple[ResponsePolicy, ...]


@dataclass(frozen=True, slots=True)
class TakeResponse:
    """Records a response that the leader takes.

    Attributes:
        seen: The policies and responses that this was computed from; it counts only while they stand.
    """

    key: ResponseKey
    state: ResponseState
    before: Values
    after: Values
    reason: str
    seen: Responses


@dataclass(frozen=True, slots=True)
class UndoResponse:
    """Records that a response is undone; `seen` as in `TakeResponse`."""

    key: ResponseKey
    reason: str
    seen: Responses


ResponseCommand = SetResponses | TakeResponse | UndoResponse
