"""One consuming process: handles records of its lanes and notes them in a sink of its own, synced before the commit.

Its handler gives up damaged records until SIGHUP mends it. SIGUSR1 pauses its lane `bulk`, SIGUSR2 resumes it, SIGTERM
ends it in order.
"""

import argparse
import asyncio
import json
import signal
import sys
import time
from pathlib import Path
from typing import Final

import braid
from braid.drill.journal import Journal
from demo.traffic.shipper import STREAM

RETRY: Final = braid.Retry(max_attempts=3, backoff_seconds=(0.05, 0.2))
CONCURRENCY: Final = 256
IN_FLIGHT_BYTES: Final = 2 << 20  # little: what is not handled yet stays with its cluster, not in memory here
PAUSED_LANE: Final = "bulk"


class Member:
    """The demo's application: how it handles a record.

    Args:
        sink: Gets a line for each record.
    """

    def __init__(self, sink: Journal) -> None:
        self._sink = sink
        self._mended = False

    def mend(self) -> None:
        """From now on a damaged observation is kept as the text it is."""
        self._mended = True

    async def handle(self, record: braid.Record) -> None:
        """Reads the observation and notes it. Raises `ValueError` when it is damaged, until the handler is mended."""
        at_ns, age_ms = time.monotonic_ns(), max(0, time.time_ns() // 1_000_000 - record.ingested_at)
        try:
            json.loads(record.value or b"")
        except ValueError:
            if not self._mended:
                raise
        lease = f"{record.stream}/{record.lane}/{record.topic.rpartition('.')[2]}/{record.partition}"
        await self._sink.write(f"{record.id} {lease} {record.epoch} {at_ns} {age_ms}")


async def consume(options: argparse.Namespace) -> None:
    """Consumes until SIGTERM, then drains, commits and leaves."""
    ending = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, ending.set)
    lanes = {name: int(share) for name, _, share in (lane.partition("=") for lane in options.lane)}
    async with Journal(options.sink) as sink, braid.connect(options.endpoint, client_id=options.sink.stem) as mesh:
        member = Member(sink)
        consuming = mesh.consumer(
            [STREAM],
            group=options.group,
            lanes=lanes,
            concurrency=CONCURRENCY,
            retry=RETRY,
            max_in_flight_bytes=IN_FLIGHT_BYTES,
        )
        async with consuming as consumer:
            loop.add_signal_handler(signal.SIGUSR1, consumer.pause, PAUSED_LANE)
            loop.add_signal_handler(signal.SIGUSR2, consumer.resume, PAUSED_LANE)
            loop.add_signal_handler(signal.SIGHUP, member.mend)
            running = asyncio.ensure_future(consumer.run(member.handle))
            stopping = asyncio.ensure_future(ending.wait())
            await asyncio.wait([running, stopping], return_when=asyncio.FIRST_COMPLETED)
            stopping.cancel()
        await running


def main(arguments: list[str]) -> None:
    """Entry of `python -m demo.traffic.member`."""
    parser = argparse.ArgumentParser(prog="demo.traffic.member")
    parser.add_argument("--endpoint", required=True)
    parser.add_argument("--group", required=True)
    parser.add_argument("--sink", type=Path, required=True, help="file that gets a line for each record")
    parser.add_argument("--lane", action="append", required=True, help="NAME=SHARE")
    asyncio.run(consume(parser.parse_args(arguments)))


if __name__ == "__main__":
    main(sys.argv[1:])
