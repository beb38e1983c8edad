"""How a group answers lag: the policies that operators set, and the responses in force. Values only.

`policy.responses` says which response the facts call for, `domain.responses` decides on it. Shares and numbers of
handlers go to members as one `WorkDivision`.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from braid.kernel.limits.assigner.responses import (
    RESPONSE_BUDGETS,
    RESPONSE_COOLDOWN_DEFAULT,
    RESPONSE_REACHES,
    RESPONSE_SHARES_WHOLE,
    RESPONSE_UNDO_AFTER_DEFAULT,
)

Values = tuple[tuple[str, float], ...]
"""Figures that a response changes, by name: of a lane, its share; else `share`, `factor` or `capacity`."""


class ResponseKind(Enum):
    """Kinds of responses; numbered as in `responses.proto`."""

    SHIFT_SHARES = 1  # the lane in breach gets a larger part of each member's handlers
    SPLIT_BACKLOG = 2  # a lease is worked on at its head and behind it
    RAISE_CONCURRENCY = 3  # members run more handlers at once
    LEAVE_SLOW_MEMBERS = 4  # a slow member counts as having less capacity

    @property
    def title(self) -> str:
        """Its name as operators write it, such as `shift-shares`."""
        return self.name.lower().replace("_", "-")


class ResponseMode(Enum):
    """Modes of a response policy; numbered as in `responses.proto`."""

    OFF = 1
    PROPOSE = 2  # it is recorded and shown
    AUTOMATIC = 3  # it is applied


class ResponseState(Enum):
    """States of a response; numbered as in `responses.proto`."""

    PROPOSED = 1
    APPLIED = 2
    EXHAUSTED = 3  # applied as far as the policy allows, and not enough


class ResponseKey(NamedTuple):
    """Names a response by its kind, lane and subject.

    Attributes:
        kind: What is done.
        lane: The name of the lane that is behind its target; empty where it is about all lanes.
        subject: The lease or the member; empty for the lane.
    """

    kind: ResponseKind
    lane: str
    subject: str


@dataclass(frozen=True, slots=True)
class ResponsePolicy:
    """How a group answers with one kind of response.

    Attributes:
        kind: Which.
        lane: Where it counts, by the name of a lane; empty for all lanes.
        mode: What is done.
        budget: So many responses of it may be in force at once.
        reach: How far one goes; see `responses.proto`.
        cooldown_seconds: Between two responses of it, at least.
        undo_after_seconds: So long a response must not be needed before it is undone.
    """

    kind: ResponseKind
    lane: str = ""
    mode: ResponseMode = ResponseMode.OFF
    budget: int = 1
    reach: float = 1.0
    cooldown_seconds: float = RESPONSE_COOLDOWN_DEFAULT
    undo_after_seconds: float = RESPONSE_UNDO_AFTER_DEFAULT


@dataclass(frozen=True, slots=True)
class Response:
    """A response in force, or proposed.

    Attributes:
        kind: What is done.
        lane: The name of the lane that is behind its target; empty where it is about all lanes.
        subject: The lease or the member that it is about; empty for the lane.
        state: How far it has come.
        before: What was changed, as it was.
        after: What it was changed to.
        reason: Why, for people.
        since_ms: When it was taken, wall clock.
    """

    kind: ResponseKind
    lane: str
    subject: str
    state: ResponseState
    before: Values
    after: Values
    reason: str
    since_ms: int

    @property
    def key(self) -> ResponseKey:
        """Kind, lane and subject of the response."""
        return ResponseKey(self.kind, self.lane, self.subject)

    @property
    def proposed(self) -> bool:
        """Whether nothing acts on it."""
        return self.state is ResponseState.PROPOSED


class MemberHandlers(NamedTuple):
    """The handlers of a member that divides them as it is told, as its hello says.

    Attributes:
        now: How many it runs by itself.
        most: How many it may be asked to run.
    """

    now: int
    most: int


@dataclass(frozen=True, slots=True)
class WorkDivision:
    """How members divide their work: a group's responses, as members are told them.

    Attributes:
        revision: Increases with each change.
        shares: By lane; empty for the members' own.
        concurrency: Factor of a member's handlers; 0 for its own.
    """

    revision: int = 0
    shares: Mapping[str, int] = field(default_factory=dict)
    concurrency: float = 0.0


@dataclass(frozen=True, slots=True)
class Responses:
    """A group's policies and responses.

    Attributes:
        policies: By kind and lane, in that order.
        taken: By key, what is in force or proposed.
        undone: By key, when it was undone last, wall clock; the latest.
        revision: Counts the changes.
    """

    policies: tuple[ResponsePolicy, ...] = ()
    taken: Mapping[ResponseKey, Response] = field(default_factory=dict)
    undone: Mapping[ResponseKey, int] = field(default_factory=dict)
    revision: int = 0

    def policy(self, kind: ResponseKind, lane: str = "") -> ResponsePolicy:
        """Returns the policy for a lane (its name alone): its own, else the one for all lanes, else none (off)."""
        own = next((each for each in self.policies if (each.kind, each.lane) == (kind, lane)), None)
        return own or next(
            (each for each in self.policies if (each.kind, each.lane) == (kind, "")), ResponsePolicy(kind, lane)
        )

    def applied(self, kind: ResponseKind) -> Sequence[Response]:
        """Returns the responses of a kind that are in force."""
        return [each for each in self._in_force() if each.kind is kind]

    def values(self, kind: ResponseKind) -> Mapping[str, Mapping[str, float]]:
        """Returns the figures that a kind has set, by subject."""
        return {each.subject: dict(each.after) for each in self.applied(kind)}

    def division(self, own: Mapping[str, int]) -> WorkDivision:
        """Returns how members divide their work now; `own` are the shares that they have by themselves."""
        parts = {each.lane: part_of(each.lane, each.after) for each in self.applied(ResponseKind.SHIFT_SHARES)}
        parts = {lane: part for lane, part in parts.items() if lane in own}
        factors = [value for each in self.applied(ResponseKind.RAISE_CONCURRENCY) for _, value in each.after]
        shares = shifted(own, list(parts), max(parts.values())) if parts else {}
        return WorkDivision(self.revision, shares, max(factors, default=0.0))

    def _in_force(self) -> Iterator[Response]:
        return (each for each in self.taken.values() if not each.proposed)


NO_RESPONSES: Final = Responses()


def default_budget(kind: ResponseKind) -> int:
    """Returns how many responses of a kind may be in force at once, unless an operator says."""
    return RESPONSE_BUDGETS[kind.title]


def default_reach(kind: ResponseKind) -> float:
    """Returns how far a response of a kind goes, unless an operator says."""
    return RESPONSE_REACHES[kind.title]


def part_of(lane: str, shares: Values) -> float:
    """Returns the part that a lane has of some shares; 0 where they add up to nothing."""
    whole = sum(share for _, share in shares)
    return dict(shares).get(lane, 0.0) / whole if whole > 0 else 0.0


def shifted(own: Mapping[str, int], lanes: Sequence[str], part: float) -> Mapping[str, int]:
    """Returns shares in which some lanes have a part of everything, and the others the rest; small whole numbers.

    Args:
        own: Present shares by lane, each 1 or more.
        lanes: Those that get the part; it is divided between them, and the rest between the others, as before.
        part: Above 0 and below 1. A lane that has more of its own keeps it.
    """
    favoured = sum(own[lane] for lane in lanes)
    rest = sum(own.values()) - favoured
    if not favoured or not rest:
        return own
    part = max(part, favoured / (favoured + rest))
    sizes = {lane: part / favoured if lane in lanes else (1 - part) / rest for lane in own}
    shares = {lane: max(1, round(RESPONSE_SHARES_WHOLE * own[lane] * size)) for lane, size in sizes.items()}
    divisor = math.gcd(*shares.values())
    return {lane: share // divisor for lane, share in shares.items()}
