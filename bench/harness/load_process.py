"""Half of the load that moves and losses are played under: two producers and two consumers, in a process of its own.

Told by its standard input: `quiet` ends the sending, `end` the process. It tells, by its standard output and in lines:
`elsewhere CLUSTER` (an acknowledgement from another cluster than the one before), `read N` (records so far), `quiet N`
(everything sent is settled), `trouble …` (an error that an application saw). Its ledger is one file, see `Ledger`.
"""

import asyncio
import contextlib
import gc
import sys
import time
from array import array
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

import braid
from braid.client.records.outgoing import Outgoing
from braid.kernel.errors import BraidError

PRODUCERS: Final = 2
CONSUMERS: Final = 2
RECORDS_PER_SECOND: Final = 5_000  # of each producer
ROUND_SECONDS: Final = 0.005
TOLD_SECONDS: Final = 0.5
RECORD_BYTES: Final = 100
KEYS: Final = 1_000
NUMBER_BITS: Final = 40  # of an id below its producer, of a place for the offset
PARTITION_BITS: Final = 8
GROUP: Final = "bench"
LANE: Final = "live"
DELIVERY_SECONDS: Final = 120.0
QUIET, END, ELSEWHERE, READ, TROUBLE = "quiet", "end", "elsewhere", "read", "trouble"


class Ledger(NamedTuple):
    """The observations of one process's applications, in columns.

    Attributes:
        acked: Ids of acknowledged records: the producer's number above its sequence. Parallel to the next three.
        acked_at: When, in seconds of the machine's monotonic clock.
        acked_by: The cluster, as an index of `clusters`.
        acked_in: The channel's generation.
        read: Ids of delivered records, each time anew. Parallel to the next.
        read_from: Where it lay, see `place`.
        clusters: Names.
    """

    acked: NDArray[np.uint64]
    acked_at: NDArray[np.float64]
    acked_by: NDArray[np.uint8]
    acked_in: NDArray[np.uint16]
    read: NDArray[np.uint64]
    read_from: NDArray[np.uint64]
    clusters: NDArray[np.str_]

    def write(self, path: Path) -> None:
        """Writes the file."""
        np.savez(path, **self._asdict())

    @classmethod
    def read_file(cls, path: Path) -> Self:
        """The ledger of a file."""
        with np.load(path) as columns:
            return cls(**{name: columns[name] for name in cls._fields})


def generation(topic: str) -> int:
    """The generation of the channel that a topic belongs to."""
    return int(topic.rpartition(".")[2])


def place(topic: str, partition: int, offset: int) -> int:
    """A number that no other place of a stream's lane has: generation of the channel, partition, offset."""
    return (generation(topic) << PARTITION_BITS | partition) << NUMBER_BITS | offset


class Applications:
    """Producers and consumers of one stream, and what they saw."""

    def __init__(self, number: int, tell: Callable[[str], None]) -> None:
        self._first = number * PRODUCERS
        self._tell = tell
        self._quiet = asyncio.Event()
        self._acked, self._acked_at, self._acked_by, self._acked_in = array("Q"), array("d"), array("B"), array("H")
        self._read, self._read_from = array("Q"), array("Q")
        self._clusters: dict[str, int] = {}

    async def run(self, endpoint: str, stream: str, orders: asyncio.StreamReader) -> Ledger:
        """Works until it is told to end."""
        async with braid.connect(endpoint, client_id=f"load-{self._first}") as mesh:
            consuming = [asyncio.create_task(self._consume(mesh, stream)) for _ in range(CONSUMERS)]
            telling = asyncio.create_task(self._tell_progress())
            producing = [
                asyncio.create_task(self._produce(mesh, stream, self._first + each)) for each in range(PRODUCERS)
            ]
            await told(orders, QUIET)
            self._quiet.set()
            await asyncio.gather(*producing)
            self._tell(f"{QUIET} {len(self._acked)}")
            await told(orders, END)
            for task in (*consuming, telling):
                task.cancel()
            for task in (*consuming, telling):
                with contextlib.suppress(asyncio.CancelledError):
                    await task
        return Ledger(
            np.array(self._acked, np.uint64),
            np.array(self._acked_at, np.float64),
            np.array(self._acked_by, np.uint8),
            np.array(self._acked_in, np.uint16),
            np.array(self._read, np.uint64),
            np.array(self._read_from, np.uint64),
            np.array(list(self._clusters), np.str_),
        )

    async def _produce(self, mesh: braid.Mesh, stream: str, producer: int) -> None:
        sending: set[asyncio.Task[None]] = set()
        async with mesh.producer(stream, delivery_timeout_seconds=DELIVERY_SECONDS) as sender:
            began, number = time.monotonic(), 0
            while not self._quiet.is_set():
                due = int((time.monotonic() - began) * RECORDS_PER_SECOND)
                ids = [producer << NUMBER_BITS | each for each in range(number, due)]
                number = due
                sending.add(task := asyncio.create_task(self._send(sender, ids)))
                task.add_done_callback(sending.discard)
                await asyncio.sleep(ROUND_SECONDS)
            await asyncio.gather(*sending)

    async def _send(self, sender: braid.Producer, ids: list[int]) -> None:
        outgoing = [Outgoing(b"%0*d" % (RECORD_BYTES, each), b"%d" % (each % KEYS), LANE) for each in ids]
        try:
            receipts = await sender.send_many(outgoing)
        except BraidError as error:
            self._tell(f"{TROUBLE} {type(error).__name__}: {error}")
            return
        now = time.monotonic()
        for identity, receipt in zip(ids, receipts, strict=True):
            cluster = self._clusters.setdefault(receipt.cluster, len(self._clusters))
            if not self._acked_by or self._acked_by[-1] != cluster:
                self._tell(f"{ELSEWHERE} {receipt.cluster}")
            self._acked.append(identity)
            self._acked_at.append(now)
            self._acked_by.append(cluster)
            self._acked_in.append(receipt.channel.generation)

    async def _consume(self, mesh: braid.Mesh, stream: str) -> None:
        try:
            async with mesh.consumer([stream], group=f"{GROUP}-{stream}", lanes={LANE: 1}) as consumer:
                async for record in consumer:
                    self._read.append(int(record.value or b"0"))
                    self._read_from.append(place(record.topic, record.partition, record.offset))
                    record.ack()
        except BraidError as error:
            self._tell(f"{TROUBLE} {type(error).__name__}: {error}")

    async def _tell_progress(self) -> None:
        while True:
            self._tell(f"{READ} {len(self._read)}")
            await asyncio.sleep(TOLD_SECONDS)


async def told(orders: asyncio.StreamReader, order: str) -> None:
    """Waits for an order; the end of them is each."""
    while (line := (await orders.readline()).decode()) and line.strip() != order:
        pass


async def orders() -> asyncio.StreamReader:
    """The orders to this process: its standard input."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    return reader


async def main(endpoint: str, stream: str, number: int, path: Path) -> None:
    """Until it is told to end."""
    gc.freeze()  # to look through all that was loaded, again and again, would stop everything here for 30 ms and more
    applications = Applications(number, lambda line: print(line, flush=True))
    run: Awaitable[Ledger] = applications.run(endpoint, stream, await orders())
    (await run).write(path)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4])))
