"""A producer process: sends records of its own without pause, and logs what it sends and what is acknowledged.

`python -m tests.e2e.chaos.producer NAME ENDPOINT LOG`; SIGTERM ends it once its sends are settled.
"""

import asyncio
import signal
import sys
from pathlib import Path

import braid
from testbed.ground.entering import RETRY_SECONDS, entered, tell_when_asked
from testbed.ground.journals import SyncedLog
from testbed.ground.load import (
    BURST,
    BURST_SECONDS,
    DELIVERY_SECONDS,
    KEYS,
    STREAM,
    UNACKNOWLEDGED_MAX,
    lane_of,
)


class Sending:
    """One life of the process."""

    def __init__(self, name: str, log: SyncedLog, quiet: asyncio.Event) -> None:
        self._name = name
        self._log = log
        self._quiet = quiet
        self._count = 0
        self._sends: set[asyncio.Task[None]] = set()

    @property
    def unacknowledged(self) -> int:
        """Sends under way."""
        return len(self._sends)

    async def run(self, endpoint: str) -> None:
        """Sends until told to be quiet."""
        async with entered(endpoint, self._name) as mesh:
            while not self._quiet.is_set():
                try:
                    async with mesh.producer(STREAM, delivery_timeout_seconds=DELIVERY_SECONDS) as producer:
                        await self._produce(producer)
                except braid.BraidError as error:
                    await self._log.note("trouble", text=str(error))
                    await asyncio.sleep(RETRY_SECONDS)

    async def _produce(self, producer: braid.Producer) -> None:
        while not self._quiet.is_set():
            if len(self._sends) < UNACKNOWLEDGED_MAX:
                self._burst(producer)
            await asyncio.sleep(BURST_SECONDS)
        while self._sends:
            await asyncio.wait(self._sends)

    def _burst(self, producer: braid.Producer) -> None:
        for _ in range(BURST):
            self._count += 1
            value = f"{self._name}:{producer.id}:{self._count}".encode()
            key = b"key-%d" % (self._count % KEYS) if self._count % 3 else None
            task = asyncio.create_task(self._send(producer, value, key))
            self._sends.add(task)
            task.add_done_callback(self._sends.discard)

    async def _send(self, producer: braid.Producer, value: bytes, key: bytes | None) -> None:
        text = value.decode()
        await self._log.note("sent", value=text)
        try:
            receipt = await producer.send(value, key=key, lane=lane_of(value))
        except braid.BraidError as error:
            await self._log.note("unknown", value=text, text=f"{type(error).__name__}: {error}")
            return
        await self._log.note(
            "acked",
            value=text,
            cluster=receipt.cluster,
            topic=receipt.topic,
            partition=receipt.partition,
            offset=receipt.offset,
        )


async def main(name: str, endpoint: str, path: Path) -> None:
    """One life, until SIGTERM."""
    quiet = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, quiet.set)
    async with SyncedLog(path) as log:
        await log.note("started")
        sending = Sending(name, log, quiet)
        tell_when_asked(lambda: f"{sending.unacknowledged} records are not acknowledged")
        await sending.run(endpoint)
        await log.note("ended")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], Path(sys.argv[3])))
