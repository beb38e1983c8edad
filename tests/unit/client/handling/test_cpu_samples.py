"""Which part of handlers' time is CPU time: measured of a few calls, by lane."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, cast

import pytest

from braid.client.handling.cpu_samples import CpuSamples
from braid.client.records.record import Record
from braid.kernel.ids import ChannelId
from braid.kernel.limits.client import CPU_SAMPLES_PER_HEARTBEAT
from braid.kernel.ports import Clock

LIVE, BULK = ChannelId("logs", "live", 1), ChannelId("logs", "bulk", 1)


class Machine:
    """Clocks that a test moves by hand: `work` uses the processor, `wait` does not, `delay` is while others have it."""

    def __init__(self) -> None:
        self.cpu_seconds, self.now, self.delay_seconds = 0.0, 100.0, 0.0

    def work(self, seconds: float) -> None:
        self.cpu_seconds += seconds
        self.now += seconds

    def delay(self, seconds: float) -> None:
        self.delay_seconds += seconds
        self.now += seconds

    def wait(self, seconds: float) -> None:
        self.now += seconds

    def elapsed(self) -> float:
        return self.now

    def process_seconds(self) -> float:
        return self.cpu_seconds

    def thread_seconds(self) -> float:
        return self.cpu_seconds

    def thread_delay_seconds(self) -> float:
        return self.delay_seconds

    def cores(self) -> float:
        return 2.0


class Item:
    """A record, as far as its lane goes."""

    def __init__(self, channel: ChannelId) -> None:
        self.work = self
        self.lease = self
        self.id = self
        self.channel = channel


def item(channel: ChannelId) -> Record:
    return cast("Record", Item(channel))


def made() -> tuple[Machine, CpuSamples]:
    machine = Machine()
    return machine, CpuSamples(cast("Clock", machine), machine)


def run(coroutine: Callable[[], Coroutine[Any, Any, object]]) -> object:
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(coroutine())
    finally:
        loop.close()


def measured(samples: CpuSamples, channel: ChannelId, handler: Callable[[Record], Awaitable[object]]) -> object:
    """Runs a handler of which a heartbeat asked to know."""
    samples.take()

    async def called() -> object:
        return await samples.measured(handler, item(channel))

    return run(called)


def test_a_lane_that_waits_is_told_from_one_that_computes() -> None:
    machine, samples = made()

    async def computes(record: Record) -> None:
        machine.work(0.01)
        await asyncio.sleep(0)
        machine.work(0.01)

    async def waits(record: Record) -> None:
        asyncio.get_running_loop().call_soon(machine.wait, 0.099)
        machine.work(0.001)
        await asyncio.sleep(0)

    for _ in range(3):
        measured(samples, LIVE, computes)
        measured(samples, BULK, waits)
    samples.take()
    assert samples.times(LIVE, 1_000_000).cpu == 1_000_000
    assert samples.times(BULK, 1_000_000).cpu == pytest.approx(10_000, rel=0.01)
    assert samples.times(ChannelId("logs", "other", 1), 700).cpu == 700, "nothing measured: all of it counts"


def test_a_measured_handler_returns_raises_and_is_cancelled() -> None:
    _, samples = made()
    cleaned: list[str] = []

    async def returns(record: Record) -> str:
        await asyncio.sleep(0)
        return "done"

    async def raises(record: Record) -> None:
        await asyncio.sleep(0)
        raise LookupError("no such host")

    async def sleeps(record: Record) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            cleaned.append("up")

    async def cancelled() -> None:
        task = asyncio.ensure_future(samples.measured(sleeps, item(LIVE)))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    assert measured(samples, LIVE, returns) == "done"
    with pytest.raises(LookupError):
        measured(samples, LIVE, raises)
    samples.take()
    run(cancelled)
    assert cleaned == ["up"]


def test_a_heartbeat_asks_for_a_bounded_number_of_calls() -> None:
    _, samples = made()
    assert not samples.due, "none before the first"
    samples.take()
    samples.take()
    assert len(samples.due) == CPU_SAMPLES_PER_HEARTBEAT


def test_handlers_in_threads_are_measured_even_if_they_raise() -> None:
    machine, samples = made()

    def handle(record: Record) -> None:
        machine.work(0.03)
        machine.wait(0.01)
        raise ValueError

    samples.take()
    with pytest.raises(ValueError):
        samples.call(handle, item(LIVE))
    samples.take()
    assert samples.times(LIVE, 1_000).cpu == 750
    assert samples.process_micros == 30_000
    samples.take()
    assert samples.process_micros == 0, "since the last call"


def test_calls_in_threads_beyond_those_asked_for_are_only_made() -> None:
    machine, samples = made()
    calls: list[Record] = []
    samples.take()
    for _ in range(CPU_SAMPLES_PER_HEARTBEAT):
        samples.call(lambda record: machine.wait(0.01), item(LIVE))
    for _ in range(3):
        samples.call(calls.append, item(LIVE))
        machine.work(9.0)
    samples.take()
    assert len(calls) == 3
    assert samples.times(LIVE, 1_000).cpu == 0


def test_delays_in_steps_and_between_them_are_told_apart() -> None:
    machine, samples = made()

    async def handle(record: Record) -> None:
        machine.work(0.01)
        machine.delay(0.02)
        asyncio.get_running_loop().call_soon(machine.delay, 0.03)  # another handler's step is delayed
        asyncio.get_running_loop().call_soon(machine.wait, 0.04)
        await asyncio.sleep(0)

    measured(samples, LIVE, handle)
    samples.take()
    assert samples.times(LIVE, 100_000) == (10_000, 50_000)
    assert samples.delay_micros == 20_000, "what its own CPU work was delayed"


def test_a_quota_or_own_threads_take_nothing_from_the_member() -> None:
    """The processors that the process may use were all its own: its threads were delayed by each other."""
    machine, samples = made()

    def handle(record: Record) -> None:
        machine.work(0.01)
        machine.delay(0.02)

    samples.take()
    samples.call(handle, item(LIVE))
    machine.cpu_seconds += 0.04  # two cores for 0.03 seconds make 0.06: 0.01 are left
    samples.take()
    assert samples.times(LIVE, 30_000) == (10_000, 20_000)
    assert samples.delay_micros == 10_000
