"""Reads a partition with plain aiokafka in a process of its own, and tells what `testbed.members.bomb_reader` tells.

`bomb_peer BOOTSTRAP WARM_TOPIC TOPIC END`. It may take so much memory and no more: what a machine would do to it beyond
that, others would suffer. Where it ends of that it printed nothing.
"""

import asyncio
import gc
import json
import resource
import sys
from typing import Final

from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioPartition

from testbed.members.bomb_reader import Cost, forget_peak, resident, worst_stall

MEMORY_BYTES: Final = 8 << 30


async def read(bootstrap: str, topic: str, end: int) -> Cost:
    """Reads a partition to its end."""
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False)
    await consumer.start()
    place = AioPartition(topic, 0)
    consumer.assign([place])
    consumer.seek(place, 0)
    gc.collect()
    forget_peak()
    before = resident("VmRSS")
    stall = asyncio.create_task(worst_stall())
    offsets: list[int] = []
    while not offsets or offsets[-1] < end - 1:
        for found in (await consumer.getmany(timeout_ms=1_000)).values():
            offsets += [record.offset for record in found]
    stall.cancel()
    await consumer.stop()
    return Cost(offsets, [], resident("VmHWM") - before, await stall)


async def main(bootstrap: str, warm: str, topic: str, end: int) -> None:
    """Reads both topics."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    await read(bootstrap, warm, 2)
    sys.stdout.write(json.dumps(await read(bootstrap, topic, end)) + "\n")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])))
