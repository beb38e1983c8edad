"""How much of the time of handlers is CPU time, and how much other processes took: measured of some calls, by lane.

A handler on the loop shares its thread with all others, so its CPU time is that of its own steps. To measure each call
would cost as much as to hand out a record, and in a thread a fifth of the way there and back. So a few calls are
measured in each heartbeat's time.

A thread that is ready to run and has no processor is *delayed*. Two delays are measured of a call. That of its own
steps says how much longer its CPU work takes here. That of its thread from beginning to end says how much of the busy
time says nothing of the handler. Where a quota or the process's own threads delay it, nobody else took anything: what
counts is no more than the processors' time that this process left.
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


class _Spent(NamedTuple):
    """Sums of some calls of a lane.

    Attributes:
        cpu: CPU seconds.
        delay: Seconds in which their steps were delayed.
        lost: Seconds in which their thread was delayed, in their steps or between them.
        seconds: From their beginning to their end.
    """

    cpu: float = 0.0
    delay: float = 0.0
    lost: float = 0.0
    seconds: float = 0.0

    def plus(self, other: "_Spent") -> "_Spent":
        """Returns the sums of both."""
        return _Spent(*(mine + its for mine, its in zip(self, other, strict=True)))

    def part(self, kept: float) -> "_Spent":
        """Returns a part of each sum."""
        return _Spent(*(each * kept for each in self))


class LeaseTime(NamedTuple):
    """A lease's CPU time, and what was lost of its busy time because its threads had no processor; microseconds."""

    cpu: int
    lost: int


class CpuSamples:
    """Measures handlers of one consumer.

    Attributes:
        due: One element for each call that is still to be measured; empty most of the time.
    """

    def __init__(self, clock: Clock, cpu: Cpu) -> None:
        self.due: list[None] = []
        self._elapsed = clock.elapsed
        self._cpu = cpu
        self._calls: deque[tuple[tuple[str, str], _Spent]] = deque(maxlen=CPU_SAMPLES_KEPT_MAX)  # threads append, too
        self._sums: dict[tuple[str, str], _Spent] = {}
        self._process_seconds, self._taken_at = cpu.process_seconds(), clock.elapsed()
        self._process_micros, self._left_micros = 0, 0
        self._delay = 0.0

    def measured(self, handler: Callable[[X], Awaitable[object]], item: X) -> Awaitable[object]:
        """Calls a handler on the loop; its steps are measured."""
        self.due.pop()
        return _Steps(self, _lane(item), handler(item))

    def call(self, function: Callable[[X], T], item: X) -> T:
        """Calls a handler in this thread, and measures it if a call is still to be measured."""
        try:
            self.due.pop()
        except IndexError:
            return function(item)
        cpu, delay, began = self._cpu.thread_seconds(), self._cpu.thread_delay_seconds(), self._elapsed()
        try:
            return function(item)
        finally:
            lost = self._cpu.thread_delay_seconds() - delay
            spent = _Spent(self._cpu.thread_seconds() - cpu, lost, lost, self._elapsed() - began)
            self._calls.append((_lane(item), spent))

    def take(self) -> None:
        """Adds up what was measured since the last heartbeat, and lets a few further calls be measured."""
        self._sums = {lane: spent.part(CPU_SHARE_KEPT) for lane, spent in self._sums.items()}
        while self._calls:
            lane, spent = self._calls.popleft()
            self._sums[lane] = self._sums.get(lane, _Spent()).plus(spent)
        self.due[:] = [None] * CPU_SAMPLES_PER_HEARTBEAT
        process, now = self._cpu.process_seconds(), self._elapsed()
        used = process - self._process_seconds
        self._process_micros = round(used * 1e6)
        self._left_micros = max(round((self._cpu.cores() * (now - self._taken_at) - used) * 1e6), 0)
        self._process_seconds, self._taken_at, self._delay = process, now, 0.0

    def times(self, channel: ChannelId, busy_micros: int) -> LeaseTime:
        """Returns how a lease's busy time divides; all of it is CPU time while no call of its lane was measured."""
        spent = self._sums.get((channel.stream, channel.lane), _Spent())
        if spent.seconds <= 0:
            return LeaseTime(busy_micros, 0)
        self._delay += busy_micros * min(spent.delay / spent.seconds, 1.0)
        cpu = round(busy_micros * min(spent.cpu / spent.seconds, 1.0))
        return LeaseTime(cpu, min(round(busy_micros * min(spent.lost / spent.seconds, 1.0)), busy_micros - cpu))

    @property
    def delay_micros(self) -> int:
        """For so long the steps of handlers were delayed by others; of the leases asked about since `take`."""
        return min(round(self._delay), self._left_micros)

    @property
    def process_micros(self) -> int:
        """CPU microseconds of the whole process between the last two calls of `take`."""
        return self._process_micros

    @property
    def cores(self) -> float:
        """Processors that the process may use."""
        return self._cpu.cores()

    def thread_seconds(self) -> float:
        """CPU seconds of this thread."""
        return self._cpu.thread_seconds()

    def delay_seconds(self) -> float:
        """Seconds that this thread was delayed."""
        return self._cpu.thread_delay_seconds()

    def began(self) -> float:
        """Returns the time now, as `ended` needs it."""
        return self._elapsed()

    def ended(self, lane: tuple[str, str], cpu: float, delay: float, lost: float, began: float) -> None:
        """Notes a call on the loop that has ended, with the seconds of it."""
        self._calls.append((lane, _Spent(cpu, delay, lost, self._elapsed() - began)))


class _Steps:
    """Awaits a handler, and adds up the CPU time of its steps, and how long they were delayed."""

    def __init__(self, samples: CpuSamples, lane: tuple[str, str], called: Awaitable[object]) -> None:
        self._samples = samples
        self._lane = lane
        self._called = called

    def __await__(self) -> Generator[Any, Any, object]:
        cpu, delayed = self._samples.thread_seconds, self._samples.delay_seconds
        began, at_first, spent, delay = self._samples.began(), delayed(), 0.0, 0.0
        steps = self._called.__await__()
        answer, error = None, None
        try:
            while True:
                at, delay_at = cpu(), delayed()
                try:
                    wanted = steps.send(answer) if error is None else steps.throw(error)
                except StopIteration as done:
                    return done.value
                finally:
                    spent += cpu() - at
                    delay += delayed() - delay_at
                answer = error = None
                try:
                    answer = yield wanted
                except GeneratorExit:
                    steps.close()
                    raise
                except BaseException as raised:  # noqa: BLE001 - a cancellation, say: the handler's own affair
                    error = raised
        finally:
            self._samples.ended(self._lane, spent, delay, delayed() - at_first, began)


def _lane(item: Handled) -> tuple[str, str]:
    channel = item.work.lease.id.channel
    return channel.stream, channel.lane
