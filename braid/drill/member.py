"""A drill's consuming process: writes each record it handles to its own sink, synced before the record is done.

Run as `python -m braid.drill.member`. It commits and leaves when its standard input ends.
"""

import asyncio
import sys
import time

from braid.client.records.record import Record
from braid.drill.arguments import ProcessSpec, read_arguments
from braid.drill.clients import DrillMesh, run_gated, until_told_to_end
from braid.drill.evidence import sink_line
from braid.drill.journal import Journal


async def consume(spec: ProcessSpec) -> None:
    """Consumes until standard input ends."""
    async with Journal(spec.file) as sink, DrillMesh(spec) as mesh:

        async def handle(record: Record) -> None:
            await sink.write(sink_line(record.id, record.lease.name, record.epoch, time.monotonic_ns()))

        async with mesh.consumer([spec.stream], group=spec.stream) as consumer:
            running = asyncio.ensure_future(consumer.run(handle))
            ending = asyncio.ensure_future(until_told_to_end())
            await asyncio.wait([running, ending], return_when=asyncio.FIRST_COMPLETED)
            ending.cancel()
        await running


if __name__ == "__main__":
    run_gated(consume(read_arguments("braid.drill.member", sys.argv[1:])))
