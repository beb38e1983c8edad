"""Observes the ends of one cluster's logs, and reads single records for their time where a group stalls."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from braid.kernel.errors import BraidError, ClusterUnavailable, NotFound, OffsetOutOfRange
from braid.kernel.ids import SEAL_CANARY
from braid.kernel.limits.client import FETCH_PARTITION_BYTES
from braid.kernel.limits.lagmon.sampling import (
    LAG_ENDS_BATCH,
    LAG_ENDS_SECONDS,
    LAG_NEWS_SECONDS,
    LAG_PAUSE_FACTOR,
    LAG_PROBE_SECONDS,
    LAG_PROBES_AT_ONCE,
    LAG_STARTS_SECONDS,
    LAG_TOPICS_SECONDS,
)
from braid.kernel.ports import (
    Host,
    Isolation,
    KafkaAdmin,
    KafkaCluster,
    KafkaFetcher,
    KafkaRecord,
    OffsetAt,
    TopicPartition,
)
from services.lagmon.columns.sample_pools import tick_before
from services.lagmon.domain import ClusterModel
from services.lagmon.model.mesh_view import MeshView
from services.lagmon.policy import Now

_INGESTION_HEADER = "braid-ts"
_INGESTION_DIGITS_MAX = 15  # milliseconds for the next 30,000 years
_LONG_BEFORE = float("-inf")


class EndWatch:
    """Keeps the ends of one cluster's logs fresh. While the cluster is away nothing changes, and rows grow stale."""

    def __init__(self, host: Host, cluster: KafkaCluster, model: ClusterModel, view: Callable[[], MeshView]) -> None:
        self.probes = 0
        self._host = host
        self._cluster = cluster
        self._model = model
        self._view = view
        self._news = asyncio.Event()
        self._there: frozenset[TopicPartition] = frozenset()
        self._asked: frozenset[str] = frozenset()
        self._topics_at = _LONG_BEFORE
        self._starts_at = _LONG_BEFORE
        self._started: frozenset[TopicPartition] = frozenset()

    async def run(self) -> None:
        """Observes until cancelled."""
        clock = self._host.clock
        admin = self._cluster.admin()
        probing = self._host.tasks.spawn(self._probe(), "records read for their time")
        try:
            while True:
                began = clock.elapsed()
                try:
                    await self._look(admin)
                except (ClusterUnavailable, NotFound):  # a leader moved, a topic is gone, or the cluster is away
                    self._topics_at = _LONG_BEFORE
                await self._pause(clock.elapsed() - began)
        finally:
            probing.cancel()
            await admin.close()

    async def _probe(self) -> None:
        """Reads records until cancelled, beside the looks at ends: to find which are due is work that may take long."""
        clock = self._host.clock
        prober = RecordProber(self._host, self._cluster, self._model)
        try:
            while True:
                began = clock.elapsed()
                if not self._model.catching_up:  # before, a group seems to stall whose commits were not read
                    with contextlib.suppress(ClusterUnavailable, NotFound):
                        self.probes += await prober.read_due(self._view())
                await clock.sleep(max(LAG_ENDS_SECONDS, (clock.elapsed() - began) * LAG_PAUSE_FACTOR))
        finally:
            await prober.close()

    def wake(self) -> None:
        """Observes soon, because new logs have no observed end and their rows are stale until then."""
        if self._model.grown:
            self._news.set()

    async def _pause(self, took: float) -> None:
        """Waits until the next observation is due, or there is news; a long one is not repeated at once."""
        least = max(LAG_NEWS_SECONDS, took)
        await self._host.clock.sleep(least)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(LAG_ENDS_SECONDS, took * LAG_PAUSE_FACTOR) - least):
                await self._news.wait()
        self._news.clear()

    async def _look(self, admin: KafkaAdmin) -> None:
        await self._describe(admin)
        there = [partition for partition in self._model.wanted() if partition in self._there]
        for batch in _batches(there):
            ends = await admin.offsets_at(dict.fromkeys(batch, OffsetAt.LATEST))
            self._model.observe(ends, tick_before(self._host.clock.elapsed()))
        await self._look_at_starts(admin, there)

    async def _look_at_starts(self, admin: KafkaAdmin, there: Sequence[TopicPartition]) -> None:
        now = self._host.clock.elapsed()
        if now - self._starts_at < LAG_STARTS_SECONDS and self._started >= frozenset(there):
            return
        for batch in _batches(there):
            self._model.observe_starts(await admin.offsets_at(dict.fromkeys(batch, OffsetAt.EARLIEST)))
        self._starts_at, self._started = now, frozenset(there)

    async def _describe(self, admin: KafkaAdmin) -> None:
        """Finds partitions that exist and have a leader, because asking for any other would delay the rest."""
        topics = frozenset(partition.topic for partition in self._model.wanted())
        now = self._host.clock.elapsed()
        if topics == self._asked and now - self._topics_at < LAG_TOPICS_SECONDS:
            return
        found = await admin.describe_topics(sorted(topics)) if topics else {}
        self._there = frozenset(
            TopicPartition(name, number)
            for name, topic in found.items()
            for number, leader in enumerate(topic.leaders)
            if leader >= 0
        )
        self._model.missing = topics - found.keys()
        self._asked, self._topics_at = topics, now


