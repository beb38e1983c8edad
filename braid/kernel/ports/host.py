"""The port to one process's own world: clock, randomness, ids, tasks."""

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Protocol, TypeVar

T = TypeVar("T")


class Clock(Protocol):
    """Time. Timers of asyncio (`sleep`, `timeout`) follow the running loop, which simulation makes virtual."""

    def now_ms(self) -> int:
        """Wall time, milliseconds since the epoch; may step."""
        ...

    def elapsed(self) -> float:
        """Seconds on a clock that never steps and does not stop in suspend (CLOCK_BOOTTIME); for deadlines."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Waits."""
        ...


class Randomness(Protocol):
    """Random choices, seeded in simulation."""

    def uniform(self, low: float, high: float) -> float:
        """A float in [low, high)."""
        ...

    def entropy(self, count: int) -> bytes:
        """`count` random bytes."""
        ...


class Ids(Protocol):
    """Fresh identities."""

    def ulid(self) -> str:
        """A new ULID, 26 characters."""
        ...


class Task(Protocol):
    """A running coroutine."""

    def cancel(self) -> None:
        """Asks it to end."""
        ...

    async def ended(self) -> None:
        """Waits until it has ended, however; never raises what it raised."""
        ...


class Threads(Protocol):
    """A bounded number of threads for functions that block."""

    def run(self, function: Callable[[], T]) -> Awaitable[T]:
        """Calls the function as soon as a thread is free. It goes on when nobody awaits its result any more."""
        ...

    def close(self) -> None:
        """Takes no more; does not wait for what runs."""
        ...


class Tasks(Protocol):
    """Starts coroutines that belong to one process. A task that dies of an error takes its process down loudly."""

    def spawn(self, coroutine: Coroutine[object, object, None], name: str) -> Task:
        """Starts a task."""
        ...

    async def run_blocking(self, function: Callable[[], T]) -> T:
        """Runs a blocking function beside the loop and returns its result."""
        ...

    def threads(self, count: int, name: str) -> Threads:
        """So many threads at most, called `<name>_<number>`, for functions that may block for long."""
        ...


def _end_process(reason: str) -> None:
    raise SystemExit(reason)


@dataclass(frozen=True, slots=True)
class Host:
    """What one process has of its own: its clock, its dice, its ids, its tasks; and its end.

    Attributes:
        exit: Ends the process at once, whatever it does, and says why.
        name: Of the machine or container it runs in; '' when nobody knows.
    """

    clock: Clock
    randomness: Randomness
    ids: Ids
    tasks: Tasks
    exit: Callable[[str], None] = _end_process
    name: str = ""
