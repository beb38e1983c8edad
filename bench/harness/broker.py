"""Where benchmarks play: a broker of their own on one core, the client on another."""

import asyncio
import contextlib
import gc
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Final

import uvloop

from bench.harness.arguments import Asked, asked
from bench.harness.tables import Table
from devmesh.processes.brokers import KafkaBroker
from devmesh.toolchain.jars import kafka_classpath
from devmesh.toolchain.java import java_binary
from testbed.ports import free_port

READY_SECONDS: Final = 60.0
HEAP_MB: Final = 1_024


@contextlib.contextmanager
def broker(*, apart: bool = True) -> Iterator[KafkaBroker]:
    """A broker that serves, with memory and an optimising JVM.

    Args:
        apart: Whether broker and client get a core each, where there are two.
    """
    with tempfile.TemporaryDirectory(prefix="braid-bench-") as directory:
        serving = KafkaBroker(
            "bench", Path(directory), free_port(), free_port(), kafka_classpath(), "a", java=str(java_binary()),
            heap_mb=HEAP_MB, tiered_stop_at_level=None,
        )  # fmt: skip
        cores = os.sched_getaffinity(0)
        try:
            serving.start()
            serving.wait_ready(READY_SECONDS)
            if apart:
                _part(serving)
            yield serving
        finally:
            serving.kill()
            os.sched_setaffinity(0, cores)


def play_on_a_broker(
    doc: str | None, contest: Callable[[str, Asked], Coroutine[object, object, Table]], units: int, quick_units: int
) -> int:
    """A benchmark's `main`: asks how, plays it on a broker of its own, publishes its table; 1 when that is void."""
    how = asked(doc, units=units, quick_units=quick_units)
    with broker() as serving:
        table = asyncio.run(contest(serving.bootstrap, how))
    table.publish(how.directory)
    return int(bool(table.verdict) and not how.quick)


def play_on_both_loops(
    doc: str | None,
    prepare: Callable[[str, Asked], Coroutine[object, object, None]],
    contests: Callable[[str, Asked], AsyncIterator[Table]],
    units: int,
    quick_units: int,
) -> int:
    """Plays like `play_on_a_broker`, on asyncio's loop and again on uvloop's; publishes each table when it is known.

    What `prepare` leaves, and the modules, are no garbage: nobody looks at them again while handlers run.
    """
    how = asked(doc, units=units, quick_units=quick_units)
    void = False

    async def play() -> None:
        nonlocal void
        async for table in contests(serving.bootstrap, how):
            table.publish(how.directory)
            void |= bool(table.verdict)

    with broker() as serving:
        asyncio.run(prepare(serving.bootstrap, how))
        gc.collect()
        gc.freeze()
        asyncio.run(play())
        uvloop.run(play())
    return int(void and not how.quick)


def on_this_loop(name: str) -> str:
    """A table's name, that says so where uvloop's loop runs."""
    return f"{name}-uvloop" if isinstance(asyncio.get_running_loop(), uvloop.Loop) else name


def cores() -> str:
    """How the cores are shared out, for a table."""
    return "the broker on one core, the client on another" if (os.cpu_count() or 1) > 1 else "one core for both"


def _part(serving: KafkaBroker) -> None:
    available = sorted(os.sched_getaffinity(0))
    if len(available) > 1 and serving.pid is not None:
        for thread in Path(f"/proc/{serving.pid}/task").iterdir():
            os.sched_setaffinity(int(thread.name), available[:1])
        os.sched_setaffinity(0, available[1:2])
