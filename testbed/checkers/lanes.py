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
    """A record's, that began and ended in calm: for how long, and whether it was sent during a flood."""

    place: Place
    seconds: float
    flooded: bool


class Waits:
    """Takes facts of the kinds `_HEEDS`, and tells of records that waited in calm. A run begins in trouble.

    Attributes:
        flooded: Whether there is a flood.
        ebbed: Whether there was one: what it left behind is worked off.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        """`now` is the time of the run, seconds."""
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
        """Of the records that wait, the one that does so for longest, and for how long by now."""
        first = next(iter(self._waiting.values()), None)
        return None if first is None else first._replace(seconds=self._now() - first.seconds)


class FairLanes:
    """I16: while another lane is flooded, the 99th percentile of a lane's waits stays within 1.5 times that of quiet.

    And one quantum more: nobody takes a handler from a record, so the next one may wait until a handler of its own
    lane is through. A run with less than `SAMPLES_MIN` of either proves nothing, and says nothing.

    Attributes:
        quiet: Seconds that the lane's records waited without a flood.
        flood: And during one.
    """

    invariant = "I16 lanes"
    heeds: Sequence[type] = _HEEDS

    def __init__(self, now: Callable[[], float], lane: str, quantum_seconds: float) -> None:
        """`quantum_seconds` is the longest time that a handler of the lane takes, `now` the time of the run."""
        self.quiet: list[float] = []
        self.flood: list[float] = []
        self._lane = lane
        self._quantum_seconds = quantum_seconds
        self._waits = Waits(now)

    @property
    def judges(self) -> bool:
        """Whether there is enough to judge by."""
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
    """I16: no record waits longer than a second for a handler, however many beside it fail, and are tried again.

    For runs that leave room for all their records: then nothing but those that fail can make another wait.
    """

    invariant = "I16 poison"
    heeds: Sequence[type] = _HEEDS

    def __init__(self, now: Callable[[], float]) -> None:
        """`now` is the time of the run, seconds."""
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
