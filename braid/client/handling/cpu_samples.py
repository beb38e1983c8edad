"""How much of the time of handlers is CPU time: measured of some calls, by lane.

A handler on the loop shares its thread with all others, so its CPU time is that of its own steps. To measure each call
would cost as much as to hand out a record. So a few calls are measured in each heartbeat's time. Calls in threads are
all measured, which costs little beside the way to a thread and back.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Generator
from typing import Any, NamedTuple, TypeVar

from braid.client.records.handled import Handled, X
from braid.kernel.ids import ChannelId
from braid.kernel.limits.client import CPU_SAMPLES_KEPT_MAX, CPU_SAMPLES_PER_HEARTBEAT, CPU_SHARE_KEPT
from braid.kernel.ports import Clock
from braid.kernel.ports.host import Cpu

T = TypeVar("T")


class _Call(NamedTuple):
    lane: tuple[str, str]
    cpu_seconds: float
    seconds: float


class CpuSamples:
    """Measures handlers of one consumer.

    Attributes:
        due: One element for each call that is still to be measured; empty most of the time.
    """

    def __init__(self, clock: Clock, cpu: Cpu) -> None:
        self.due: list[None] = []
        self._elapsed = clock.elapsed
        self._cpu = cpu
        self._calls: deque[_Call] = deque(maxlen=CPU_SAMPLES_KEPT_MAX)  # threads append, too
        self._sums: dict[tuple[str, str], tuple[float, float]] = {}
        self._process_seconds = cpu.process_seconds()

    def measured(self, handler: Callable[[X], Awaitable[object]], item: X) -> Awaitable[object]:
        """Calls a handler on the loop; its steps are measured."""
        self.due.pop()
        return _Steps(self, _lane(item), handler(item))

    def call(self, function: Callable[[X], T], item: X) -> T:
        """Calls a handler in this thread, and measures it."""
        cpu, began = self._cpu.thread_seconds(), self._elapsed()
        try:
            return function(item)
        finally:
            self._calls.append(_Call(_lane(item), self._cpu.thread_seconds() - cpu, self._elapsed() - began))

    def take(self) -> None:
        """Adds up what was measured since the last heartbeat, and lets a few further calls be measured."""
        self._sums = {lane: (cpu * CPU_SHARE_KEPT, all_ * CPU_SHARE_KEPT) for lane, (cpu, all_) in self._sums.items()}
        while self._calls:
            lane, cpu_seconds, seconds = self._calls.popleft()
            cpu, whole = self._sums.get(lane, (0.0, 0.0))
            self._sums[lane] = (cpu + cpu_seconds, whole + seconds)
        self.due[:] = [None] * CPU_SAMPLES_PER_HEARTBEAT

    def micros(self, channel: ChannelId, busy_micros: int) -> int:
        """Returns how much of a lease's busy time was CPU time; all of it while no call of its lane was measured."""
        cpu, whole = self._sums.get((channel.stream, channel.lane), (0.0, 0.0))
        return round(busy_micros * min(cpu / whole, 1.0)) if whole > 0 else busy_micros

    def take_process_micros(self) -> int:
        """Returns the CPU microseconds of the whole process since the last call."""
        before, self._process_seconds = self._process_seconds, self._cpu.process_seconds()
        return round((self._process_seconds - before) * 1e6)

    @property
    def cores(self) -> float:
        """Processors that the process may use."""
        return self._cpu.cores()

    def thread_seconds(self) -> float:
        """CPU seconds of this thread."""
        return self._cpu.thread_seconds()

    def began(self) -> float:
        """Returns the time now, as `ended` needs it."""
        return self._elapsed()

    def ended(self, lane: tuple[str, str], cpu_seconds: float, began: float) -> None:
        """Notes a call on the loop that has ended."""
        self._calls.append(_Call(lane, cpu_seconds, self._elapsed() - began))


class _Steps:
    """Awaits a handler, and adds up the CPU time of its steps."""

    def __init__(self, samples: CpuSamples, lane: tuple[str, str], called: Awaitable[object]) -> None:
        self._samples = samples
        self._lane = lane
        self._called = called

    def __await__(self) -> Generator[Any, Any, object]:
        cpu = self._samples.thread_seconds
        began, spent = self._samples.began(), 0.0
        steps = self._called.__await__()
        answer, error = None, None
        try:
            while True:
                at = cpu()
                try:
                    wanted = steps.send(answer) if error is None else steps.throw(error)
                except StopIteration as done:
                    return done.value
                finally:
                    spent += cpu() - at
                answer = error = None
                try:
                    answer = yield wanted
                except GeneratorExit:
                    steps.close()
                    raise
                except BaseException as raised:  # noqa: BLE001 - a cancellation, say: the handler's own affair
                    error = raised
        finally:
            self._samples.ended(self._lane, spent, began)


def _lane(item: Handled) -> tuple[str, str]:
    channel = item.work.lease.id.channel
    return channel.stream, channel.lane
