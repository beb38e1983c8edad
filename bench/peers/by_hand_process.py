"""Half of the peer's load under lost clusters: what `load_process` does, with plain aiokafka and two clusters by hand.

It is told and tells the same, and writes the same ledger. Each producer sends to the first cluster with aiokafka's own
defaults; when a record fails there it goes on with the second one for good, and sends anew what was not acknowledged.
Each consumer reads both clusters all the time, in a group, and commits by itself as aiokafka does by default.
"""

import asyncio
import contextlib
import gc
import logging
import sys
import time
from array import array
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaError

from bench.harness.load_process import (
    CONSUMERS,
    ELSEWHERE,
    END,
    GROUP,
    KEYS,
    NUMBER_BITS,
    PRODUCERS,
    QUIET,
    READ,
    RECORD_BYTES,
    RECORDS_PER_SECOND,
    ROUND_SECONDS,
    TOLD_SECONDS,
    TROUBLE,
    Ledger,
    orders,
    place,
    told,
)

POLL_MS: Final = 500
STOP_SECONDS: Final = 5.0  # then a client is let go, whatever its cluster still owes it


class Place(NamedTuple):
    """Where the records go: a cluster's name, its bootstrap, the topic there."""

    cluster: str
    bootstrap: str
    topic: str


def places(endpoint: str, name: str) -> list[Place]:
    """From `east=127.0.0.1:9092 west=…`, the first one first; each has a topic of its own."""
    clusters = (each.split("=", 1) for each in endpoint.split(" "))
    return [Place(cluster, bootstrap, f"{name}.{number}") for number, (cluster, bootstrap) in enumerate(clusters)]


class Pair:
    """A producer of each cluster, and which of them is used.

    Attributes:
        owed: Ids of what is to be sent yet, or again.
        in_flight: Records handed over whose fate is not known.
    """

    def __init__(self, producers: Sequence[AIOKafkaProducer]) -> None:
        self.used = 0
        self.producers = producers
        self.owed: list[int] = []
        self.in_flight = 0

    def failed(self, where: int) -> bool:
        """A record failed there. Returns whether there is somewhere else to go."""
        self.used = max(self.used, min(where + 1, len(self.producers) - 1))
        return where < self.used


class ByHand:
    """Producers and consumers, and what they saw."""

    def __init__(self, number: int, tell: Callable[[str], None]) -> None:
        self._first = number * PRODUCERS
        self._tell = tell
        self._quiet = asyncio.Event()
        self._acked, self._acked_at, self._acked_by = array("Q"), array("d"), array("B")
        self._read, self._read_from = array("Q"), array("Q")

    async def run(self, targets: Sequence[Place], ordered: asyncio.StreamReader) -> Ledger:
        """Works until it is told to end."""
        tasks = [asyncio.create_task(self._consume(each)) for each in targets for _ in range(CONSUMERS)]
        tasks.append(asyncio.create_task(self._tell_progress()))
        producing = [asyncio.create_task(self._produce(targets, self._first + each)) for each in range(PRODUCERS)]
        await told(ordered, QUIET)
        self._quiet.set()
        await asyncio.gather(*producing)
        self._tell(f"{QUIET} {len(self._acked)}")
        await told(ordered, END)
        for task in tasks:
            task.cancel()
        for task in tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task
        return Ledger(
            np.array(self._acked, np.uint64),
            np.array(self._acked_at, np.float64),
            np.array(self._acked_by, np.uint8),
            np.array(self._acked_by, np.uint16),
            np.array(self._read, np.uint64),
            np.array(self._read_from, np.uint64),
            np.array([each.cluster for each in targets], np.str_),
        )

    async def _produce(self, targets: Sequence[Place], number: int) -> None:
        """One loop: what is due, and what failed, is sent in order; aiokafka makes it wait while its buffer is full."""
        pair = Pair([AIOKafkaProducer(bootstrap_servers=each.bootstrap, acks="all") for each in targets])
        for producer in pair.producers:
            await producer.start()
        began, done = time.monotonic(), 0
        while not self._quiet.is_set() or pair.owed or pair.in_flight:
            if not self._quiet.is_set():
                due = int((time.monotonic() - began) * RECORDS_PER_SECOND)
                pair.owed += [number << NUMBER_BITS | each for each in range(done, due)]
                done = due
            await self.send(pair, targets)
            await asyncio.sleep(ROUND_SECONDS)
        for producer in pair.producers:
            await _stopped(producer.stop())

    async def send(self, pair: Pair, targets: Sequence[Place]) -> None:
        """Sends what is owed to the cluster in use; the rest waits for the next round after an error."""
        owed, pair.owed = pair.owed, []
        for number, each in enumerate(owed):
            where = pair.used
            value, key = b"%0*d" % (RECORD_BYTES, each), b"%d" % (each % KEYS)
            try:
                future = await pair.producers[where].send(targets[where].topic, value, key)
            except KafkaError as error:
                self._failed(pair, where, each, error)
                pair.owed += owed[number + 1 :]
                return
            pair.in_flight += 1
            future.add_done_callback(partial(self._settled, pair, targets, where, each))

    def _settled(
        self, pair: Pair, targets: Sequence[Place], where: int, identity: int, future: asyncio.Future[object]
    ) -> None:
        pair.in_flight -= 1
        error = future.exception()
        if error is not None:
            self._failed(pair, where, identity, error)
            return
        if not self._acked_by or self._acked_by[-1] != where:
            self._tell(f"{ELSEWHERE} {targets[where].cluster}")
        self._acked.append(identity)
        self._acked_at.append(time.monotonic())
        self._acked_by.append(where)

    def _failed(self, pair: Pair, where: int, identity: int, error: BaseException) -> None:
        if pair.failed(where):
            pair.owed.append(identity)
        else:
            self._tell(f"{TROUBLE} {type(error).__name__}: {error}")

    async def _consume(self, source: Place) -> None:
        consumer = AIOKafkaConsumer(
            source.topic, bootstrap_servers=source.bootstrap, group_id=GROUP, auto_offset_reset="earliest"
        )
        await consumer.start()
        try:
            while True:
                try:
                    found = await consumer.getmany(timeout_ms=POLL_MS)
                except KafkaError as error:
                    self._tell(f"{TROUBLE} {type(error).__name__}: {error}")
                    continue
                for records in found.values():
                    for record in records:
                        self._read.append(int(record.value or b"0"))
                        self._read_from.append(place(record.topic, record.partition, record.offset))
        finally:
            await _stopped(consumer.stop())

    async def _tell_progress(self) -> None:
        while True:
            self._tell(f"{READ} {len(self._read)}")
            await asyncio.sleep(TOLD_SECONDS)


async def _stopped(stopping: Awaitable[None]) -> None:
    with contextlib.suppress(KafkaError, TimeoutError):
        async with asyncio.timeout(STOP_SECONDS):
            await stopping


async def main(endpoint: str, name: str, number: int, path: Path) -> None:
    """Until it is told to end."""
    gc.freeze()  # as the load beside it does
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # a dead cluster is a line each time it is tried
    by_hand = ByHand(number, lambda line: print(line, flush=True))
    (await by_hand.run(places(endpoint, name), await orders())).write(path)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4])))
