"""A member process: consumes, and logs what it did with each record before it says so to the group.

`python -m tests.e2e.chaos.member NAME ENDPOINT LOG`; SIGTERM makes it leave in order.
"""

import asyncio
import signal
import sys
from pathlib import Path
from typing import Final

import braid
from testbed.ground.entering import RETRY_SECONDS, entered, tell_when_asked
from testbed.ground.journals import SyncedLog
from testbed.ground.load import GROUP, LEASE_SECONDS, STREAM, fate_of

RETRY: Final = braid.Retry(max_attempts=2, backoff_seconds=(0.05, 0.5))


class PoisonedError(Exception):
    """The error that the handler raises for a poison record."""


class Working:
    """One life of the process."""

    def __init__(self, name: str, log: SyncedLog) -> None:
        self._name = name
        self._log = log
        self._consumer: braid.Consumer | None = None
        self._leaving = False
        self._notes: set[asyncio.Task[None]] = set()

    async def run(self, endpoint: str) -> None:
        """Consumes until told to leave."""
        async with entered(endpoint, self._name) as mesh:
            while not self._leaving:
                try:
                    await self._consume(mesh)
                except braid.BraidError as error:
                    await self._log.note("trouble", text=str(error))
                    await asyncio.sleep(RETRY_SECONDS)
        if self._notes:
            await asyncio.wait(self._notes)

    def leases(self) -> list[braid.Lease]:
        """The leases that the member works on."""
        return [] if self._consumer is None else self._consumer.leases()

    async def leave(self) -> None:
        """Drains, commits, releases."""
        self._leaving = True
        if self._consumer is not None:
            await self._consumer.close()

    async def _consume(self, mesh: braid.Mesh) -> None:
        async with mesh.consumer(
            [STREAM],
            group=GROUP,
            retry=RETRY,
            lease_seconds=LEASE_SECONDS,
            on_assigned=lambda leases: self._tell("assigned", leases),
            on_revoked=lambda leases: self._tell("revoked", leases),
        ) as consumer:
            self._consumer = consumer
            if not self._leaving:
                await consumer.run(self._handle)

    async def _handle(self, record: braid.Record) -> None:
        value = (record.value or b"").decode()
        fate = fate_of(value.encode())
        if fate == "poison" or (fate == "flaky" and record.attempt == 1):
            raise PoisonedError(value)
        await self._log.note(
            "rejected" if fate == "refused" else "processed",
            value=value,
            cluster=record.cluster,
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
            epoch=record.epoch,
        )
        if fate == "refused":
            record.reject("not ours")

    def _tell(self, kind: str, leases: list[str]) -> None:
        task = asyncio.ensure_future(self._log.note(kind, text=" ".join(leases)))
        self._notes.add(task)
        task.add_done_callback(self._notes.discard)


async def main(name: str, endpoint: str, path: Path) -> None:
    """One life, until SIGTERM."""
    async with SyncedLog(path) as log:
        await log.note("started")
        working = Working(name, log)
        tell_when_asked(working.leases)
        leaving: list[asyncio.Task[None]] = []
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, lambda: leaving.append(asyncio.create_task(working.leave())))
        await working.run(endpoint)
        if leaving:
            await leaving[0]
        await log.note("ended")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], Path(sys.argv[3])))
