"""A drill's producing process: sends small records at a steady rate, and writes acknowledged ones to the ledger.

Run as `python -m braid.drill.producer`. When its standard input ends, it waits until everything sent is acknowledged,
and ends.
"""

import asyncio
import itertools
import sys
import time
from collections.abc import Sequence

from braid.client.producing.producer import Producer
from braid.drill.arguments import ProcessSpec, read_arguments
from braid.drill.broker_watch import BrokerWatch
from braid.drill.clients import DrillMesh, run_gated, until_told_to_end
from braid.drill.evidence import ledger_line
from braid.drill.journal import Journal
from braid.kernel.errors import BraidError
from braid.kernel.limits.registry.drill import (
    DRILL_END_SECONDS,
    DRILL_KEYS,
    DRILL_RECORD_BYTES,
    DRILL_TICK_SECONDS,
    DRILL_WAITING_MAX,
)


class Load:
    """Sends records to each lane in turn.

    Args:
        producer: A producer of the drill's stream.
        ledger: Receives a line for each acknowledged record.
        lanes: The lanes to send to.
    """

    def __init__(self, producer: Producer, ledger: Journal, lanes: Sequence[str]) -> None:
        self._producer = producer
        self._ledger = ledger
        self._lanes = itertools.cycle(lanes)
        self._numbers = itertools.count()
        self._sending: set[asyncio.Task[None]] = set()

    async def run(self, rate_per_s: int) -> None:
        """Sends until cancelled; unacknowledged records are bounded."""
        due = time.monotonic()
        while True:
            while due <= time.monotonic():
                due += 1 / rate_per_s
                if len(self._sending) < DRILL_WAITING_MAX:
                    self._send()
            await asyncio.sleep(DRILL_TICK_SECONDS)

    async def settle(self) -> None:
        """Waits briefly for acknowledgements: a record without one cannot count as lost."""
        if self._sending:
            await asyncio.wait(self._sending, timeout=DRILL_END_SECONDS)
        for task in self._sending:
            task.cancel()
        await asyncio.gather(*self._sending, return_exceptions=True)

    def _send(self) -> None:
        task = asyncio.ensure_future(self._acknowledged(next(self._numbers), next(self._lanes)))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _acknowledged(self, number: int, lane: str) -> None:
        value, key = f"{number:0{DRILL_RECORD_BYTES}d}".encode(), b"%d" % (number % DRILL_KEYS)
        try:
            receipt = await self._producer.send(value, key=key, lane=lane)
        except BraidError as error:
            print(f"record {number} was not acknowledged: {error}", file=sys.stderr, flush=True)
            return
        await self._ledger.write(ledger_line(receipt.id, receipt.cluster, lane, time.monotonic_ns()))


async def produce(spec: ProcessSpec) -> None:
    """Sends until standard input ends."""
    async with Journal(spec.file) as ledger, DrillMesh(spec) as mesh, mesh.producer(spec.stream) as producer:
        load, watch = Load(producer, ledger, spec.lanes), BrokerWatch(mesh, spec)
        tasks = [asyncio.ensure_future(load.run(spec.rate_per_s)), asyncio.ensure_future(watch.run())]
        ending = asyncio.ensure_future(until_told_to_end(watch.obey))
        await asyncio.wait([ending, *tasks], return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        await load.settle()
        await ending
        for task in tasks:
            if not task.cancelled():
                task.result()  # it ended by itself: raises why


if __name__ == "__main__":
    run_gated(produce(read_arguments("braid.drill.producer", sys.argv[1:])))
