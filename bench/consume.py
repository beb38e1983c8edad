"""Consuming per record with ack, beside plain aiokafka on the same broker's data: `python -m bench.consume`.

The peers read without committing anything, which is their best case; Braid's consumer tracks every record and commits
its progress. Both read whole partitions from the start.
"""

import argparse
import asyncio
import os
import platform
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioPartition

from bench.rounds import Contestant, play, report
from braid.client.consumer import Consumer
from braid.client.lease_session import Held, LeaseListener
from braid.client.mesh import MeshOfStreams
from braid.client.routing import cluster_address
from braid.client.settings import ConsumerSettings
from braid.host.system import system_host
from braid.kafka.cluster import AioKafka
from braid.kernel.ids import ChannelId, LeaseId
from braid.kernel.ports import KafkaCluster, TopicPartition
from devmesh.brokers import KafkaBroker
from devmesh.jars import kafka_classpath
from devmesh.java import java_binary
from tests.support.brokers import free_port

CHANNEL: Final = ChannelId("logs", "live", 1)
TOPIC: Final = CHANNEL.topic("braid.")
PARTITIONS: Final = 4


class FixedLeases:
    """`LeaseKeeper` that grants everything at once, so that nothing but consuming is measured."""

    member_id = "bench"
    attached = True

    def __init__(self, listener: LeaseListener, bootstrap: str) -> None:
        self._listener = listener
        self._bootstrap = bootstrap

    def may_start(self) -> bool:
        return True

    async def joined(self) -> None:
        return

    async def run(self) -> None:
        address = cluster_address("east", self._bootstrap)
        self._listener.granted(
            [Held(LeaseId(CHANNEL, n), 1, address, TopicPartition(TOPIC, n)) for n in range(PARTITIONS)]
        )

    async def guard(self) -> None:
        return

    async def release(self, lease: LeaseId, epoch: int, *, commit_waived: bool = False, reason: str = "") -> None:
        return

    async def leave(self, reason: str) -> None:
        return


class BenchMesh(MeshOfStreams):
    """The SDK on one broker, without services."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(system_host(), AioKafka("bench"), "bench", "")
        self._bootstrap = bootstrap

    def _leases(self, settings: ConsumerSettings, listener: LeaseListener, loads: Callable[[], object]) -> FixedLeases:
        return FixedLeases(listener, self._bootstrap)


class Contest:
    """What consumes, and how much."""

    def __init__(self, bootstrap: str, records: int) -> None:
        self._bootstrap = bootstrap
        self._records = records
        self._groups = 0

    def contestants(self) -> dict[str, Contestant]:
        """By name; the first is the peer all others are compared with."""
        return {
            "aiokafka getmany": self.getmany,
            "aiokafka getmany again": self.getmany,
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
        """As the README shows it."""
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
        """As columns."""
        async with self._consumer() as consumer:
            seen = 0
            async for batch in consumer.batches(5_000):
                seen += batch.records.num_rows
                batch.ack()
                if seen == self._records:
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
        self._groups += 1
        return BenchMesh(self._bootstrap).consumer(["logs"], group=f"bench-{os.getpid()}-{self._groups}")


async def fill(cluster: KafkaCluster, records: int) -> None:
    """Puts 100-byte records with Braid's headers into the topic."""
    admin, producer = cluster.admin(), cluster.producer(linger_ms=20, compression=None, max_batch_bytes=1 << 20)
    await admin.create_topic(TOPIC, PARTITIONS, 1, {"retention.ms": "-1"})  # their times are long ago
    await producer.start()
    pending = []
    for number in range(records):
        headers = [("braid-id", b"01J00000000000000000000000:%d" % number), ("braid-ts", b"1767225600000"),
                   ("braid-lane", b"live")]  # fmt: skip
        place = TopicPartition(TOPIC, number % PARTITIONS)
        pending.append(await producer.send(place, bytes(100), b"%d" % number, headers, 1_767_225_600_000))
    for each in pending:
        await each
    await producer.close(5.0)
    await admin.close()


async def contest(bootstrap: str, records: int, rounds: int) -> bool:
    """Fills the topic, plays the rounds, reports."""
    await fill(AioKafka("bench").cluster(bootstrap, ""), records)
    contestants = Contest(bootstrap, records).contestants()
    rows = await play(contestants, "aiokafka getmany", rounds)
    facts = {
        "records": f"{records:,} of 100 B value and Braid's three headers, {PARTITIONS} partitions, {rounds} rounds",
        "machine": f"{os.cpu_count()} CPUs, {platform.machine()}, Python {platform.python_version()}",
        "peer": "aiokafka, max_records=5000, fetch_max_bytes=16 MiB, no commits; ratio = its CPU per record / ours",
    }
    return report(rows, "aiokafka getmany again", facts, Path("build/bench/consume.json"))


def main() -> int:
    """Runs the benchmark on a broker of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=7)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="braid-bench-") as directory:
        broker = KafkaBroker(
            "bench", Path(directory), free_port(), free_port(), kafka_classpath(), "a", java=str(java_binary()),
            heap_mb=1_024, tiered_stop_at_level=None,
        )  # fmt: skip
        try:
            broker.start()
            broker.wait_ready(60.0)
            _apart(broker)
            return 0 if asyncio.run(contest(broker.bootstrap, asked.records, asked.rounds)) else 1
        finally:
            broker.kill()


def _apart(broker: KafkaBroker) -> None:
    """The broker on one core, the client on another, where there are two."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) > 1 and broker.pid is not None:
        for thread in Path(f"/proc/{broker.pid}/task").iterdir():
            os.sched_setaffinity(int(thread.name), cores[:1])
        os.sched_setaffinity(0, cores[1:2])


if __name__ == "__main__":
    sys.exit(main())
