"""The virtual clock itself: order, jumps, deadlock, kills, and runs that repeat byte for byte."""

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from braid.kernel.ports import Host
from tests.support.virtual_time import (
    START_MS,
    ProcessKilled,
    VirtualDeadlock,
    VirtualFailure,
    VirtualProcess,
    run_virtual,
    running_loop,
    virtual_host,
)

ROOT = Path(__file__).parents[3]

SCENARIO = """
import asyncio
from tests.support.virtual_time import VirtualProcess, run_virtual, running_loop

async def main():
    loop = running_loop()
    lines = []
    async def work(process, number):
        for turn in range(20):
            await process.host.clock.sleep(process.host.randomness.uniform(0.0, 0.1))
            lines.append(f"{loop.time():.9f} {process.name} {number} {process.host.ids.ulid()} {turn}")
    processes = [VirtualProcess(loop, f"p{n}", 7, skew_ms=n) for n in range(4)]
    running = {asyncio.ensure_future(work(process, n)) for process in processes for n in range(5)}
    while running:
        done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        lines.extend(task.get_name() for task in done)
    lines.append(f"{sorted({name for name in lines})[0]} {loop.steps} {[l for l in set(lines)][:5]}")
    return lines

print("\\n".join(run_virtual(main())))
"""


def test_an_hour_passes_in_no_time_and_exactly() -> None:
    async def main() -> tuple[float, int]:
        host = virtual_host(running_loop(), 1)
        await host.clock.sleep(3600.25)
        return host.clock.elapsed(), host.clock.now_ms()

    assert run_virtual(main()) == (3600.25, START_MS + 3_600_250)


def test_timers_of_one_instant_fire_in_the_order_they_were_set() -> None:
    async def main() -> list[int]:
        fired: list[int] = []
        for number in range(50):
            running_loop().call_at(1.0, fired.append, number)
        await asyncio.sleep(1.0)
        return fired

    assert run_virtual(main()) == list(range(50))


def test_a_cancelled_timer_neither_fires_nor_moves_time() -> None:
    async def main() -> float:
        running_loop().call_at(5.0, pytest.fail).cancel()
        await asyncio.sleep(10.0)
        async with asyncio.timeout(3.0):
            await asyncio.sleep(1.0)
        return running_loop().time()

    assert run_virtual(main()) == 11.0


def test_a_timeout_fires_at_its_time() -> None:
    async def main() -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(2.5):
                await asyncio.Event().wait()
        return running_loop().time()

    assert run_virtual(main()) == 2.5


def test_a_deadlock_is_named_with_who_waits() -> None:
    async def main() -> None:
        waiter = asyncio.create_task(asyncio.Event().wait(), name="for-godot")
        await waiter

    with pytest.raises(VirtualDeadlock, match="for-godot"):
        run_virtual(main())


def test_a_livelock_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.support.virtual_loop.STEPS_PER_INSTANT_MAX", 1000)

    async def main() -> None:
        ready = asyncio.Event()
        ready.set()
        while True:
            await asyncio.wait([asyncio.ensure_future(ready.wait())])

    with pytest.raises(VirtualDeadlock, match="time does not pass"):
        run_virtual(main())


