"""Long computations in slices, so that other tasks get their turn: generators, and loops within a task."""

from collections.abc import Generator
from typing import TypeVar

from braid.kernel.limits.runtime import SLICE_SECONDS
from braid.kernel.ports import Clock

T = TypeVar("T")


def finished(work: Generator[None, None, T]) -> T:
    """Computes all slices in a row, and returns the result."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result


async def in_turns(clock: Clock, work: Generator[None, None, T]) -> T:
    """Computes slice by slice, with a turn for other tasks behind each, and returns the result."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result
        await clock.sleep(0)


class Slices:
    """Ends a slice of a task's loop once it has taken its time: for steps of which each alone is short."""

    def __init__(self, clock: Clock, seconds: float = SLICE_SECONDS) -> None:
        """Begins the first slice; each takes `seconds`, and at most one step more."""
        self._clock = clock
        self._seconds = seconds
        self._began = clock.elapsed()

    async def turn(self) -> None:
        """Gives other tasks their turn if the present slice is over. To be awaited after each step."""
        if self._clock.elapsed() - self._began >= self._seconds:
            await self._clock.sleep(0)
            self._began = self._clock.elapsed()
