"""Handles records of stream `logs` until a thousand are done: `python examples/consume.py 127.0.0.1:7401`.

Start it several times: the partitions are shared, and a process that dies is replaced by the others.
"""

import asyncio
import sys

import braid


async def main(endpoint: str, wanted: int = 1_000) -> None:
    done = 0
    enough = asyncio.Event()

    async def handle(record: braid.Record) -> None:
        nonlocal done
        done += 1
        if done == wanted:
            enough.set()

    async with braid.connect(endpoint, client_id="example-consumer") as mesh:
        async with mesh.consumer(["logs"], group="example", retry=braid.Retry(max_attempts=3)) as consumer:
            handling = asyncio.create_task(consumer.run(handle))
            await enough.wait()
        await handling
    print(f"handled {done} records")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