def test_waits_too_short_for_the_clock_to_tell_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is over at once, and begins anew: the last bit of a clock in seconds is not 0."""
    monkeypatch.setattr("tests.support.virtual_loop.STEPS_PER_INSTANT_MAX", 1000)

    async def waits_for_its_deadline() -> None:
        never = asyncio.get_running_loop().create_future()
        await asyncio.sleep(1e6)
        while not never.done():
            await asyncio.wait([never], timeout=1e-12)

    with pytest.raises(VirtualDeadlock, match="time does not pass"):
        run_virtual(waits_for_its_deadline())


def test_a_task_that_cannot_be_cancelled_is_named() -> None:
    async def stubborn() -> None:
        while True:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.Event().wait()

    async def main() -> None:
        running_loop().create_task(stubborn(), name="stubborn")

    with pytest.raises(VirtualDeadlock, match="still run: stubborn"):
        run_virtual(main())


def test_a_generator_dropped_midway_is_closed() -> None:
    closed: list[str] = []

    async def numbers() -> AsyncIterator[int]:
        try:
            yield 1
            yield 2
        finally:
            await asyncio.sleep(0.1)
            closed.append("closed")

    async def main() -> None:
        async for _ in numbers():
            break
        await asyncio.sleep(1.0)

    run_virtual(main())
    assert closed == ["closed"]


def test_an_error_nobody_awaits_fails_the_run() -> None:
    async def main() -> None:
        running_loop().call_later(1.0, lambda: 1 // 0)
        await asyncio.sleep(10.0)

    with pytest.raises(VirtualFailure, match="ZeroDivisionError"):
        run_virtual(main())


def test_a_task_that_dies_fails_the_run_by_default() -> None:
    async def die() -> None:
        raise ValueError("so be it")

    async def main() -> None:
        virtual_host(running_loop(), 1).tasks.spawn(die(), "dies")
        await asyncio.sleep(10.0)

    with pytest.raises(VirtualFailure, match="so be it"):
        run_virtual(main())


def test_a_task_that_dies_takes_its_process_down() -> None:
    async def die() -> None:
        raise ValueError("so be it")

    async def main() -> tuple[list[BaseException], bool, bool]:
        failures: list[BaseException] = []
        process = VirtualProcess(running_loop(), "p", 1, on_failure=failures.append)
        other = process.tasks.spawn(process.clock.sleep(100.0), "other")
        await process.tasks.spawn(die(), "dies").ended()
        await other.ended()
        return failures, process.alive, running_loop().time() < 1.0

    failures, alive, soon = run_virtual(main())
    assert ([str(failure) for failure in failures], alive, soon) == (["so be it"], False, True)


async def _swallow_cancellation(host: Host, log: list[str]) -> None:
    while True:
        try:
            await host.clock.sleep(1.0)
            log.append("alive")
        except asyncio.CancelledError:
            log.append("cancelled")
            host.clock.now_ms()


def test_kill_ends_spawned_tasks_and_those_they_made() -> None:
    async def main() -> list[str]:
        log: list[str] = []
        process = VirtualProcess(running_loop(), "p", 1)

        async def parent() -> None:
            async with asyncio.TaskGroup() as group:
                group.create_task(_swallow_cancellation(process.host, log))
                await asyncio.Event().wait()

        process.on_kill(lambda: log.append("connections break"))
        task = process.tasks.spawn(parent(), "parent")
        await asyncio.sleep(2.5)
        process.kill()
        process.kill()
        await task.ended()
        return log

    assert run_virtual(main()) == ["alive", "alive", "connections break", "cancelled"]


def test_no_port_of_a_killed_process_works() -> None:
    async def nothing() -> None:
        pass

    async def main() -> None:
        process = VirtualProcess(running_loop(), "p", 1)
        process.kill()
        host = process.host
        for port in (host.clock.now_ms, host.clock.elapsed, host.ids.ulid):
            with pytest.raises(ProcessKilled):
                port()
        with pytest.raises(ProcessKilled):
            host.randomness.entropy(1)
        with pytest.raises(ProcessKilled):
            host.tasks.spawn(nothing(), "late")
        with pytest.raises(ProcessKilled):
            await host.tasks.run_blocking(lambda: 1)
        with pytest.raises(ProcessKilled):
            await host.clock.sleep(1.0)

    run_virtual(main())


def test_a_paused_process_runs_what_it_missed_once_resumed() -> None:
    log: list[tuple[float, str]] = []

    async def beat(host: Host) -> None:
        for turn in range(3):
            await host.clock.sleep(1.0)
            log.append((host.clock.elapsed(), f"{turn}"))

    async def main() -> None:
        loop = running_loop()
        process, other = VirtualProcess(loop, "p", 1), VirtualProcess(loop, "q", 1)
        process.host.tasks.spawn(beat(process.host), "beat")
        await asyncio.sleep(1.5)
        process.pause()
        await asyncio.sleep(4.0)
        assert other.host.clock.elapsed() == 5.5
        process.resume()
        process.resume()
        await asyncio.sleep(3.0)

    run_virtual(main())
    assert log == [(1.0, "0"), (5.5, "1"), (6.5, "2")]


def test_a_paused_process_can_be_killed() -> None:
    async def main() -> None:
        process = VirtualProcess(running_loop(), "p", 1)
        task = process.host.tasks.spawn(process.host.clock.sleep(5.0), "sleep")
        process.pause()
        process.kill()
        await task.ended()
        process.pause()

    run_virtual(main())


def test_wall_clocks_are_skewed_and_stepped_apart_from_deadlines() -> None:
    async def main() -> tuple[int, float]:
        process = VirtualProcess(running_loop(), "p", 1, skew_ms=250)
        assert process.host.clock.now_ms() == START_MS + 250
        process.clock.skew_ms = -1000
        await asyncio.sleep(2.0)
        return process.host.clock.now_ms() - START_MS, process.host.clock.elapsed()

    assert run_virtual(main()) == (1000, 2.0)


def test_dice_follow_seed_and_process() -> None:
    async def roll(name: str, seed: int) -> str:
        return VirtualProcess(running_loop(), name, seed).host.ids.ulid()

    assert run_virtual(roll("a", 1)) == run_virtual(roll("a", 1))
    assert len({run_virtual(roll("a", 1)), run_virtual(roll("a", 2)), run_virtual(roll("b", 1))}) == 3


def test_one_seed_gives_one_run_byte_for_byte() -> None:
    def run() -> bytes:
        environment = {"PYTHONHASHSEED": "0", "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-c", SCENARIO]
        return subprocess.run(command, env=environment, cwd=ROOT, check=True, capture_output=True, timeout=100).stdout

    first = run()
    assert len(first.splitlines()) > 400
    assert run() == first
