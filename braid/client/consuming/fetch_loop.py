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
from braid.kernel.limits.client import (
    FETCH_ASSIGN_SECONDS,
    FETCH_ASSIGNED_ANEW,
    FETCH_RECORDS_MAX,
    FETCH_WAIT_SECONDS,
)
from braid.kernel.ports import Contact, FetchLane, Host, KafkaFetcher, Task, TopicPartition

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
        self._left: set[TopicPartition] = set()  # removed, but the fetcher was not told yet
        self._assigned_at = float("-inf")
        self._assigning: Task | None = None
        self._stirred = asyncio.Event()
        memory.on_room(self.review)

    def add(self, cursor: Cursor) -> None:
        """Begins to fetch a cursor's range."""
        at = cursor.lease.topic_partition
        if at in self._left:
            self._assign()  # else the fetcher would go on where the earlier cursor was
        self._cursors[at] = cursor
        self._lanes[at] = FetchLane(cursor.memory.name, cursor.memory.share)
        self._paused.pop(at, None)
        self._assign_soon()

    def remove(self, cursor: Cursor) -> None:
        """Stops fetching a cursor's range."""
        if self._cursors.get(cursor.lease.topic_partition) is cursor:
            self._forget(cursor.lease.topic_partition)
            self._assign_soon()

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
        self._forget_delay()
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

    def _forget(self, at: TopicPartition) -> Cursor | None:
        self._lanes.pop(at, None)
        self._paused.pop(at, None)
        self._left.add(at)
        return self._cursors.pop(at, None)

    def _assign_soon(self) -> None:
        """Assigns now, or a little later if that was just done: it takes time per cursor, and thousands may come."""
        if self._assigning is not None:
            return
        many = max(0, len(self._cursors) - FETCH_ASSIGNED_ANEW)
        delay = self._assigned_at + many * FETCH_ASSIGN_SECONDS - self._host.clock.elapsed()
        if many and delay > 0:
            self._assigning = self._host.tasks.spawn(self._assign_after(delay), "assignment")
        else:
            self._assign()

    async def _assign_after(self, seconds: float) -> None:
        await self._host.clock.sleep(seconds)
        self._assigning = None
        self._assign()

    def _assign(self) -> None:
        self._forget_delay()
        self._left.clear()
        known = {at: cursor.known_log for at, cursor in self._cursors.items()}
        self._fetcher.assign({at: cursor.progress.fetched for at, cursor in self._cursors.items()}, self._lanes, known)
        if self._paused:
            self._fetcher.pause(list(self._paused))  # those that were paused before the fetcher knew of them
        self._assigned_at = self._host.clock.elapsed()
        self._stirred.set()

    def _forget_delay(self) -> None:
        if self._assigning is not None:
            self._assigning.cancel()
            self._assigning = None

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
        cursor = self._forget(partition)
        self._assign()
        if cursor is not None:
            self._out_of_range(cursor.lease)
