"""Reads a partition in a process of its own and tells what that cost: `bomb_reader BOOTSTRAP WARM_TOPIC TOPIC END`.

Prints one line of JSON: offsets delivered, damaged batches, growth of the resident peak in bytes, the longest the event
loop was held up in seconds of processor time. The warm topic, which holds honest batches of the same codec, is read
first and more than once, and garbage is collected: what stays anyway (modules, threads' arenas, codecs' tables) is not
counted.
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
    """What reading a topic brought and cost."""

    offsets: list[int]
    damaged: list[DamagedBatch]
    grown_bytes: int
    stall_seconds: float


def resident(field: str) -> int:
    """Bytes of this process that are in memory (`VmRSS`), or were at most (`VmHWM`)."""
    found = re.search(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None, "Linux tells it"
    return int(found.group(1)) * 1024


def forget_peak() -> None:
    """From now on `VmHWM` counts anew."""
    Path("/proc/self/clear_refs").write_text("5")


async def worst_stall() -> float:
    """Until it is cancelled: the longest that the event loop was held up, in seconds.

    In processor time of the whole process: what the machine withholds meanwhile does not count, and what another thread
    does while it keeps the interpreter to itself does.
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
    """A fetcher as consumers have it."""
    cluster = AioKafka("bomb-reader").cluster(bootstrap, "")
    fetcher = cluster.fetcher(max_partition_bytes=1 << 20, isolation=Isolation.READ_COMMITTED, client_rack="")
    await fetcher.start()
    try:
        yield fetcher
    finally:
        await fetcher.close()


async def read_with_a_fetcher(bootstrap: str, topic: str, end: int) -> Cost:
    """Reads a topic here, with a fetcher of its own: what that costs of memory, this process has used before."""
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
