"""The fetcher's twin in memory."""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial

from braid.kafka.fetching.contact import Owing
from braid.kafka.fetching.lane_turns import FetchTurns
from braid.kafka.memory.link import Link
from braid.kafka.memory.log import Log
from braid.kernel.errors import ClusterUnavailable, NotFound, OffsetOutOfRange
from braid.kernel.limits.kafka import KAFKA_BACKOFF_MS
from braid.kernel.ports import (
    NO_LANES,
    UNKNOWN_LOGS,
    Contact,
    FetchedColumns,
    FetchedRecords,
    FetchLane,
    KnownLog,
    TopicPartition,
)
from braid.kernel.record_columns import columns_of

_BACKOFF_SECONDS = KAFKA_BACKOFF_MS / 1_000


class MemoryFetcher:
    """The twin of `KafkaFetcher`, over a link. Logs in memory hold neither control records nor transactions."""

    def __init__(self, link: Link, *, max_partition_bytes: int, keep_damaged_bytes: int = 0) -> None:
        self._link = link
        self._max_partition_bytes = max_partition_bytes
        self._keep_damaged_bytes = keep_damaged_bytes
        self._positions: dict[TopicPartition, int] = {}
        self._paused: set[TopicPartition] = set()
        self._turns = FetchTurns()
        self._known: dict[TopicPartition, KnownLog] = {}  # the newest leader epoch of it grows with what is fetched
        self._checked: dict[TopicPartition, int] = {}  # under which leader epoch the log was compared with that
        self._starting = False
        self._started = False
        self._owing = Owing()

    async def start(self) -> None:
        """See `KafkaFetcher.start`."""
        self._starting = True
        self._note()
        while not self._started:
            try:
                await self._link.call(self._link.cluster.describe)
                self._started = True
            except ClusterUnavailable:
                await asyncio.sleep(_BACKOFF_SECONDS)
        self._starting = False
        self._note()

    def assign(
        self,
        positions: Mapping[TopicPartition, int],
        lanes: Mapping[TopicPartition, FetchLane] = NO_LANES,
        known: Mapping[TopicPartition, KnownLog] = UNKNOWN_LOGS,
    ) -> None:
        """See `KafkaFetcher.assign`."""
        self._turns.assign(lanes)
        self._known = {
            partition: self._known[partition] if partition in self._positions else known.get(partition, KnownLog())
            for partition in positions
        }
        self._checked = {partition: self._checked.get(partition, -1) for partition in self._known}
        self._checked |= dict.fromkeys(self._known.keys() - self._positions.keys(), -1)
        self._positions = {partition: self._positions.get(partition, at) for partition, at in positions.items()}
        self._paused.intersection_update(positions)
        self._note()
        self._link.cluster.notify()

    def pause(self, partitions: Sequence[TopicPartition]) -> None:
        """See `KafkaFetcher.pause`."""
        self._paused.update(partition for partition in partitions if partition in self._positions)
        self._note()

    def resume(self, partitions: Sequence[TopicPartition]) -> None:
        """See `KafkaFetcher.resume`."""
        self._paused.difference_update(partitions)
        self._note()
        self._link.cluster.notify()

    async def fetch(self, max_records: int, timeout_seconds: float) -> Sequence[FetchedRecords]:
        """See `KafkaFetcher.fetch`."""
        cluster, time, seen = self._link.cluster, asyncio.get_running_loop().time, -1
        ends = time() + timeout_seconds
        while await cluster.until(partial(self._answered, seen), ends - time()):
            await self._link.travel_both_ways()
            seen = cluster.changes
            # An answer is taken as a whole or not at all, so that no position moves past what nobody got.
            fetched = self._collect(max_records) if self._reachable() else []
            if fetched:
                return fetched
        return []

    async def fetch_columns(
        self, max_records: int, timeout_seconds: float, names: Sequence[str]
    ) -> Sequence[FetchedColumns]:
        """See `KafkaFetcher.fetch_columns`."""
        return [
            FetchedColumns(
                found.partition,
                [columns_of(found.records, names)] if found.records else [],
                found.next_offset,
                found.damaged,
                found.leader_epoch,
            )
            for found in await self.fetch(max_records, timeout_seconds)
        ]

    def contact(self) -> Contact:
        """See `KafkaFetcher.contact`."""
        denial = self._link.denial
        if denial is not None:
            self._owing.refused(denial.message)
        else:
            self._note()
        return self._owing.contact((), asyncio.get_running_loop().time())

    async def close(self) -> None:
        """See `KafkaFetcher.close`."""
        self._positions = {}

    def _reachable(self) -> bool:
        return self._started and self._link.answers

    def _note(self) -> None:
        """Notes what the answers of a real broker, which holds no fetch for long, would show now."""
        now, wanted = asyncio.get_running_loop().time(), [at for at in self._positions if at not in self._paused]
        self._owing.wants(now, anything=self._starting or bool(wanted))
        if not self._link.answers:
            self._owing.in_vain(now)
        elif any(self._link.cluster.end(at) is not None for at in wanted) and self._started:
            self._owing.answered(now)
        else:
            self._owing.excused()

    def _answered(self, seen: int) -> bool:
        """Whether, after more than so many changes, a caller could get a result.

        That is a position that is not its log's end, or one that has to be compared with the log of a later leader.
        """
        if self._link.cluster.changes == seen:
            return False
        if not self._reachable():
            self._note()
            return False
        for partition, position in self._positions.items():
            if partition in self._paused or (end := self._link.cluster.end(partition)) is None:
                continue
            if end != position or self._is_due(partition):
                return True
        return False

    def _collect(self, max_records: int) -> list[FetchedRecords]:
        fetched: list[FetchedRecords] = []
        left = max_records
        self._turns.offer([at for at in self._positions if at not in self._paused])
        while left > 0 and (turn := self._turns.next(left)) is not None:
            partition, limit = turn
            found = self._read(partition, limit, raises=not fetched)
            if found is None or found.next_offset == self._positions[partition]:
                self._turns.took(0, more=False)
                continue
            self._turns.took(found.size, more=found.size == limit)
            left -= found.size
            # Whoever was served goes to the end, so that one busy partition does not starve the rest.
            del self._positions[partition]
            self._positions[partition] = found.next_offset
            known = self._known.get(partition, KnownLog())
            self._known[partition] = known._replace(leader_epoch=max(known.leader_epoch, found.leader_epoch))
            fetched.append(found)
        return fetched

    def _read(self, partition: TopicPartition, limit: int, *, raises: bool) -> FetchedRecords | None:
        """Reads a partition; nothing if no broker leads it, or for a position outside its log unless that `raises`."""
        position = self._positions[partition]
        try:
            log = self._link.cluster.led_log(partition)
        except (NotFound, ClusterUnavailable):
            return None
        try:
            self._check_same(partition, log, position)
            found = log.read(position, limit, self._max_partition_bytes)
        except OffsetOutOfRange as error:
            if not raises:
                return None
            where = {"topic": partition.topic, "partition": str(partition.partition), "offset": str(position)}
            raise OffsetOutOfRange(error.message, metadata=where) from error
        last = log.batch_of(found.next_offset - 1)
        damaged = [each._replace(raw=each.raw[: self._keep_damaged_bytes]) for each in found.damaged]
        return FetchedRecords(
            partition, found.records, found.next_offset, damaged, -1 if last is None else last.leader_epoch
        )

    def _check_same(self, partition: TopicPartition, log: Log, position: int) -> None:
        """Raises `OffsetOutOfRange` when a later leader began to write below what is known of the log.

        Looks, as the real fetcher does, once for each later leader that metadata shows; metadata is asked for anew at
        once when a leader goes.
        """
        if not self._is_due(partition):
            return
        known = self._known[partition]
        if log.epoch_end(known.leader_epoch) < max(position, known.end):
            raise OffsetOutOfRange(f"offset {position} lies in a log that was cut below it and has new records since")
        self._checked[partition] = self._link.cluster.leader_epoch_of(partition)

    def _is_due(self, partition: TopicPartition) -> bool:
        """Whether the log has a later leader than those under which what is known of it was fetched, or compared."""
        known = self._known.get(partition, KnownLog()).leader_epoch
        return known >= 0 and max(known, self._checked.get(partition, -1)) < self._link.cluster.leader_epoch_of(
            partition
        )
