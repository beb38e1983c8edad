"""Reads a partition in its own process and reports the cost: `bomb_reader BOOTSTRAP WARM_TOPIC TOPIC END`.

Prints one line of JSON: delivered offsets, damaged batches, growth of the resident peak in bytes, and the longest stall
of the event loop in seconds of processor time. The warm topic, which holds valid batches of the same codec, is read
first, several times, and garbage is collected: memory that stays anyway (modules, threads' arenas, codecs' tables) is
not counted.
"""

import asyncio
import contextlib
import gc
import json
import re
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

from braid.kafka.cluster import AioKafka
from braid.kernel.ports import DamagedBatch, Isolation, KafkaFetcher, TopicPartition

_TICK_SECONDS = 0.001
_WARM_READS = 3


class Cost(NamedTuple):
    """The result and the cost of reading a topic."""

    offsets: list[int]
    damaged: list[DamagedBatch]
    grown_bytes: int
    stall_seconds: float


def resident(field: str) -> int:
    """Bytes of this process in memory now (`VmRSS`), or at most so far (`VmHWM`)."""
    found = re.search(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None, "Linux tells it"
    return int(found.group(1)) * 1024


def forget_peak() -> None:
    """Resets the peak that `VmHWM` counts."""
    Path("/proc/self/clear_refs").write_text("5")


async def worst_stall() -> float:
    """The longest stall of the event loop until this is cancelled, in seconds.

    Counted in processor time of the whole process: time that the machine withholds does not count, work of another
    thread that holds the interpreter does.
    """
    worst, before = 0.0, time.process_time()
    try:
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            now = time.process_time()
            worst, before = max(worst, now - before), now
    except asyncio.CancelledError:
        return max(worst, time.process_time() - before)


async def read(fetcher: KafkaFetcher, partition: TopicPartition, end: int) -> Cost:
    """Reads a partition to its end."""
    gc.collect()
    forget_peak()
    before = resident("VmRSS")
    stall = asyncio.create_task(worst_stall())
    offsets: list[int] = []
    damaged: list[DamagedBatch] = []
    fetcher.assign({partition: 0})
    position = 0
    while position < end:
        for fetched in await fetcher.fetch(2_000, 1.0):
            offsets += [record.offset for record in fetched.records]
            damaged += fetched.damaged
            position = fetched.next_offset
    fetcher.assign({})
    stall.cancel()
    return Cost(offsets, damaged, resident("VmHWM") - before, await stall)


@contextlib.asynccontextmanager
async def fetching(bootstrap: str) -> AsyncIterator[KafkaFetcher]:
    """A fetcher with the settings that consumers use."""
    cluster = AioKafka("bomb-reader").cluster(bootstrap, "")
    fetcher = cluster.fetcher(max_partition_bytes=1 << 20, isolation=Isolation.READ_COMMITTED, client_rack="")
    await fetcher.start()
    try:
        yield fetcher
    finally:
        await fetcher.close()


async def read_with_a_fetcher(bootstrap: str, topic: str, end: int) -> Cost:
    """Reads a topic here with its own fetcher; its cost includes memory that this process has used before."""
    async with fetching(bootstrap) as fetcher:
        return await read(fetcher, TopicPartition(topic, 0), end)


async def main(bootstrap: str, warm: str, topic: str, end: int) -> None:
    """Reads both topics with one fetcher."""
    async with fetching(bootstrap) as fetcher:
        for _ in range(_WARM_READS):
            await read(fetcher, TopicPartition(warm, 0), 2)
        cost = await read(fetcher, TopicPartition(topic, 0), end)
    damaged = [each[:-1] for each in cost.damaged]  # without their bytes, which nobody asked to keep
    sys.stdout.write(json.dumps([cost.offsets, damaged, cost.grown_bytes, cost.stall_seconds]) + "\n")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])))
