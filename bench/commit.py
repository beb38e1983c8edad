"""Committing progress, beside plain aiokafka on the same broker: `python -m bench.commit`.

Every partition has a few hundred records done out of order, and one more is done before each commit, so Braid's
committer encodes each envelope anew. The peer commits bare offsets; a row shows it with as much metadata as Braid
writes. One request at a time, as both do in an application; a unit is one request, of 1 and of 100 partitions.
"""

import asyncio
import os
import sys
from typing import Final

import numpy as np
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioPartition

from bench.harness.arguments import Asked, asked
from bench.harness.broker import broker, cores
from bench.harness.contest import Contestant, play
from bench.harness.fixed_mesh import CHANNEL, CLUSTER, TOPIC
from bench.harness.rounds import rows, verdict
from bench.harness.tables import Table, made_with
from braid.client.commits.claims import claims_of
from braid.client.commits.committer import Committer
from braid.client.commits.encoder import CommitEncoder
from braid.client.delivery.lease_work import LeaseWork
from braid.client.delivery.memory_bound import MemoryBound
from braid.client.delivery.ready_queue import ReadyQueue
from braid.client.producing.routes import cluster_address
from braid.client.records.delivery import OwnedLease
from braid.client.records.record import Record
from braid.host.system import system_host
from braid.kafka.cluster import AioKafka
from braid.kernel.envelope import encode
from braid.kernel.errors import BraidError
from braid.kernel.ids import LeaseId
from braid.kernel.limits.client import COMMIT_INTERVAL_SECONDS, IN_FLIGHT_BYTES_MAX
from braid.kernel.limits.envelope import ENVELOPE_UNITS_DEFAULT
from braid.kernel.ports import Generation, KafkaCluster, TopicPartition
from braid.kernel.progress.tracker import Progress

SIZES: Final = (1, 100)
PEER: Final = "aiokafka commit, no metadata"
AGAIN: Final = "aiokafka commit again"
GAPS: Final = 256  # of each partition at the start of a round; a request closes one
WRITTEN_MS: Final = 1_767_225_600_000


class Settling:
    """Nothing is retried, and nothing dead-lettered here."""

    def park(self, record: Record, delay_seconds: float) -> None:
        return

    def write_dead_letter(self, record: Record, error: BaseException | str) -> None:
        return

    def settled(self, count: int) -> None:
        return


class Contest:
    """Committers of a number of partitions, and a number of requests."""

    def __init__(self, bootstrap: str, partitions: int, requests: int) -> None:
        self._bootstrap = bootstrap
        self._partitions = [TopicPartition(TOPIC, number) for number in range(partitions)]
        self._requests = requests
        self._groups = 0
        fields = claims_of(self._work(0, ReadyQueue({})), detached=False)
        self.metadata_units = len(encode(fields, ENVELOPE_UNITS_DEFAULT).metadata)

    def contestants(self) -> dict[str, Contestant]:
        """By name."""
        return {
            PEER: self.bare,
            AGAIN: self.bare,
            f"aiokafka commit, {self.metadata_units} units of metadata": self.with_metadata,
            "braid committer, envelopes": self.envelopes,
        }

    async def bare(self) -> int:
        """The peer at its best: offsets alone."""
        return await self._peer("")

    async def with_metadata(self) -> int:
        """The peer, with as much metadata as an envelope has."""
        return await self._peer("\u3400" * self.metadata_units)

    async def envelopes(self) -> int:
        """Braid's committer, as a consumer runs it."""
        return await self.committed(self.new_group(), None)

    async def committed(self, group: str, lent: Generation | None) -> int:
        """Braid's committer, with what was lent to it."""
        offsets, admin = self.cluster().offsets(), self.cluster().admin()
        committer = Committer(
            system_host(), group, offsets, CommitEncoder(group, admin, detached=bool),
            interval_seconds=COMMIT_INTERVAL_SECONDS, refused=_refuse,
        )  # fmt: skip
        if lent is not None:
            committer.lend(lent)
        ready = ReadyQueue({})
        works = [self._work(each.partition, ready) for each in self._partitions]
        for request in range(self._requests):
            for work in works:
                work.head.progress.done(2 * (GAPS - 1 - request % GAPS))
            await committer.commit(works)
        await offsets.close()
        await admin.close()
        return self._requests

    async def _peer(self, metadata: str) -> int:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self._bootstrap, group_id=self.new_group(), enable_auto_commit=False
        )
        await consumer.start()
        partitions = [AioPartition(TOPIC, each.partition) for each in self._partitions]
        consumer.assign(partitions)
        for request in range(self._requests):
            await consumer.commit({each: (request, metadata) for each in partitions})
        await consumer.stop()
        return self._requests

    def _work(self, partition: int, ready: ReadyQueue) -> LeaseWork:
        """A partition of which every other record is done."""
        place = TopicPartition(TOPIC, partition)
        held = OwnedLease(LeaseId(CHANNEL, partition), 1, cluster_address(CLUSTER, self._bootstrap), place)
        memory = MemoryBound(IN_FLIGHT_BYTES_MAX, {}).lane("live")
        work = LeaseWork(held, group="bench", ready=ready, settling=Settling(), memory=memory, may_start=None)
        progress = Progress(0)
        progress.deliver_many(range(2 * GAPS), [WRITTEN_MS] * (2 * GAPS))
        progress.done_many(np.arange(1, 2 * GAPS, 2))
        work.begin(progress, bytes(range(16)))
        return work

    def cluster(self) -> KafkaCluster:
        """The broker."""
        return AioKafka("bench").cluster(self._bootstrap, "")

    def new_group(self) -> str:
        """A new one: nobody finds another's commits."""
        self._groups += 1
        return f"bench-{os.getpid()}-{len(self._partitions)}-{self._groups}"


def _refuse(error: BraidError) -> None:
    raise error


async def contest(bootstrap: str, partitions: int, how: Asked) -> Table:
    """Plays the rounds for requests of so many partitions."""
    playing = Contest(bootstrap, partitions, how.units)
    found = rows(await play(playing.contestants(), how.rounds), PEER, "cpu")
    facts = {
        "work": f"{how.units} requests of {partitions} partitions, one after the other; {cores()}",
        "peer": "aiokafka, partitions assigned by hand, no generation; Braid: the same kind of commit, "
        f"{GAPS} gaps in each partition at first, {playing.metadata_units} units of metadata",
    }
    name = f"commit-{partitions}"
    return Table(name, "request", "cpu", verdict(found, AGAIN), facts, found, made_with())


async def prepare(bootstrap: str) -> None:
    """Makes the topic."""
    admin = AioKafka("bench").cluster(bootstrap, "").admin()
    await admin.create_topic(TOPIC, max(SIZES), 1, {})
    await admin.close()


async def contests(bootstrap: str, how: Asked) -> list[Table]:
    """One table for each number of partitions."""
    await prepare(bootstrap)
    return [await contest(bootstrap, size, how) for size in SIZES]


def main() -> int:
    """Runs the benchmark on a broker of its own; 1 when a table is void."""
    how = asked(__doc__, units=GAPS, quick_units=20)
    with broker() as serving:
        tables = asyncio.run(contests(serving.bootstrap, how))
    for table in tables:
        table.publish(how.directory)
    return int(any(table.verdict for table in tables) and not how.quick)


if __name__ == "__main__":
    sys.exit(main())
