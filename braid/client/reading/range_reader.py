"""Reads offset ranges `[start, end)` of single partitions: no group, no lease, nothing committed.

The caller knows that a range lies in its log. While the cluster is away, reading waits. When the log does not hold the
range any more, reading raises an error.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from braid.client.records.braid_headers import without_canaries
from braid.host.system import system_host
from braid.kafka.cluster import AioKafka
from braid.kernel.errors import BraidError, ClusterUnavailable, NotFound, OffsetOutOfRange
from braid.kernel.ids import SEAL_CANARY
from braid.kernel.limits.client import FETCH_WAIT_SECONDS
from braid.kernel.limits.planning import (
    SPARK_DIAGNOSE_SECONDS,
    SPARK_NO_BATCH_SECONDS,
    SPARK_PARTITION_BYTES,
    SPARK_SHORT_LOG_SECONDS,
    SPARK_WAIT_NOTICE_SECONDS,
)
from braid.kernel.ports import (
    DamagedBatch,
    FetchedColumns,
    FetchedRecords,
    Host,
    Isolation,
    KafkaCluster,
    KafkaRecord,
    OffsetAt,
    Task,
    TopicPartition,
)
from braid.kernel.record_columns import RecordColumns

_log = logging.getLogger("braid.spark")
_WAIT_SECONDS = FETCH_WAIT_SECONDS
_Fetched = TypeVar("_Fetched", FetchedRecords, FetchedColumns)


class Bounds(NamedTuple):
    """Offsets `[start, end)`: the bounds of a log, or of the part to be read."""

    start: int
    end: int


class RangeRecords(NamedTuple):
    """The result of a read: records in order, and undecodable batches, which the caller must report."""

    records: Sequence[KafkaRecord]
    damaged: Sequence[DamagedBatch] = ()


class RangeColumns(NamedTuple):
    """`RangeRecords` as columns, in one or more parts."""

    parts: Sequence[RecordColumns]
    damaged: Sequence[DamagedBatch] = ()


class RangeReader:
    """Reads ranges of one cluster, one after another, or several small ones at once.

    Attributes:
        left: What is not read yet of the ranges that are read side by side.
    """

    def __init__(self, host: Host, cluster: KafkaCluster, name: str, *, zone: str, wait_seconds: float) -> None:
        """`name` is the cluster's; `wait_seconds` bounds how long a range may make no progress."""
        self._host = host
        self._name = name
        self._wait_seconds = wait_seconds
        self._admin = cluster.admin()
        self._fetcher = cluster.fetcher(
            max_partition_bytes=SPARK_PARTITION_BYTES, isolation=Isolation.READ_COMMITTED, client_rack=zone
        )
        self.left: dict[TopicPartition, Bounds] = {}
        self._beside: set[TopicPartition] = set()
        self._starting: Task | None = None
        self._started = asyncio.Event()
        self._at = TopicPartition("", 0)
        self._position = self._end = 0
        self._passed: list[DamagedBatch] = []  # offsets without a batch that were not reported yet
        self._moved_at = self._noticed_at = self._diagnosed_at = 0.0
        self._short_since: float | None = None

    def begin(self, partition: TopicPartition, start: int, end: int) -> None:
        """Starts a range; the rest of earlier ranges is forgotten."""
        self._turn()
        self._at, self._position, self._end = partition, start, end
        self._moved_at = self._noticed_at = self._diagnosed_at = self._host.clock.elapsed()
        self._short_since = None
        self._passed = []
        if start < end:
            self._fetcher.assign({partition: start})

    def begin_together(self, ranges: Mapping[TopicPartition, Bounds]) -> None:
        """Starts several ranges at once, for `read_together`; the rest of earlier ranges is forgotten."""
        self._turn()
        self.left = {partition: bounds for partition, bounds in ranges.items() if bounds.start < bounds.end}
        self._beside = set(self.left)
        self._fetcher.assign({partition: bounds.start for partition, bounds in self.left.items()})

    @property
    def position(self) -> int:
        """Everything in the range below this offset was returned."""
        return self._position

    async def read(self, max_records: int) -> RangeRecords | None:
        """Returns the next records of the range, never an empty result; None at the range's end.

        Raises:
            OffsetOutOfRange: the log does not reach down or up to what is left of the range.
            NotFound: the topic is gone.
            ClusterUnavailable: no progress for as long as this reader waits.
        """
        while (fetched := await self._next(lambda: self._fetcher.fetch(max_records, _WAIT_SECONDS))) is not None:
            records = [record for each in fetched for record in each.records]
            if self._position >= self._end:
                records = [record for record in records if record.offset < self._end]
            if not all(record.headers for record in records):
                records = [record for record in records if not _is_canary(record)]
            found = RangeRecords(records, self._damaged_of(fetched))
            if found.records or found.damaged:
                return found
        return None

    async def read_columns(self, max_records: int, names: Sequence[str]) -> RangeColumns | None:
        """Reads like `read`, but returns columns with the headers of these names."""
        while (
            fetched := await self._next(lambda: self._fetcher.fetch_columns(max_records, _WAIT_SECONDS, names))
        ) is not None:
            parts = [without_canaries(_below(part, self._end)) for each in fetched for part in each.parts]
            found = RangeColumns([part for part in parts if len(part)], self._damaged_of(fetched))
            if found.parts or found.damaged:
                return found
        return None

    async def read_together(self, max_records: int) -> Sequence[tuple[TopicPartition, RangeRecords]]:
        """Returns what one fetch brings of the ranges that were begun together.

        The result is empty when all are read, and as soon as something is wrong: no answer, damage, or an offset that
        is not there. Then read the rest (`left`) range by range, which finds the cause.
        """
        found = []
        for bounds, each in await self._next_together(lambda: self._fetcher.fetch(max_records, _WAIT_SECONDS)):
            wanted = [record for record in each.records if record.offset < bounds.end and not _is_canary(record)]
            found.append((each.partition, RangeRecords(wanted)))
        return found

    async def read_columns_together(
        self, max_records: int, names: Sequence[str]
    ) -> Sequence[tuple[TopicPartition, RangeColumns]]:
        """Reads like `read_together`, but returns columns with the headers of these names."""
        found = []
        for bounds, each in await self._next_together(
            lambda: self._fetcher.fetch_columns(max_records, _WAIT_SECONDS, names)
        ):
            parts = [without_canaries(_below(part, bounds.end)) for part in each.parts]
            found.append((each.partition, RangeColumns([part for part in parts if len(part)])))
        return found

    async def bounds(self, partition: TopicPartition) -> Bounds:
        """Returns the log's present bounds. Raises `ClusterUnavailable`, `NotFound`."""
        start = (await self._admin.offsets_at({partition: OffsetAt.EARLIEST}))[partition]
        end = (await self._admin.offsets_at({partition: OffsetAt.LATEST}))[partition]
        return Bounds(start, end)

    async def close(self) -> None:
        """Frees the reader's connections."""
        if self._starting is not None:
            self._starting.cancel()
            await self._starting.ended()
        await self._fetcher.close()
        await self._admin.close()

    def _turn(self) -> None:
        if self._starting is None:
            self._starting = self._host.tasks.spawn(self._start(), f"range-reader-{self._name}")
        self._fetcher.assign({})  # a position is taken over only by a partition that was not assigned
        self._beside.clear()

    async def _start(self) -> None:
        await self._fetcher.start()
        self._started.set()

    async def _is_started(self) -> bool:
        """Whether the client is started; waits for it as long as for a fetch."""
        if not self._started.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_WAIT_SECONDS):
                    await self._started.wait()
        return self._started.is_set()

    async def _next_together(
        self, fetch: Callable[[], Awaitable[Sequence[_Fetched]]]
    ) -> Sequence[tuple[Bounds, _Fetched]]:
        """Returns sound parts of the next fetch, each with what was left of its range before it."""
        if not self._beside or not await self._is_started():
            return []
        fetched: Sequence[_Fetched] = []
        with contextlib.suppress(OffsetOutOfRange, ClusterUnavailable):
            fetched = await fetch()
        found: list[tuple[Bounds, _Fetched]] = []
        for each in fetched:
            bounds = self.left[each.partition]
            if each.damaged:  # the fetch went on behind the damage; what is left begins before it
                self._beside.discard(each.partition)
                continue
            found.append((bounds, each))
            self.left[each.partition] = Bounds(each.next_offset, bounds.end)
            if each.next_offset >= bounds.end:
                self._beside.discard(each.partition)
                del self.left[each.partition]
        # At once, as in `_fetch`: nobody shall wait at a log's end.
        self._fetcher.assign({partition: self.left[partition].start for partition in self._beside if found})
        return found

    async def _next(self, fetch: Callable[[], Awaitable[Sequence[_Fetched]]]) -> Sequence[_Fetched] | None:
        """Returns what the next fetch brings, perhaps nothing; None at the end of the range."""
        if self._position >= self._end:
            return None
        try:
            return await self._fetch(fetch)
        except OffsetOutOfRange:
            await self._diagnose()
            # A log may be short for a moment only. Asked again at once it says the same, as often as one asks.
            await self._host.clock.sleep(_WAIT_SECONDS)
            return []

    async def _fetch(self, fetch: Callable[[], Awaitable[Sequence[_Fetched]]]) -> Sequence[_Fetched]:
        if not await self._is_started():
            await self._waited()
            return []
        fetched: Sequence[_Fetched] = []
        try:
            fetched = await fetch()
        except ClusterUnavailable as error:
            if error.metadata.get("offset") == str(self._position) and self._is_lasting():
                self._pass_damage(error)
                return []
            _log.warning("reading is on hold: %s", error)
            await self._host.clock.sleep(_WAIT_SECONDS)
        for each in fetched:
            self._position = max(self._position, each.next_offset)
        if self._position >= self._end:
            # At once, in the same step of the loop: a fetch beyond the range would wait at the log's end, and whatever
            # is read next would wait behind it.
            self._fetcher.assign({})
        if fetched:
            self._moved_at = self._diagnosed_at = self._noticed_at = self._host.clock.elapsed()
            self._short_since = None
        elif self._position < self._end:
            await self._waited()
        return fetched

    def _damaged_of(self, fetched: Sequence[FetchedRecords] | Sequence[FetchedColumns]) -> Sequence[DamagedBatch]:
        passed, self._passed = self._passed, []
        return [*passed, *(batch for each in fetched for batch in each.damaged if batch.first_offset < self._end)]

    def _is_lasting(self) -> bool:
        """Whether the present offset has held no batch for so long that no passing fault of a broker explains it."""
        return self._host.clock.elapsed() - self._moved_at > SPARK_NO_BATCH_SECONDS

    def _pass_damage(self, error: ClusterUnavailable) -> None:
        """Passes one offset at which no batch can be read, because waiting would not help."""
        at = self._position
        self._position += 1
        self._moved_at = self._diagnosed_at = self._noticed_at = self._host.clock.elapsed()
        self._fetcher.assign({})
        if self._position < self._end:
            self._fetcher.assign({self._at: self._position})
        self._passed.append(DamagedBatch(at, at, error.message, 0, 0, self._host.clock.now_ms()))

    async def _waited(self) -> None:
        """Handles a fetch without records: logs it now and then, checks that the range exists, gives up in the end."""
        now = self._host.clock.elapsed()
        where = f"{self._at.topic} partition {self._at.partition} on cluster {self._name}"
        if now - self._moved_at > self._wait_seconds:
            raise ClusterUnavailable(
                f"{where} could not be read from offset {self._position} for {self._wait_seconds:g} s",
                remedy="repair the cluster and restart the query, or raise the option clusterWaitSeconds",
            )
        if now - self._noticed_at > SPARK_WAIT_NOTICE_SECONDS:
            _log.warning("waiting for %s, offset %d, since %.0f s", where, self._position, now - self._moved_at)
            self._noticed_at = now
        if now - self._diagnosed_at > SPARK_DIAGNOSE_SECONDS:
            await self._diagnose()

    async def _diagnose(self) -> None:
        """Raises if the cluster answers and the log does not hold the rest of the range."""
        self._diagnosed_at = self._host.clock.elapsed()
        try:
            if self._at.topic not in await self._admin.describe_topics([self._at.topic]):
                raise NotFound(f"topic {self._at.topic} on cluster {self._name} is gone")
            bounds = await self.bounds(self._at)
        except ClusterUnavailable:
            return
        if bounds.start > self._position:
            raise self._lost(self._position, min(bounds.start, self._end), f"the log begins at {bounds.start}")
        if bounds.end >= self._end:
            self._short_since = None
        elif self._short_since is None:
            self._short_since = self._diagnosed_at
        elif self._diagnosed_at - self._short_since > SPARK_SHORT_LOG_SECONDS:
            raise self._lost(bounds.end, self._end, f"the log ends at {bounds.end}")

    def _lost(self, start: int, end: int, why: str) -> BraidError:
        topic, number = self._at
        return OffsetOutOfRange(
            f"offsets {start} to {end} of {topic} partition {number} on cluster {self._name} are lost: {why}",
            metadata={"topic": topic, "partition": str(number), "start": str(start), "end": str(end)},
        )


