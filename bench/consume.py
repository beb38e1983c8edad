"""Consuming per record with ack, beside plain aiokafka on the same broker's data: `python -m bench.consume`.

The peers read without committing anything, which is their best case; Braid's consumer tracks every record and commits
its progress. Both read whole partitions from the start.
"""

import sys
from typing import Final

from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioPartition

from bench.harness.arguments import Asked
from bench.harness.broker import cores, play_on_a_broker
from bench.harness.contest import Contestant, play
from bench.harness.fixed_mesh import PARTITIONS, STREAM, TOPIC, FixedMesh
from bench.harness.group_names import new_group
from bench.harness.rounds import rows, verdict
from bench.harness.tables import Table, made_with
from braid.client.consuming.consumer import Consumer
from braid.kafka.cluster import AioKafka
from braid.kernel.ports import KafkaCluster, TopicPartition

PEER: Final = "aiokafka getmany"
AGAIN: Final = "aiokafka getmany again"


class Contest:
    """Consumers over a number of records."""

    def __init__(self, bootstrap: str, records: int) -> None:
        self._bootstrap = bootstrap
        self._records = records

    def contestants(self) -> dict[str, Contestant]:
        """By name."""
        return {
            PEER: self.getmany,
            AGAIN: self.getmany,
            "aiokafka getone": self.getone,
            "braid async for, ack": self.by_record,
            "braid take_many, ack": self.by_many,
            "braid batches (Arrow), ack": self.by_batch,
        }

    async def getmany(self) -> int:
        """The peer at its best: 5,000 at a time, nothing committed."""
        consumer = await self._peer()
        seen = size = 0
        while seen < self._records:
            for records in (await consumer.getmany(timeout_ms=1_000, max_records=5_000)).values():
                for record in records:
                    size += len(record.value)
                seen += len(records)
        await consumer.stop()
        return seen

    async def getone(self) -> int:
        """The peer, record by record."""
        consumer = await self._peer()
        seen = size = 0
        async for record in consumer:
            size += len(record.value)
            seen += 1
            if seen == self._records:
                break
        await consumer.stop()
        return seen

    async def by_record(self) -> int:
        """Consumes record by record, as the README shows it."""
        async with self._consumer() as consumer:
            seen = size = 0
            async for record in consumer:
                size += len(record.value or b"")
                record.ack()
                seen += 1
                if seen == self._records:
                    break
        return seen

    async def by_many(self) -> int:
        """Several at a time."""
        async with self._consumer() as consumer:
            seen = size = 0
            while seen < self._records:
                for record in await consumer.take_many(5_000, 1.0):
                    size += len(record.value or b"")
                    record.ack()
                    seen += 1
        return seen

    async def by_batch(self) -> int:
        """Consumes batches as columns."""
        async with self._consumer() as consumer:
            seen = 0
            async for batch in consumer.batches(5_000):
                seen += batch.records.num_rows
                batch.ack()
                if seen >= self._records:
                    break
        return seen

    async def _peer(self) -> AIOKafkaConsumer:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self._bootstrap, enable_auto_commit=False, fetch_max_bytes=16 << 20
        )
        await consumer.start()
        partitions = [AioPartition(TOPIC, number) for number in range(PARTITIONS)]
        consumer.assign(partitions)
        for partition in partitions:
            consumer.seek(partition, 0)
        return consumer

    def _consumer(self) -> Consumer:
        return FixedMesh(self._bootstrap).consumer([STREAM], group=new_group())


async def fill(
    cluster: KafkaCluster, records: int, *, partitions: int = PARTITIONS, keys: int | None = None, topic: str = TOPIC
) -> None:
    """Puts 100-byte records with Braid's headers into so many partitions of a new topic; None: each has its own key."""
    admin, producer = cluster.admin(), cluster.producer(linger_ms=20, compression=None, max_batch_bytes=1 << 20)
    await admin.create_topic(topic, PARTITIONS, 1, {"retention.ms": "-1"})  # their times are long ago
    await producer.start()
    pending = []
    for number in range(records):
        headers = [("braid-id", b"01J00000000000000000000000:%d" % number), ("braid-ts", b"1767225600000"),
                   ("braid-lane", b"live")]  # fmt: skip
        place = TopicPartition(topic, number % partitions)
        key = b"%d" % (number if keys is None else number % keys)
        pending.append(await producer.send(place, bytes(100), key, headers, 1_767_225_600_000))
    for each in pending:
        await each
    await producer.close(5.0)
    await admin.close()


async def prepare(bootstrap: str, records: int) -> None:
    """Fills the topic."""
    await fill(AioKafka("bench").cluster(bootstrap, ""), records)


async def contest(bootstrap: str, how: Asked) -> Table:
    """Fills the topic, plays the rounds."""
    await prepare(bootstrap, how.units)
    found = rows(await play(Contest(bootstrap, how.units).contestants(), how.rounds), PEER, "cpu")
    facts = {
        "work": f"{how.units:,} records of 100 B and Braid's three headers, {PARTITIONS} partitions; {cores()}",
        "peer": "aiokafka, max_records=5000, fetch_max_bytes=16 MiB, nothing committed",
    }
    return Table("consume", "record", "cpu", verdict(found, AGAIN), facts, found, made_with())


def main() -> int:
    """Runs the benchmark on a broker of its own; 1 when the run is void."""
    return play_on_a_broker(__doc__, contest, units=1_500_000, quick_units=5_000)


if __name__ == "__main__":
    sys.exit(main())
