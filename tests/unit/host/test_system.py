"""The real host: clocks that go on, ids that differ, deaths that are told once."""

import asyncio
import logging
import re
import threading
import time
from pathlib import Path

import pytest

from braid.host.system import system_host
from braid.kernel.limits.runtime import CLOCK_OFFSET_SECONDS


async def test_clocks() -> None:
    clock = system_host().clock
    before = clock.elapsed()
    await clock.sleep(0.01)
    assert clock.elapsed() - before >= 0.01
    assert abs(clock.now_ms() - time.time() * 1000) < 1000


def test_randomness_and_ids() -> None:
    host = system_host()
    assert all(1.0 <= host.randomness.uniform(1.0, 2.0) <= 2.0 for _ in range(100))
    assert len(host.randomness.entropy(16)) == 16
    ids = {host.ids.ulid() for _ in range(1000)}
    assert len(ids) == 1000
    assert all(re.fullmatch(r"[0-9A-HJKMNP-TV-Z]{26}", each) for each in ids)


async def test_a_task_that_dies_is_logged_once_and_told(caplog: pytest.LogCaptureFixture) -> None:
    deaths: list[tuple[str, BaseException]] = []
    host = system_host(lambda name, error: deaths.append((name, error)))

    async def die() -> None:
        raise ZeroDivisionError("a bug")

    with caplog.at_level(logging.ERROR):
        await host.tasks.spawn(die(), "mortal").ended()
        await asyncio.sleep(0)
    assert [(name, type(error)) for name, error in deaths] == [("mortal", ZeroDivisionError)]
    assert [record.getMessage() for record in caplog.records] == ["task mortal died"]


async def test_a_cancelled_or_finished_task_is_no_death() -> None:
    deaths: list[str] = []
    host = system_host(lambda name, error: deaths.append(name))

    async def wait() -> None:
        await asyncio.Event().wait()

    async def finish() -> None:
        return

    waiting, finished = host.tasks.spawn(wait(), "waiting"), host.tasks.spawn(finish(), "finished")
    await asyncio.sleep(0)
    waiting.cancel()
    await waiting.ended()
    await finished.ended()
    await asyncio.sleep(0)
    assert deaths == []


async def test_threads_are_named_and_bounded_and_outlive_whoever_waits() -> None:
    threads = system_host().tasks.threads(2, "test-threads")
    gate, names = threading.Event(), set[str]()

    def block() -> int:
        names.add(threading.current_thread().name)
        return int(gate.wait(60))

    running = [asyncio.ensure_future(threads.run(block)) for _ in range(5)]
    await asyncio.wait(running, timeout=0.05)
    gate.set()
    assert await asyncio.gather(*running) == [1] * 5
    assert names <= {"test-threads_0", "test-threads_1"}
    threads.close()


async def test_blocking_work_runs_beside_the_loop() -> None:
    assert await system_host().tasks.run_blocking(lambda: 42) == 42


async def test_a_file_shifts_a_clocks_wall_time_and_nothing_else(tmp_path: Path) -> None:
    offset = tmp_path / "offset"
    off, right = system_host(clock_offset_file=offset).clock, system_host().clock
    assert abs(off.now_ms() - right.now_ms()) < 10_000, "there is no file"
    offset.write_text("691200000\n")
    await asyncio.sleep(CLOCK_OFFSET_SECONDS)
    assert abs(off.now_ms() - right.now_ms() - 691_200_000) < 10_000
    assert abs(off.elapsed() - right.elapsed()) < 10.0
    offset.write_text("")
    await asyncio.sleep(CLOCK_OFFSET_SECONDS)
    assert abs(off.now_ms() - right.now_ms()) < 10_000, "it is being written"
