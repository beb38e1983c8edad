"""Counts the records of stream `logs` by key, as columns, until none arrives: `python examples/columns.py
[ENDPOINT]`."""

import asyncio
import sys
from collections import Counter

import braid

IDLE_SECONDS = 5.0


async def main(endpoint: str | None = None) -> None:
    keys: Counter[bytes] = Counter()
    async with braid.connect(endpoint) as mesh, mesh.consumer(["logs"], group="example-columns") as consumer:
        batches = consumer.batches()
        while True:
            try:
                batch = await asyncio.wait_for(anext(batches), IDLE_SECONDS)
            except TimeoutError:
                break
            keys.update(batch.records["key"].to_pylist())
            batch.ack()
    print(f"counted {keys.total()} records under {len(keys)} keys")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:2]))
