"""Handles records of stream `logs` until none arrives any more: `python examples/consume.py [ENDPOINT]`.

Start it several times: the processes share the partitions, and the others take over those of a process that dies.
"""

import asyncio
import sys

import braid

IDLE_SECONDS = 5.0


async def main(endpoint: str | None = None) -> None:
    handled = 0

    async def handle(record: braid.Record) -> None:
        nonlocal handled
        handled += 1

    async with braid.connect(endpoint, client_id="example-consumer") as mesh:
        async with mesh.consumer(["logs"], group="example", retry=braid.Retry(max_attempts=3)) as consumer:
            handling = asyncio.create_task(consumer.run(handle))
            before = -1
            while handled > before:
                before = handled
                await asyncio.sleep(IDLE_SECONDS)
        await handling
    print(f"handled {handled} records")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:2]))