class RecordProber:
    """Reads single records of one cluster."""

    def __init__(self, host: Host, cluster: KafkaCluster, model: ClusterModel) -> None:
        self._host = host
        self._cluster = cluster
        self._model = model
        self._fetcher: KafkaFetcher | None = None

    async def read_due(self, view: MeshView) -> int:
        """Reads the records at which groups stall; returns how many it tried."""
        due: dict[TopicPartition, int] = {}
        for rows in self._model.slices(self._model.facts(view)):
            clock = self._host.clock
            due |= self._model.probes_due(rows, view, Now(clock.elapsed(), clock.now_ms()))
            if len(due) >= LAG_PROBES_AT_ONCE:
                break
            await clock.sleep(0)
        due = dict(islice(due.items(), LAG_PROBES_AT_ONCE))
        if due:
            await self._read(due)
        return len(due)

    async def close(self) -> None:
        """Closes the fetcher, if there is one."""
        if self._fetcher is not None:
            await self._fetcher.close()

    async def _read(self, due: dict[TopicPartition, int]) -> None:
        fetcher = await self._opened()
        clock = self._host.clock
        left = dict(due)
        deadline = clock.elapsed() + LAG_PROBE_SECONDS
        fetcher.assign(due)
        while left and (remaining := deadline - clock.elapsed()) > 0:
            try:
                fetched = await fetcher.fetch(LAG_PROBES_AT_ONCE, remaining)
            except (OffsetOutOfRange, ClusterUnavailable) as error:
                self._give_up(error, left)
            else:
                for each in fetched:
                    self._take(each.partition, left.pop(each.partition, None), each.records)
            fetcher.assign(left)
        fetcher.assign({})
        for partition, offset in left.items():
            self._model.probed(partition, offset, None, clock.elapsed())

    def _take(self, partition: TopicPartition, offset: int | None, records: Sequence[KafkaRecord]) -> None:
        if offset is None:
            return
        if not records:
            self._model.probed(partition, offset, None, self._host.clock.elapsed())
        elif _is_canary(records[0], offset):
            self._model.no_record(partition, offset)
        else:
            self._model.probed(partition, offset, _ingested_at_ms(records[0]), self._host.clock.elapsed())

    def _give_up(self, error: BraidError, left: dict[TopicPartition, int]) -> None:
        """Stops trying an offset that cannot be read for its time; others are still read."""
        if "topic" not in error.metadata:
            return
        partition = TopicPartition(error.metadata["topic"], int(error.metadata["partition"]))
        offset = left.pop(partition, None)
        if offset is not None:
            self._model.probed(partition, offset, None, self._host.clock.elapsed())

    async def _opened(self) -> KafkaFetcher:
        if self._fetcher is None:
            self._fetcher = self._cluster.fetcher(
                max_partition_bytes=FETCH_PARTITION_BYTES, isolation=Isolation.READ_COMMITTED, client_rack=""
            )
            await self._fetcher.start()
        return self._fetcher


def _batches(partitions: Sequence[TopicPartition]) -> Iterator[Sequence[TopicPartition]]:
    return (partitions[at : at + LAG_ENDS_BATCH] for at in range(0, len(partitions), LAG_ENDS_BATCH))


def _is_canary(record: KafkaRecord, offset: int) -> bool:
    return record.offset == offset and record.value == SEAL_CANARY and record.key is None and not record.headers


def _ingested_at_ms(record: KafkaRecord) -> int | None:
    """Returns the producer's time; Kafka's timestamp if the record has none that is plausible."""
    for name, value in record.headers:
        if name == _INGESTION_HEADER and value.isdigit() and len(value) <= _INGESTION_DIGITS_MAX:
            return int(value)
    return record.timestamp if record.timestamp >= 0 else None
