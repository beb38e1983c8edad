"""Long computations in slices: generators that yield wherever other tasks may get their turn."""

from collections.abc import Generator
from typing import TypeVar

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
