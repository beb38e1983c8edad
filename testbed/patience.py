"""Deadlines of tests, counted in the time that the machine gave them, not on the wall clock.

The host of a virtual machine may withhold cores that have work; Linux counts that as `steal` in `/proc/stat`
(proc_stat(5)). A deadline that counted such time would fail tests for other machines' work, and a deadline long enough
for the worst host would test nothing on a good one. Here a second counts only as far as the cores with work ran. If the
system does not report it (macOS), the wall clock counts.
"""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

POLL_SECONDS: Final = 0.05
SHARE_MIN: Final = 0.1  # of a second counts at least, so that every deadline ends

_STAT: Final = Path("/proc/stat")
_IDLE: Final = (3, 4)  # columns of the first line: idle, iowait
_STEAL: Final = 7
_COUNTED: Final = 8  # the two behind them, guests, are in user and nice already

T = TypeVar("T")


class Ticks(NamedTuple):
    """Clock ticks of all cores since the machine started: those in which they worked, and those withheld."""

    ran: int
    withheld: int


class Deadline:
    """A deadline in seconds of the machine's time, from now on."""

    def __init__(self, seconds: float) -> None:
        """Begins to count."""
        self.seconds = seconds
        self._begun = time.monotonic()
        self._ticks = read_ticks()

    @property
    def share(self) -> float:
        """The share of the wanted time that the machine gave since then: 1 for all of it."""
        return share_given(self._ticks, read_ticks())

    @property
    def passed(self) -> bool:
        """Whether the seconds are over."""
        return (time.monotonic() - self._begun) * self.share > self.seconds

    def __str__(self) -> str:
        """The deadline in a failure's message."""
        return f"{self.seconds:g} s ({time.monotonic() - self._begun:.1f} s by the wall, {self.share:.0%} given)"


async def until(
    condition: Callable[[], object | Awaitable[object]],
    what: str | Callable[[], str],
    seconds: float = 30.0,
    poll: float = POLL_SECONDS,
) -> float:
    """Waits until a condition holds.

    Args:
        condition: Checked repeatedly; a coroutine function is awaited.
        what: The message if it never holds; a function is called only then.
        seconds: Limit in the machine's time.
        poll: Seconds between two checks.

    Returns:
        Seconds on the wall clock that it took.

    Raises:
        AssertionError: the condition did not hold in time.
    """
    begun, deadline = time.monotonic(), Deadline(seconds)
    while True:
        holds = condition()
        if await holds if inspect.isawaitable(holds) else holds:
            return time.monotonic() - begun
        assert not deadline.passed, f"not within {deadline}: {what if isinstance(what, str) else what()}"
        await asyncio.sleep(poll)


async def in_time(awaited: Awaitable[T], what: str, seconds: float = 30.0) -> T:
    """The result of an awaitable, which is cancelled if it takes too long. Raises as `until` does."""
    task = asyncio.ensure_future(awaited)
    deadline = Deadline(seconds)
    try:
        while not task.done():
            assert not deadline.passed, f"not within {deadline}: {what}"
            await asyncio.wait((task,), timeout=POLL_SECONDS)
        return task.result()
    finally:
        task.cancel()


def wait(condition: Callable[[], object], what: str, seconds: float = 30.0, poll: float = POLL_SECONDS) -> float:
    """`until` for tests without an event loop."""
    begun, deadline = time.monotonic(), Deadline(seconds)
    while not condition():
        assert not deadline.passed, f"not within {deadline}: {what}"
        time.sleep(poll)
    return time.monotonic() - begun


def share_given(before: Ticks, after: Ticks) -> float:
    """The share of the wanted time that cores ran between two readings, at least `SHARE_MIN`."""
    ran, withheld = after.ran - before.ran, after.withheld - before.withheld
    wanted = ran + withheld
    return max(SHARE_MIN, ran / wanted) if wanted > 0 else 1.0


def read_ticks() -> Ticks:
    """The present ticks in `/proc/stat`; all zero if there is none."""
    try:
        with _STAT.open(encoding="ascii") as stat:
            return parse_ticks(stat.readline())
    except OSError:
        return Ticks(0, 0)


def parse_ticks(line: str) -> Ticks:
    """The first line of `/proc/stat`: `cpu`, then ticks of user, nice, system, idle, iowait, irq, softirq, steal, …."""
    columns = [int(word) for word in line.split()[1 : 1 + _COUNTED]]
    withheld = columns[_STEAL]
    return Ticks(sum(columns) - withheld - sum(columns[column] for column in _IDLE), withheld)
