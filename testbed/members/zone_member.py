"""A process in a zone: it sends records with and without keys, handles the stream's records, and writes a ledger.

Run as `python -m testbed.members.zone_member ENDPOINT STREAM GROUP ZONE LEDGER`. Each line of the ledger is written at
once, so it survives `kill -9`: `a TIME CLUSTER RECORD` (acknowledged), `h TIME CLUSTER RECORD` (handled) and
`b TIME CROSSED ALL` (bytes so far). Times are seconds of the machine's monotonic clock. Once its standard input ends,
it sends nothing more and goes on handling.
"""

import asyncio
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple, Self

import braid

RECORD_BYTES: Final = 2_000
SEND_SECONDS: Final = 0.02  # two streams of three processes share two cores
BYTES_SECONDS: Final = 0.25
KEYS: Final = 100
DELIVERY_SECONDS: Final = 60.0
ACKNOWLEDGED, HANDLED, BYTES = "a", "h", "b"


class Line(NamedTuple):
    """One line of a ledger; `what` is a record, or the count of all bytes beside those that crossed zones."""

    kind: str
    at: float
    where: str
    what: str

    @classmethod
    def read(cls, path: Path) -> list[Self]:
        """The whole lines of a file."""
        lines = path.read_text().splitlines(keepends=True) if path.exists() else []
        split = (line.split() for line in lines if line.endswith("\n"))
        return [cls(kind, float(at), where, what) for kind, at, where, what in split]


class ZoneMember:
    """A producer and a consumer of one process."""

    def __init__(self, stream: str, group: str, zone: str, write: Callable[[str], object]) -> None:
        self._stream = stream
        self._group = group
        self._zone = zone
        self._write = write
        self._quiet = asyncio.Event()

    async def run(self, endpoint: str) -> None:
        """Works until it is killed."""
        async with (
            braid.connect(endpoint, client_id=f"{self._group}-{self._zone}", zone=self._zone) as mesh,
            asyncio.TaskGroup() as tasks,
        ):
            tasks.create_task(self._consume(mesh))
            tasks.create_task(self._count())
            tasks.create_task(self._listen())
            for keyed in (True, False):
                tasks.create_task(self._produce(mesh, keyed=keyed))

    async def _produce(self, mesh: braid.Mesh, *, keyed: bool) -> None:
        number = 0
        async with mesh.producer(self._stream, delivery_timeout_seconds=DELIVERY_SECONDS) as producer:
            while not self._quiet.is_set():
                number += 1
                name = f"{self._zone}-{'keyed' if keyed else 'keyless'}-{number}"
                key = f"{self._zone}-{number % KEYS}".encode() if keyed else None
                receipt = await producer.send(name.ljust(RECORD_BYTES).encode(), key=key)
                self._tell(ACKNOWLEDGED, receipt.cluster, name)
                await asyncio.sleep(SEND_SECONDS)

    async def _consume(self, mesh: braid.Mesh) -> None:
        async def handle(record: braid.Record) -> None:
            self._tell(HANDLED, record.cluster, (record.value or b"").decode().rstrip())

        async with mesh.consumer([self._stream], group=self._group, lanes={"live": 1}) as consumer:
            await consumer.run(handle)

    async def _count(self) -> None:
        while True:
            counted = braid.zone_bytes()
            crossed = sum(each.bytes for each in counted if each.cross_zone)
            self._tell(BYTES, str(crossed), str(sum(each.bytes for each in counted)))
            await asyncio.sleep(BYTES_SECONDS)

    async def _listen(self) -> None:
        reader = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        await reader.read()
        self._quiet.set()

    def _tell(self, kind: str, where: str, what: str) -> None:
        self._write(f"{kind} {time.monotonic():.4f} {where} {what}\n")


async def main(endpoint: str, stream: str, group: str, zone: str, ledger: str) -> None:
    """Works until it is killed."""
    with Path(ledger).open("ab", buffering=0) as file:  # noqa: ASYNC230  # each line at once, whatever befalls it
        await ZoneMember(stream, group, zone, lambda line: file.write(line.encode())).run(endpoint)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:6]))
