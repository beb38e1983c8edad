"""Reading a stream without a group: no lease, no progress, nothing committed. For looking, not for processing.

A reader follows the stream over moves: channels that appear while it reads are read from their start.
"""

import asyncio
import contextlib
import logging
from collections.abc import Iterator, Sequence
from datetime import datetime
from types import TracebackType
from typing import Final, NamedTuple, Self

from braid.api.registry.v1 import registry_service_pb2 as api
from braid.api.registry.v1.cluster_pb2 import Cluster
from braid.api.registry.v1.stream_pb2 import (
    CHANNEL_STATE_ACTIVE,
    CHANNEL_STATE_DRAINED,
    CHANNEL_STATE_DRAINING,
    Channel,
    Stream,
)
from braid.client.consumer_settings import Start
from braid.client.reading.channel_addresses import channels_of
from braid.client.tasks import watched
from braid.kernel.errors import BraidError, ClusterUnavailable, NotFound, OffsetOutOfRange, Unavailable
from braid.kernel.ids import DLQ_LANE, SEAL_CANARY
from braid.kernel.limits.client import (
    FETCH_PARTITION_BYTES,
    FETCH_RECORDS_MAX,
    FETCH_WAIT_SECONDS,
    READER_CHUNKS_MAX,
    READER_LOOK_SECONDS,
    RESTORE_RETRY_SECONDS,
)
from braid.kernel.ports import (
    Host,
    Isolation,
    Kafka,
    KafkaCluster,
    KafkaRecord,
    OffsetAt,
    Task,
    TopicPartition,
)
from braid.rpc.mesh_client import ServiceClient

_log = logging.getLogger("braid.reader")
_READABLE: Final = (CHANNEL_STATE_ACTIVE, CHANNEL_STATE_DRAINING, CHANNEL_STATE_DRAINED)


class SeenRecord(NamedTuple):
    """A record that was read, and its place."""

    stream: str
    lane: str
    cluster: str
    topic: str
    partition: int
    record: KafkaRecord


class _Chunk(NamedTuple):
    channel: Channel
    partition: int
    records: Sequence[KafkaRecord]


class Reader:
    """Reads a stream; use it as an asynchronous context.

    Args:
        host: Clock and tasks.
        kafka: The way to clusters.
        registry: Tells which channels there are.
        stream: Which.
        lanes: Only these; every lane but `dlq` when empty.
        start: `earliest`, `latest` or a datetime, for the channels there are at the beginning.
        partition: Only this one of each channel; None for all.
        cluster: Only channels there, also those that come there later; every cluster when empty.
    """

    def __init__(
        self,
        host: Host,
        kafka: Kafka,
        registry: ServiceClient,
        *,
        stream: str,
        lanes: Sequence[str] = (),
        start: Start = "earliest",
        partition: int | None = None,
        cluster: str = "",
    ) -> None:
        self._host = host
        self._kafka = kafka
        self._registry = registry
        self._stream = stream
        self._lanes = tuple(lanes)
        self._start = _position(start)
        self._partition = partition
        self._cluster = cluster
        self._chunks: asyncio.Queue[_Chunk | BraidError] = asyncio.Queue(READER_CHUNKS_MAX)
        self._clusters: dict[str, _ClusterReading] = {}
        self._known: set[str] = set()
        self._tasks: list[Task] = []
        self._current: Iterator[SeenRecord] = iter(())
        self._failure: BraidError | None = None

    async def __aenter__(self) -> Self:
        """Finds the channels.

        Raises:
            NotFound: no such stream, lane, partition or cluster.
            Unavailable: no registry answers.
        """
        spec = (await self._registry.unary("GetStream", api.GetStreamRequest(name=self._stream), Stream)).spec
        for lane in self._lanes:
            if lane not in spec.lanes:
                known = ", ".join(sorted(spec.lanes))
                raise NotFound(f"stream {self._stream} has no lane {lane}", field="lane", remedy=f"it has {known}")
        await self._check_cluster()
        found = await self._discover(self._start)
        if self._partition is not None and not found:
            raise NotFound(f"no channel of {self._stream} has a partition {self._partition}", field="partition")
        self._tasks.append(watched(self._host.tasks, self._follow, f"channels-{self._stream}", self._died))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            await task.ended()
        await asyncio.gather(*(each.close() for each in self._clusters.values()))

    @property
    def unreachable(self) -> list[str]:
        """Clusters whose channels cannot be read now."""
        return sorted(name for name, each in self._clusters.items() if each.away)

    @property
    def skipped(self) -> int:
        """Offsets that were passed because their batches cannot be decoded."""
        return sum(each.skipped for each in self._clusters.values())

    async def take(self, timeout_seconds: float) -> SeenRecord | None:
        """Returns the next record, or None when none came in time. Records of one partition come in order.

        Raises:
            NotFound: the stream was deleted; what was read before comes first.
            BraidError: why it cannot be read any more.
        """
        found = next(self._current, None)
        if found is not None:
            return found
        try:
            async with asyncio.timeout(timeout_seconds):
                while found is None:
                    if self._failure is not None and self._chunks.empty():
                        raise self._failure
                    chunk = await self._chunks.get()
                    if isinstance(chunk, BraidError):
                        raise chunk
                    self._current = iter(_seen(chunk))
                    found = next(self._current, None)
        except TimeoutError:
            return None
        return found

    def _died(self, error: BraidError) -> None:
        self._failure = error
        with contextlib.suppress(asyncio.QueueFull):  # then no record waits
            self._chunks.put_nowait(error)

    async def _follow(self) -> None:
        while True:
            await self._host.clock.sleep(READER_LOOK_SECONDS)
            try:
                await self._discover(OffsetAt.EARLIEST)
            except Unavailable:  # known channels are read on
                continue
            except BraidError as error:
                await self._end(error)
                return

    async def _end(self, error: BraidError) -> None:
        """Ends reading with an error, after the records that were read before."""
        self._failure = error
        await self._chunks.put(error)

    async def _discover(self, start: OffsetAt | int) -> int:
        """Starts to read channels that are new; returns the number of their partitions."""
        found = 0
        for channel in await self._channels():
            if channel.name in self._known or channel.state not in _READABLE or not self._wants(channel):
                continue
            self._known.add(channel.name)
            reading = self._clusters.get(channel.cluster) or await self._open(channel.cluster)
            partitions = range(channel.partitions) if self._partition is None else (self._partition,)
            for partition in partitions:
                if partition < channel.partitions:
                    reading.add(channel, partition, start)
                    found += 1
        return found

    async def _channels(self) -> Sequence[Channel]:
        try:
            return await channels_of(self._registry, self._stream)
        except NotFound as error:
            message = f"stream {self._stream} was deleted while it was read"
            raise NotFound(message, field="stream", remedy="list what there is: braid get streams") from error

    def _wants(self, channel: Channel) -> bool:
        if self._cluster not in ("", channel.cluster):
            return False
        return channel.lane in self._lanes if self._lanes else channel.lane != DLQ_LANE

    async def _check_cluster(self) -> None:
        if self._cluster:
            try:
                await self._registry.unary("GetCluster", api.GetClusterRequest(name=self._cluster), Cluster)
            except NotFound as error:
                remedy = error.remedy or "list what there is: braid get clusters"
                raise NotFound(error.message, field="cluster", remedy=remedy) from error

    async def _open(self, name: str) -> "_ClusterReading":
        spec = (await self._registry.unary("GetCluster", api.GetClusterRequest(name=name), Cluster)).spec
        cluster = self._kafka.cluster(spec.bootstrap, spec.security_profile)
        reading = _ClusterReading(self._host, cluster, self._chunks)
        self._clusters[name] = reading
        self._tasks.append(watched(self._host.tasks, reading.run, f"read-{name}", self._died))
        return reading


