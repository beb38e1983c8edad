"""The port to what one process has of its own: clock, randomness, ids and tasks."""

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Protocol, TypeVar

T = TypeVar("T")


class Clock(Protocol):
    """The clock of a process.

    Timers of asyncio (`sleep`, `timeout`) follow the running loop, which simulation makes virtual.
    """

    def now_ms(self) -> int:
        """Wall time, milliseconds since the epoch; may step."""
        ...

    def elapsed(self) -> float:
        """Seconds on a clock that never steps and does not stop in suspend (CLOCK_BOOTTIME); for deadlines."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Waits for so many seconds."""
        ...


class Cpu(Protocol):
    """The processors of a process: how much of them it used, and how much it may use."""

    def process_seconds(self) -> float:
        """CPU seconds that all threads of the process have used."""
        ...

    def thread_seconds(self) -> float:
        """CPU seconds that the calling thread has used."""
        ...

    def thread_delay_seconds(self) -> float:
        """Seconds that the calling thread was ready to run while other threads had the processor."""
        ...

    def cores(self) -> float:
        """Processors that the process may use: those it may run on, as far as its control group lets it."""
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
    """Makes fresh identities, which are ULIDs."""

    def ulid(self) -> str:
        """A new ULID, 26 characters."""
        ...


class Task(Protocol):
    """A coroutine that runs as a task."""

    def cancel(self) -> None:
        """Asks the task to end."""
        ...

    async def ended(self) -> None:
        """Waits until the task has ended, with whatever result; never raises the task's error."""
        ...


class Threads(Protocol):
    """A bounded number of threads for functions that block."""

    def run(self, function: Callable[[], T]) -> Awaitable[T]:
        """Calls the function as soon as a thread is free.

        The function continues even when nobody awaits its result any more.
        """
        ...

    def close(self) -> None:
        """Accepts no more functions; does not wait for those that run."""
        ...


class Tasks(Protocol):
    """Starts coroutines that belong to one process. A task that dies of an error takes its process down loudly."""

    def spawn(self, coroutine: Coroutine[object, object, None], name: str) -> Task:
        """Starts a coroutine as a task."""
        ...

    async def run_blocking(self, function: Callable[[], T]) -> T:
        """Runs a blocking function beside the loop and returns its result."""
        ...

    def threads(self, count: int, name: str) -> Threads:
        """Opens a pool of at most so many threads, called `<name>_<number>`, for functions that may block for long."""
        ...


def _end_process(reason: str) -> None:
    raise SystemExit(reason)


@dataclass(frozen=True, slots=True)
class Host:
    """The resources of one process: clock, randomness, ids, tasks, and a way to end itself.

    Attributes:
        exit: Ends the process at once, whatever it does, and says why.
        name: Of the machine or container it runs in; '' when nobody knows.
        cpu: Its processors; None where CPU time is not measured.
    """

    clock: Clock
    randomness: Randomness
    ids: Ids
    tasks: Tasks
    exit: Callable[[str], None] = _end_process
    name: str = ""
    cpu: Cpu | None = None
