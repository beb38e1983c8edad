"""Sends a thousand records to stream `logs`: `python examples/produce.py [ENDPOINT]`."""

import asyncio
import sys

import braid


async def main(endpoint: str | None = None) -> None:
    async with braid.connect(endpoint, client_id="example-producer") as mesh, mesh.producer("logs") as producer:
        records = [braid.Outgoing(b"line %d" % number, key=b"host-%d" % (number % 10)) for number in range(1_000)]
        receipts = await producer.send_many(records)
    print(f"sent {len(receipts)} records; the last lies at {receipts[-1].cluster} {receipts[-1].topic}")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:2]))
