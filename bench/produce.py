"""Producing until every record is acknowledged, beside plain aiokafka on the same broker: `python -m bench.produce`.

All wait for `acks=all` of an idempotent producer with the same linger and batch size. Braid adds its three headers to
each record and keeps a copy until the acknowledgement; a row shows what the headers alone cost the peer, another what
the peer reaches when the application builds the batches by hand.
"""

import asyncio
import sys
from typing import Final

from aiokafka import AIOKafkaProducer

from bench.harness.arguments import Asked
from bench.harness.broker import cores, play_on_a_broker
from bench.harness.contest import Contestant, play
from bench.harness.fixed_mesh import BATCH_BYTES, PARTITIONS, STREAM, TOPIC, FixedMesh
from bench.harness.rounds import rows, verdict
from bench.harness.tables import Table, made_with
from braid.client.producing.producer import Producer
from braid.client.records.outgoing import Outgoing
from braid.kafka.cluster import AioKafka

PEER: Final = "aiokafka send, acknowledged at the end"
AGAIN: Final = "aiokafka send again"
LINGER_MS: Final = 5
TASKS: Final = 1_000
RUN: Final = 100  # keyless records in a row to one partition, about a sticky batch
VALUE: Final = bytes(100)
HEADERS: Final = (("braid-id", b"01J00000000000000000000000:1234567"), ("braid-ts", b"1767225600000"),
                  ("braid-lane", b"live"))  # fmt: skip


class Contest:
    """Producers of a number of records."""

    def __init__(self, bootstrap: str, records: int) -> None:
        self._bootstrap = bootstrap
        self._records = records

    def contestants(self) -> dict[str, Contestant]:
        """By name."""
        return {
            PEER: self.send,
            AGAIN: self.send,
            "aiokafka send with Braid's headers": self.send_with_headers,
            "aiokafka send_batch, built by hand": self.send_batches,
            f"aiokafka send_and_wait, {TASKS:,} tasks": self.send_and_wait,
            "braid send_many": self.braid_send_many,
            f"braid send, {TASKS:,} tasks": self.braid_send,
        }

    async def send(self) -> int:
        """The peer's ordinary way at its best: the partition is given, futures are awaited together."""
        return await self._send([])

    async def send_with_headers(self) -> int:
        """The same, with as many header bytes as Braid writes."""
        return await self._send(list(HEADERS))

    async def send_batches(self) -> int:
        """The peer's fastest way: whole batches by hand, one future each, no headers."""
        producer = await self._peer()
        pending: list[asyncio.Future[object]] = []
        batch = producer.create_batch()
        for _ in range(self._records):
            if batch.append(key=None, value=VALUE, timestamp=None) is None:
                pending.append(await producer.send_batch(batch, TOPIC, partition=len(pending) % PARTITIONS))
                batch = producer.create_batch()
                batch.append(key=None, value=VALUE, timestamp=None)
        pending.append(await producer.send_batch(batch, TOPIC, partition=len(pending) % PARTITIONS))
        await asyncio.gather(*pending)
        await producer.stop()
        return self._records

    async def send_and_wait(self) -> int:
        """Produces with the peer; each task awaits every record it sends."""
        producer = await self._peer()

        async def work(first: int) -> None:
            for number in range(first, self._records, TASKS):
                await producer.send_and_wait(TOPIC, VALUE, partition=number // RUN % PARTITIONS)

        await asyncio.gather(*(work(first) for first in range(TASKS)))
        await producer.stop()
        return self._records

    async def braid_send_many(self) -> int:
        """One call for all."""
        async with self._braid() as producer:
            await producer.send_many(Outgoing(VALUE) for _ in range(self._records))
        return self._records

    async def braid_send(self) -> int:
        """Sends as the README shows it, from many tasks."""
        async with self._braid() as producer:

            async def work(first: int) -> None:
                for _ in range(first, self._records, TASKS):
                    await producer.send(VALUE)

            await asyncio.gather(*(work(first) for first in range(TASKS)))
        return self._records

    async def _send(self, headers: list[tuple[str, bytes]]) -> int:
        producer = await self._peer()
        pending = [
            await producer.send(TOPIC, VALUE, partition=number // RUN % PARTITIONS, headers=headers)
            for number in range(self._records)
        ]
        await asyncio.gather(*pending)
        await producer.stop()
        return len(pending)

    async def _peer(self) -> AIOKafkaProducer:
        producer = AIOKafkaProducer(
            bootstrap_servers=self._bootstrap, linger_ms=LINGER_MS, max_batch_size=BATCH_BYTES,
            max_request_size=2 * BATCH_BYTES, enable_idempotence=True, acks="all",
        )  # fmt: skip
        await producer.start()
        return producer

    def _braid(self) -> Producer:
        return FixedMesh(self._bootstrap).producer(STREAM, linger_ms=LINGER_MS)


async def prepare(bootstrap: str) -> None:
    """Makes the topic."""
    admin = AioKafka("bench").cluster(bootstrap, "").admin()
    await admin.create_topic(TOPIC, PARTITIONS, 1, {"retention.bytes": str(64 << 20), "segment.bytes": str(16 << 20)})
    await admin.close()


async def contest(bootstrap: str, how: Asked) -> Table:
    """Makes the topic, plays the rounds."""
    await prepare(bootstrap)
    found = rows(await play(Contest(bootstrap, how.units).contestants(), how.rounds), PEER, "cpu")
    facts = {
        "work": f"{how.units:,} records of 100 B without keys, {PARTITIONS} partitions, all acknowledged; {cores()}",
        "peer": f"aiokafka, acks=all, idempotent, linger_ms={LINGER_MS}, max_batch_size={BATCH_BYTES}, no headers, "
        "partition given; Braid: the same linger and batch size, its three headers",
    }
    return Table("produce", "record", "cpu", verdict(found, AGAIN), facts, found, made_with())


def main() -> int:
    """Runs the benchmark on a broker of its own; 1 when the run is void."""
    return play_on_a_broker(__doc__, contest, units=100_000, quick_units=5_000)


if __name__ == "__main__":
    sys.exit(main())
