"""One consuming process: handles records of its lanes and notes them in a sink of its own, synced before the commit.

It also says, several times a second, which leases it holds and how old the oldest unfinished record is. SIGUSR1 pauses
its lane `bulk`, SIGUSR2 resumes it, SIGTERM ends it in order.
"""

import argparse
import asyncio
import contextlib
import json
import signal
import sys
import time
from pathlib import Path
from typing import Final

import braid
from demo.shipper import STREAM
from demo.sink import Sink

STATUS_SECONDS: Final = 0.2
RETRY: Final = braid.Retry(max_attempts=3, backoff_seconds=(0.05, 0.2))
CONCURRENCY: Final = 256
IN_FLIGHT_BYTES: Final = 2 << 20  # little: what is not handled yet stays with its cluster, not in memory here
PAUSED_LANE: Final = "bulk"
_ORIGIN: Final = "braid-dl-origin-id"


class Member:
    """What the demo's application does with a record, and what it tells about itself.

    Args:
        sink: Gets a line for each record.
        lane_of_letters: Whether it reads dead letters, and so notes the ids these had at first.
    """

    def __init__(self, sink: Sink, *, lane_of_letters: bool) -> None:
        self._sink = sink
        self._lane_of_letters = lane_of_letters
        self.lag_seconds = 0.0
        self.lag_seconds_max = 0.0

    async def handle(self, record: braid.Record) -> None:
        """Reads the observation and notes it. Raises `ValueError` when it is damaged."""
        at_ns, age_ms = time.monotonic_ns(), max(0, time.time_ns() // 1_000_000 - record.ingested_at)
        identity = record.id
        if self._lane_of_letters:
            identity = record.headers[_ORIGIN].decode("ascii")
        else:
            json.loads(record.value or b"")
        lease = f"{record.stream}/{record.lane}/{record.topic.rpartition('.')[2]}/{record.partition}"
        await self._sink.write(f"{identity} {lease} {record.epoch} {at_ns} {age_ms}")

    def status(self, consumer: braid.Consumer) -> str:
        """What it holds now, and its lag as the SDK sees it, as JSON."""
        leases = consumer.leases()
        self.lag_seconds = max((lease.lag_seconds for lease in leases), default=0.0)
        self.lag_seconds_max = max(self.lag_seconds_max, self.lag_seconds)
        return json.dumps(
            {
                "at_ns": time.monotonic_ns(),
                "leases": [lease.name for lease in leases],
                "lag_seconds": round(self.lag_seconds, 3),
                "lag_seconds_max": round(self.lag_seconds_max, 3),
            }
        )


async def consume(options: argparse.Namespace) -> None:
    """Consumes until SIGTERM, then drains, commits and leaves."""
    ending = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, ending.set)
    lanes = {name: int(share) for name, _, share in (lane.partition("=") for lane in options.lane)}
    async with Sink(options.sink) as sink, braid.connect(options.endpoint, client_id=options.sink.stem) as mesh:
        member = Member(sink, lane_of_letters="dlq" in lanes)
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
            running = asyncio.ensure_future(consumer.run(member.handle))
            telling = asyncio.ensure_future(tell(member, consumer, options.status))
            stopping = asyncio.ensure_future(ending.wait())
            await asyncio.wait([running, telling, stopping], return_when=asyncio.FIRST_COMPLETED)
            stopping.cancel()
            telling.cancel()
            if telling.done() and not telling.cancelled():
                telling.result()
        await running
        with contextlib.suppress(asyncio.CancelledError):
            await telling


async def tell(member: Member, consumer: braid.Consumer, path: Path) -> None:
    """Keeps the status file fresh; readers see it whole or not at all."""
    beside = path.with_suffix(".next")
    while True:
        beside.write_text(member.status(consumer))
        beside.replace(path)
        await asyncio.sleep(STATUS_SECONDS)


def main(arguments: list[str]) -> None:
    """Entry of `python -m demo.member`."""
    parser = argparse.ArgumentParser(prog="demo.member")
    parser.add_argument("--endpoint", required=True)
    parser.add_argument("--group", required=True)
    parser.add_argument("--sink", type=Path, required=True, help="file that gets a line for each record")
    parser.add_argument("--status", type=Path, required=True, help="file that says how the member is")
    parser.add_argument("--lane", action="append", required=True, help="NAME=SHARE")
    asyncio.run(consume(parser.parse_args(arguments)))


if __name__ == "__main__":
    main(sys.argv[1:])