def open_range_reader(
    name: str, bootstrap: str, security_profile: str, *, client_id: str, zone: str, wait_seconds: float
) -> RangeReader:
    """Opens a reader of a real cluster's ranges. Call it, and use the reader, on one running loop."""
    cluster = AioKafka(client_id).cluster(bootstrap, security_profile)
    return RangeReader(system_host(), cluster, name, zone=zone, wait_seconds=wait_seconds)


async def offsets_of(
    bootstrap: str, security_profile: str, at: Mapping[TopicPartition, OffsetAt | int], *, client_id: str
) -> Mapping[TopicPartition, int]:
    """Looks up offsets in one cluster's logs, as `KafkaAdmin.offsets_at` does, over a connection of its own.

    Raises:
        ClusterUnavailable: no answer in time.
        NotFound: a topic is gone.
    """
    admin = AioKafka(client_id).cluster(bootstrap, security_profile).admin()
    try:
        return await admin.offsets_at(at)
    finally:
        await admin.close()


def _is_canary(record: KafkaRecord) -> bool:
    """Whether a record is a canary, which no application sent: see `SEAL_CANARY`."""
    return record.value == SEAL_CANARY and record.key is None and not record.headers


def _below(part: RecordColumns, end: int) -> RecordColumns:
    """Returns the records below an offset."""
    return part if part.offsets[-1] < end else part.of(slice(part.offsets.searchsorted(end)))