class _ClusterReading:
    """Reads partitions of one cluster, and waits while the cluster is away."""

    def __init__(self, host: Host, cluster: KafkaCluster, chunks: "asyncio.Queue[_Chunk | BraidError]") -> None:
        self._host = host
        self._chunks = chunks
        self._admin = cluster.admin()
        self._fetcher = cluster.fetcher(
            max_partition_bytes=FETCH_PARTITION_BYTES, isolation=Isolation.READ_COMMITTED, client_rack=""
        )
        self._channels: dict[TopicPartition, Channel] = {}
        self._positions: dict[TopicPartition, int] = {}
        self.waiting: dict[TopicPartition, OffsetAt | int] = {}
        self.away = True
        self.skipped = 0

    def add(self, channel: Channel, partition: int, start: OffsetAt | int) -> None:
        """Adds a partition."""
        place = TopicPartition(channel.topic, partition)
        self._channels[place] = channel
        self.waiting[place] = start

    async def run(self) -> None:
        """Reads until cancelled."""
        await self._fetcher.start()
        while True:
            try:
                await self._place()
                await self._fetch()
            except ClusterUnavailable:
                self.away = True
                await self._host.clock.sleep(RESTORE_RETRY_SECONDS)
            except OffsetOutOfRange as error:
                place = TopicPartition(error.metadata["topic"], int(error.metadata["partition"]))
                self._drop(place)
                self.waiting[place] = OffsetAt.EARLIEST
            except BraidError as error:
                await self._chunks.put(error)
                return

    async def close(self) -> None:
        """Frees the client's connections."""
        await self._fetcher.close()
        await self._admin.close()

    async def _place(self) -> None:
        """Finds where new partitions begin; partitions whose topic is gone are left out."""
        asked = dict(self.waiting)  # more may be added meanwhile
        if not asked:
            return
        existing = await self._admin.describe_topics(sorted({place.topic for place in asked}))
        found = await self._admin.offsets_at({place: at for place, at in asked.items() if place.topic in existing})
        self._positions.update(found)
        self.waiting = {place: at for place, at in self.waiting.items() if place not in asked}
        self._fetcher.assign(self._positions)

    async def _fetch(self) -> None:
        if not self._positions:
            await self._host.clock.sleep(FETCH_WAIT_SECONDS)
            return
        fetched = await self._fetcher.fetch(FETCH_RECORDS_MAX, FETCH_WAIT_SECONDS)
        self.away = False
        for each in fetched:
            self._positions[each.partition] = each.next_offset
            for batch in each.damaged:
                self.skipped += batch.last_offset - batch.first_offset + 1
                _log.warning("%s-%d@%d to %d cannot be read and is skipped: %s", *each.partition, *batch[:3])
            if each.records:
                await self._chunks.put(_Chunk(self._channels[each.partition], each.partition.partition, each.records))

    def _drop(self, place: TopicPartition) -> None:
        self._positions.pop(place, None)
        self._fetcher.assign(self._positions)


def _position(start: Start) -> OffsetAt | int:
    if isinstance(start, datetime):
        return int(start.timestamp() * 1_000)
    return OffsetAt.LATEST if start == "latest" else OffsetAt.EARLIEST


def _seen(chunk: _Chunk) -> Iterator[SeenRecord]:
    channel = chunk.channel
    for record in chunk.records:
        if record.value != SEAL_CANARY or record.key is not None or record.headers:
            yield SeenRecord(channel.stream, channel.lane, channel.cluster, channel.topic, chunk.partition, record)
