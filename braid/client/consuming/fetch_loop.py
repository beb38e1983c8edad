"""Fetches one cluster's leased partitions into memory, within a bound that all clusters of a consumer share."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Protocol

from braid.client.delivery.cursor import Cursor
from braid.client.delivery.memory_bound import MemoryBound
from braid.client.records.delivery import OwnedLease
from braid.client.telemetry.zone_bytes import Tally
from braid.kernel.errors import BraidError, ClusterUnavailable, OffsetOutOfRange
from braid.kernel.limits.client import FETCH_RECORDS_MAX, FETCH_WAIT_SECONDS
from braid.kernel.ports import Contact, FetchLane, Host, KafkaFetcher, TopicPartition

_log = logging.getLogger("braid.consumer")


class FetchGate(Protocol):
    """Says whether fetching is stopped."""

    @property
    def stopped(self) -> bool:
        """Whether no new work may begin."""
        ...


class FetchLoop:
    """Fetches the leased partitions of one cluster."""

    def __init__(
        self,
        host: Host,
        fetcher: KafkaFetcher,
        memory: MemoryBound,
        out_of_range: Callable[[OwnedLease], None],
        gate: FetchGate,
        asked: Sequence[str],
        counted: Tally,
    ) -> None:
        """`out_of_range` hears of a lease whose position left its log: its progress has to be read anew.

        While `gate` is stopped nothing is fetched; whoever ends that calls `review`. `asked` are the headers to fetch.
        `counted` counts the bytes of keys and values of what is taken.
        """
        self._counted = counted
        self._asked = asked
        self._gate = gate
        self._host = host
        self._fetcher = fetcher
        self._out_of_range = out_of_range
        self._cursors: dict[TopicPartition, Cursor] = {}
        self._lanes: dict[TopicPartition, FetchLane] = {}
        self._paused: dict[TopicPartition, None] = {}
        self._stirred = asyncio.Event()
        memory.on_room(self.review)

    def add(self, cursor: Cursor) -> None:
        """Begins to fetch a cursor's range."""
        self._cursors[cursor.lease.topic_partition] = cursor
        self._lanes[cursor.lease.topic_partition] = FetchLane(cursor.memory.name, cursor.memory.share)
        self._paused.pop(cursor.lease.topic_partition, None)
        self._assign()

    def remove(self, cursor: Cursor) -> None:
        """Stops fetching a cursor's range."""
        if self._cursors.get(cursor.lease.topic_partition) is cursor:
            del self._cursors[cursor.lease.topic_partition], self._lanes[cursor.lease.topic_partition]
            self._paused.pop(cursor.lease.topic_partition, None)
            self._assign()

    async def run(self) -> None:
        """Connects, then fetches until cancelled, however often the cluster goes away."""
        await self._fetcher.start()
        while True:
            self.review()
            if len(self._paused) == len(self._cursors):
                self._stirred.clear()
                await self._stirred.wait()
                continue
            await self._fetch()

    def contact(self) -> Contact:
        """Says whether the cluster answers fetches."""
        return self._fetcher.contact()

    async def close(self) -> None:
        """Stops the loop's client."""
        await self._fetcher.close()

    async def _fetch(self) -> None:
        try:
            fetched = await self._fetcher.fetch_columns(FETCH_RECORDS_MAX, FETCH_WAIT_SECONDS, self._asked)
        except OffsetOutOfRange as error:
            self._restart(error)
            return
        except ClusterUnavailable as error:
            _log.warning("fetching is on hold: %s", error)
            await self._host.clock.sleep(FETCH_WAIT_SECONDS)
            return
        for each in fetched:
            cursor = self._cursors.get(each.partition)
            if cursor is not None:
                self._counted.bytes += cursor.accept(each)
        await asyncio.sleep(0)  # records fetched ahead come without waiting: give handlers a turn

    def _assign(self) -> None:
        known = {at: cursor.known_log for at, cursor in self._cursors.items()}
        self._fetcher.assign({at: cursor.progress.fetched for at, cursor in self._cursors.items()}, self._lanes, known)
        self._stirred.set()

    def review(self) -> None:
        """Pauses the partitions of lanes that are full, resumes those of lanes that have room again."""
        for cursor in self._cursors.values():
            cursor.note_acked()
        for lane in {id(cursor.memory): cursor.memory for cursor in self._cursors.values()}.values():
            lane.review()
        stopped = self._gate.stopped
        held = {at for at, cursor in self._cursors.items() if stopped or cursor.memory.held_back or cursor.read_up}
        full = [at for at in self._cursors if at in held and at not in self._paused]
        roomy = [at for at in self._paused if at not in held]
        if full:
            self._paused.update(dict.fromkeys(full))
            self._fetcher.pause(full)
        if roomy:
            for partition in roomy:
                del self._paused[partition]
            self._fetcher.resume(roomy)
            self._stirred.set()

    def _restart(self, error: BraidError) -> None:
        """Reads progress again after a position left the log: retention was faster, or the log was cut."""
        _log.warning("fetch position outside the log: %s", error)
        partition = TopicPartition(error.metadata["topic"], int(error.metadata["partition"]))
        cursor = self._cursors.pop(partition, None)
        self._lanes.pop(partition, None)
        self._paused.pop(partition, None)
        self._assign()
        if cursor is not None:
            self._out_of_range(cursor.lease)
