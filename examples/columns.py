"""Counts the records of stream `logs` by key, as columns: `python examples/columns.py 127.0.0.1:7401`."""

import asyncio
import sys
from collections import Counter

import braid


async def main(endpoint: str, wanted: int = 1_000) -> None:
    keys: Counter[bytes] = Counter()
    async with braid.connect(endpoint) as mesh, mesh.consumer(["logs"], group="example-columns") as consumer:
        async for batch in consumer.batches():
            keys.update(batch.records["key"].to_pylist())
            batch.ack()
            if keys.total() >= wanted:
                break
    print(f"counted {keys.total()} records under {len(keys)} keys")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
