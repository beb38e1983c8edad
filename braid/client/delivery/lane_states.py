"""The reasons why lanes do not continue, in one place; a lane continues once no reason is left.

Each part that finds a reason notes it here and takes it back. `Consumer.stopped`, `Consumer.explain`, metrics and the
assigner are told what is noted here.
"""

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final, NamedTuple

from braid.client.delivery.ready_queue import ReadyQueue


class Hold(Enum):
    """A reason that keeps a lane from continuing."""

    APPLICATION = auto()  # the application paused the lane
    DEAD_LETTERS = auto()  # the dead-letter limit
    CIRCUIT = auto()  # the circuit breaker
    PARKED = auto()  # too many records, or bytes, wait for another attempt
    COPYING = auto()  # too many records, or bytes, wait to be copied to the dlq lane


_STOPS: Final = (Hold.DEAD_LETTERS, Hold.CIRCUIT)  # reasons that stop a lane; the first one is reported
_FETCHING: Final = (Hold.PARKED, Hold.COPYING)  # reasons that pause fetching


class LaneState(NamedTuple):
    """The present state of one lane.

    Attributes:
        reasons: What holds it, with why, for people.
    """

    reasons: Mapping[Hold, str]

    @property
    def paused(self) -> bool:
        """Whether the application paused it."""
        return Hold.APPLICATION in self.reasons

    @property
    def stopped(self) -> str:
        """Why the consumer hands out no more records of the lane; empty while it does."""
        return next((self.reasons[hold] for hold in _STOPS if hold in self.reasons), "")

    @property
    def fetching_paused(self) -> str:
        """Why no more records of the lane are fetched; empty while they are."""
        return "; ".join(self.reasons[hold] for hold in _FETCHING if hold in self.reasons)


class LaneStates:
    """The states of one consumer's lanes."""

    def __init__(self, ready: ReadyQueue) -> None:
        self._ready = ready
        self._reasons: dict[str, dict[Hold, str]] = {}
        self._tried: set[str] = set()  # lanes whose circuit lets one record through

    def hold(self, lane: str, hold: Hold, why: str = "") -> None:
        """Adds a reason why the lane does not continue."""
        self._reasons.setdefault(lane, {})[hold] = why
        if hold not in _FETCHING:
            self._gate(lane)

    def release(self, lane: str, hold: Hold) -> None:
        """Removes a reason."""
        reasons = self._reasons.get(lane, {})
        reasons.pop(hold, None)
        if not reasons:
            self._reasons.pop(lane, None)
        if hold is Hold.CIRCUIT:
            self._tried.discard(lane)
        if hold not in _FETCHING:
            self._gate(lane)

    def admit_one(self, lane: str) -> None:
        """Hands out one record of a lane whose circuit is open, as a trial, unless another reason holds the lane."""
        self._tried.add(lane)
        self._gate(lane)

    def admit_none(self, lane: str) -> None:
        """Notes that the record for the trial was handed out."""
        self._tried.discard(lane)
        self._gate(lane)

    def of(self, lane: str) -> LaneState:
        """Returns the state of a lane."""
        return LaneState(dict(self._reasons.get(lane, {})))

    def holds(self, lane: str, *holds: Hold) -> bool:
        """Whether any of these reasons holds a lane."""
        reasons = self._reasons.get(lane)
        return reasons is not None and any(hold in reasons for hold in holds)

    def stopped(self) -> dict[str, str]:
        """Returns, by lane, why the consumer hands out no more of its records."""
        return {lane: why for lane in self._reasons if (why := self.of(lane).stopped)}

    def fetching_paused(self) -> int:
        """Counts the lanes of which no more records are fetched."""
        return sum(self.holds(lane, *_FETCHING) for lane in self._reasons)

    def _gate(self, lane: str) -> None:
        """Opens or closes the lane's queue: it is open while no reason holds it, or one record is tried."""
        holds = self._reasons.get(lane, {}).keys() - set(_FETCHING)
        if holds - {Hold.CIRCUIT} or (holds and lane not in self._tried):
            self._ready.pause(lane)
        else:
            self._ready.resume(lane)
