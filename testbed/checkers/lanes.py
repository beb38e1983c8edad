"""I16 lanes: a flood of one lane leaves another's records in time, and what fails never stalls what lies beside it.

Both judge how long records wait from their acknowledgement to their first handler, and only in calm: not while
something befalls somebody, nor for a while after it, when leases move and what waited meanwhile is worked off.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from testbed.checkers.checking import Instant
from testbed.checkers.facts import Acknowledged, Fact, Flooded, HandlerStarted, Place, Troubled
from testbed.checkers.letters import lane_of

SETTLED_SECONDS: Final = 8.0  # leases run out, are granted, and what waited is handled
STALL_SECONDS: Final = 1.0
FACTOR: Final = 1.5
SAMPLES_MIN: Final = 50  # fewer have no 99th percentile worth the name
_HEEDS: Final = (Acknowledged, HandlerStarted, Troubled, Flooded)


class Wait(NamedTuple):
    """How long a record waited, if it did so entirely in calm, and whether it was sent during a flood."""

    place: Place
    seconds: float
    flooded: bool


class Waits:
    """Takes facts of the kinds `_HEEDS`, and yields the waits of records in calm. A run begins in trouble.

    Attributes:
        flooded: Whether there is a flood.
        ebbed: Whether a flood has ended and its records are handled.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        """Starts a run; `now` is the run's time in seconds."""
        self.flooded = False
        self.ebbed = False
        self._now = now
        self._calm_at = now() + SETTLED_SECONDS
        self._waiting: dict[Place, Wait] = {}  # `seconds` is when it was acknowledged
        self._begun: set[Place] = set()

    def see(self, fact: Fact) -> Wait | None:
        """The wait that the fact ends, if it counts."""
        match fact:
            case Troubled(begins=True):
                self._calm_at = float("inf")
                self._waiting.clear()
            case Troubled(begins=False):
                self._calm_at = self._now() + SETTLED_SECONDS
            case Flooded(begins=begins):
                self.ebbed = not begins
                self.flooded = begins
            case Acknowledged(place=place) if self._now() >= self._calm_at:
                wait = Wait(place, self._now(), self.flooded)
                if place in self._begun:
                    return wait._replace(seconds=0.0)
                self._waiting[place] = wait
            case HandlerStarted(log=log, offset=offset):
                self._begun.add(place := Place(*log, offset))
                if (waited := self._waiting.pop(place, None)) is not None:
                    return waited._replace(seconds=self._now() - waited.seconds)
            case _:
                pass
        return None

    def oldest(self) -> Wait | None:
        """The record that has waited longest of those still waiting, and for how long."""
        first = next(iter(self._waiting.values()), None)
        return None if first is None else first._replace(seconds=self._now() - first.seconds)


class FairLanes:
    """I16: while another lane is flooded, the 99th percentile of a lane's waits stays within 1.5 times its quiet value.

    One quantum is added: a handler is never taken from a record, so the next one may wait until a handler of its own
    lane is free. A run with fewer than `SAMPLES_MIN` waits of either kind proves nothing, and reports nothing.

    Attributes:
        quiet: Seconds that the lane's records waited without a flood.
        flood: Seconds that they waited during one.
    """

    invariant = "I16 lanes"
    heeds: Sequence[type] = _HEEDS

    def __init__(self, now: Callable[[], float], lane: str, quantum_seconds: float) -> None:
        """Starts a run; `quantum_seconds` is the longest run time of the lane's handler, `now` the run's time."""
        self.quiet: list[float] = []
        self.flood: list[float] = []
        self._lane = lane
        self._quantum_seconds = quantum_seconds
        self._waits = Waits(now)

    @property
    def judges(self) -> bool:
        """Whether there are enough waits to judge by."""
        return min(len(self.quiet), len(self.flood)) >= SAMPLES_MIN

    def see(self, fact: Fact) -> Iterator[str]:
        """See `Checker`."""
        wait = self._waits.see(fact)
        if wait is not None and lane_of(wait.place.topic) == self._lane and (wait.flooded or not self._waits.ebbed):
            (self.flood if wait.flooded else self.quiet).append(wait.seconds)
        yield from ()

    def finish(self) -> Iterator[str]:
        """See `Checker`."""
        if not self.judges:
            return
        quiet, flood = percentile99(self.quiet), percentile99(self.flood)
        bound = FACTOR * quiet + self._quantum_seconds
        if flood > bound:
            yield (
                f"p99 of what records of {self._lane} wait for is {flood:.3f} s in a flood and {quiet:.3f} s without "
                f"({len(self.flood)} and {len(self.quiet)} records): at most {bound:.3f} s"
            )


class PoisonStandsAside(Instant):
    """I16: no record waits longer than a second for a handler, however many others fail and are retried.

    For runs with room for all their records: then only failing records can delay others.
    """

    invariant = "I16 poison"
    heeds: Sequence[type] = _HEEDS

    def __init__(self, now: Callable[[], float]) -> None:
        """Starts a run; `now` is the run's time in seconds."""
        self.judged = 0
        self._waits = Waits(now)
        self._told: set[Place] = set()

    def see(self, fact: Fact) -> Iterator[str]:
        """See `Checker`."""
        ended = self._waits.see(fact)
        self.judged += ended is not None
        for wait in (ended, self._waits.oldest()):
            if wait is not None and wait.seconds > STALL_SECONDS and wait.place not in self._told:
                self._told.add(wait.place)
                yield f"{wait.place} waited {wait.seconds:.2f} s for a handler, and nothing befell anybody"


def percentile99(seconds: Sequence[float]) -> float:
    """The 99th percentile of some numbers, by the nearest rank."""
    return sorted(seconds)[max(0, -(-len(seconds) * 99 // 100) - 1)]
