"""Reads single records back from where they lie: copies of dead letters, and the originals of copies that were cut."""

import asyncio
from collections.abc import Mapping, Sequence
from itertools import pairwise

from braid.kernel.errors import ClusterUnavailable, NotFound, OffsetOutOfRange
from braid.kernel.limits import (
    DLQ_COPY_SECONDS,
    DLQ_SCAN_LETTERS,
    FETCH_PARTITION_BYTES,
    FETCH_RECORDS_MAX,
    FETCH_WAIT_SECONDS,
)
from braid.kernel.ports import (
    Host,
    Isolation,
    Kafka,
    KafkaAdmin,
    KafkaFetcher,
    KafkaRecord,
    OffsetAt,
    TopicPartition,
)
from services.dlq.channels import ClusterPlace


class Copies:
    """One reader a cluster, opened when first used, used by one caller at a time."""

    def __init__(self, host: Host, kafka: Kafka) -> None:
        self._host = host
        self._kafka = kafka
        self._readers: dict[ClusterPlace, _Reader] = {}

    async def read(
        self, cluster: ClusterPlace, partition: TopicPartition, offsets: Sequence[int]
    ) -> Mapping[int, KafkaRecord]:
        """The records at these offsets; those that are missing are not in the log any more.

        Raises:
            ClusterUnavailable: the cluster does not answer.
        """
        if cluster not in self._readers:
            self._readers[cluster] = _Reader(self._host, self._kafka, cluster)
        return await self._readers[cluster].read(partition, sorted(offsets))

    async def close(self) -> None:
        """Frees connections."""
        readers, self._readers = list(self._readers.values()), {}
        for reader in readers:
            await reader.close()


class _Reader:
    """Reads from one cluster."""

    def __init__(self, host: Host, kafka: Kafka, place: ClusterPlace) -> None:
        self._host = host
        self._place = place
        self._cluster = kafka.cluster(place.bootstrap, place.security_profile)
        self._admin: KafkaAdmin = self._cluster.admin()
        self._fetcher: KafkaFetcher | None = None
        self._turn = asyncio.Lock()

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
        """Reads through from the first offset to the last."""
        fetcher = await self._started()
        wanted, found = frozenset(offsets), dict[int, KafkaRecord]()
        deadline = self._host.clock.elapsed() + DLQ_COPY_SECONDS
        fetcher.assign({partition: offsets[0]})
        try:
            position = offsets[0]
            while position <= offsets[-1] and position < end:
                fetched = await fetcher.fetch(FETCH_RECORDS_MAX, FETCH_WAIT_SECONDS)
                for each in fetched:
                    found |= {record.offset: record for record in each.records if record.offset in wanted}
                    position = each.next_offset
                    deadline = self._host.clock.elapsed() + DLQ_COPY_SECONDS
                if self._host.clock.elapsed() > deadline:
                    raise self._silent()
        except OffsetOutOfRange:  # it was deleted while it was read
            return found
        finally:
            fetcher.assign({})
        return found

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
    """Divides ascending offsets where it is cheaper to seek than to read through."""
    if not offsets:
        return []
    runs = [[offsets[0]]]
    for before, offset in pairwise(offsets):
        if offset - before > DLQ_SCAN_LETTERS:
            runs.append([])
        runs[-1].append(offset)
    return runs
