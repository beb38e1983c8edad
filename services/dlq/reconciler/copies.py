"""Reads single records by offset: copies of dead letters, and the originals of truncated copies."""

import asyncio
import contextlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from braid.kernel.errors import ClusterUnavailable, NotFound, OffsetOutOfRange
from braid.kernel.limits.client import FETCH_PARTITION_BYTES, FETCH_RECORDS_MAX, FETCH_WAIT_SECONDS
from braid.kernel.limits.dlq import DLQ_COPY_SECONDS, DLQ_SCAN_LETTERS, DLQ_UNREADABLE_SECONDS
from braid.kernel.ports import (
    FetchedRecords,
    Host,
    Isolation,
    Kafka,
    KafkaAdmin,
    KafkaFetcher,
    KafkaRecord,
    OffsetAt,
    TopicPartition,
)
from services.dlq.model.channels import ClusterPlace


class Copies:
    """One reader per cluster, opened on first use, used by one caller at a time."""

    def __init__(self, host: Host, kafka: Kafka) -> None:
        self._host = host
        self._kafka = kafka
        self._readers: dict[ClusterPlace, _Reader] = {}

    async def read(
        self, cluster: ClusterPlace, partition: TopicPartition, offsets: Sequence[int]
    ) -> Mapping[int, KafkaRecord]:
        """Reads the records at these offsets; a missing record is no longer in the log.

        Raises:
            ClusterUnavailable: the cluster does not answer.
        """
        if cluster not in self._readers:
            self._readers[cluster] = _Reader(self._host, self._kafka, cluster)
        return await self._readers[cluster].read(partition, sorted(offsets))

    async def close(self) -> None:
        """Closes all readers."""
        readers, self._readers = list(self._readers.values()), {}
        for reader in readers:
            await reader.close()


class _Stuck(NamedTuple):
    """An offset where nothing arrives although the cluster answers, and since when."""

    partition: TopicPartition
    position: int
    since: float

    def is_passed(self, partition: TopicPartition, position: int) -> bool:
        """Whether the partition was read beyond it."""
        return self.partition == partition and self.position < position


class _Reader:
    """Reads records from one cluster."""

    def __init__(self, host: Host, kafka: Kafka, place: ClusterPlace) -> None:
        self._host = host
        self._place = place
        self._cluster = kafka.cluster(place.bootstrap, place.security_profile)
        self._admin: KafkaAdmin = self._cluster.admin()
        self._fetcher: KafkaFetcher | None = None
        self._turn = asyncio.Lock()
        self._stuck: _Stuck | None = None

    async def read(self, partition: TopicPartition, offsets: Sequence[int]) -> Mapping[int, KafkaRecord]:
        async with self._turn:
            try:
                return await self._read(partition, offsets)
            except NotFound:  # deleted while it was asked about
                return {}

    async def close(self) -> None:
        if self._fetcher is not None:
            await self._fetcher.close()
        await self._admin.close()

    async def _read(self, partition: TopicPartition, offsets: Sequence[int]) -> Mapping[int, KafkaRecord]:
        with self._asking():
            topics = await self._admin.describe_topics([partition.topic])
            if partition.topic not in topics or partition.partition >= topics[partition.topic].partitions:
                return {}
            start = (await self._admin.offsets_at({partition: OffsetAt.EARLIEST}))[partition]
            end = (await self._admin.offsets_at({partition: OffsetAt.LATEST}))[partition]
        found: dict[int, KafkaRecord] = {}
        for run in _runs([offset for offset in offsets if start <= offset < end]):
            found |= await self._read_run(partition, run, end)
        return found

    async def _read_run(self, partition: TopicPartition, offsets: Sequence[int], end: int) -> Mapping[int, KafkaRecord]:
        """Reads from the first offset to the last. Offsets that the log never returns are left out."""
        fetcher = await self._started()
        wanted, found = frozenset(offsets), dict[int, KafkaRecord]()
        position: int | None = offsets[0]
        deadline = self._host.clock.elapsed() + DLQ_COPY_SECONDS
        fetcher.assign({partition: offsets[0]})
        try:
            while position is not None and position <= offsets[-1] and position < end:
                fetched, unreadable = await self._fetch(fetcher)
                for each in fetched:
                    found |= {record.offset: record for record in each.records if record.offset in wanted}
                    position = each.next_offset
                    deadline = self._host.clock.elapsed() + DLQ_COPY_SECONDS
                    if self._stuck is not None and self._stuck.is_passed(partition, each.next_offset):
                        self._stuck = None
                if unreadable or (self._host.clock.elapsed() > deadline and await self._is_stuck(partition, position)):
                    position = next((offset for offset in offsets if offset > position), None)
                    deadline = self._host.clock.elapsed() + DLQ_COPY_SECONDS
                    fetcher.assign({})
                    fetcher.assign({} if position is None else {partition: position})
        except OffsetOutOfRange:  # it was deleted while it was read
            return found
        finally:
            fetcher.assign({})
        return found

    async def _fetch(self, fetcher: KafkaFetcher) -> tuple[Sequence[FetchedRecords], bool]:
        """The records that arrived, and whether the data at the position is no valid batch."""
        try:
            return await fetcher.fetch(FETCH_RECORDS_MAX, FETCH_WAIT_SECONDS), False
        except ClusterUnavailable as error:
            if "offset" not in error.metadata:
                raise
            return (), True

    async def _is_stuck(self, partition: TopicPartition, position: int) -> bool:
        """Whether the cluster answers, yet nothing has arrived for `DLQ_UNREADABLE_SECONDS`. Raises
        `ClusterUnavailable` until then."""
        now = self._host.clock.elapsed()
        with self._asking():
            await self._admin.offsets_at({partition: OffsetAt.EARLIEST})
        if self._stuck is None or self._stuck[:2] != (partition, position):
            self._stuck = _Stuck(partition, position, now)
        if now - self._stuck.since < DLQ_UNREADABLE_SECONDS:
            raise ClusterUnavailable(
                f"{self._place.bootstrap} does not give what lies at offset {position} of {partition.topic}",
                remedy="try again later",
            )
        return True

    @contextlib.contextmanager
    def _asking(self) -> Iterator[None]:
        """Restarts the stuck timer while a cluster is away: its silence proves nothing about the offset."""
        try:
            yield
        except ClusterUnavailable:
            self._stuck = None
            raise

    async def _started(self) -> KafkaFetcher:
        if self._fetcher is None:
            fetcher = self._cluster.fetcher(
                max_partition_bytes=FETCH_PARTITION_BYTES, isolation=Isolation.READ_COMMITTED, client_rack=""
            )
            try:
                async with asyncio.timeout(DLQ_COPY_SECONDS):
                    await fetcher.start()
            except TimeoutError:
                await fetcher.close()
                raise self._silent() from None
            self._fetcher = fetcher
        return self._fetcher

    def _silent(self) -> ClusterUnavailable:
        return ClusterUnavailable(
            f"{self._place.bootstrap} does not answer", remedy="try again when the cluster is back"
        )


def _runs(offsets: Sequence[int]) -> list[list[int]]:
    """Splits ascending offsets into runs, where a seek is cheaper than reading through the gap."""
    if not offsets:
        return []
    runs = [[offsets[0]]]
    for before, offset in pairwise(offsets):
        if offset - before > DLQ_SCAN_LETTERS:
            runs.append([])
        runs[-1].append(offset)
    return runs
