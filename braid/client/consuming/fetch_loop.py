"""Fetches one cluster's leased partitions into memory, within a bound that all clusters of a consumer share."""

import asyncio
import logging
from collections.abc import Callable, Sequence

from braid.client.delivery.memory_bound import MemoryBound
from braid.client.delivery.partition_work import PartitionWork
from braid.client.records.braid_headers import MARKS
from braid.client.telemetry.zone_bytes import Tally
from braid.kernel.errors import BraidError, ClusterUnavailable, OffsetOutOfRange
from braid.kernel.limits.client import FETCH_RECORDS_MAX, FETCH_WAIT_SECONDS
from braid.kernel.ports import Contact, FetchLane, Host, KafkaFetcher, KnownLog, TopicPartition

_log = logging.getLogger("braid.consumer")


class FetchLoop:
    """The fetch loop of one cluster."""

    def __init__(
        self,
        host: Host,
        fetcher: KafkaFetcher,
        memory: MemoryBound,
        out_of_range: Callable[[PartitionWork], None],
        stopped: Callable[[], bool] = lambda: False,
        asked: Sequence[str] = MARKS,
        counted: Tally | None = None,
    ) -> None:
        """`out_of_range` hears of a lease whose position left its log: its progress has to be read anew.

        While `stopped` nothing is fetched; whoever ends that calls `review`. `asked` are the headers to fetch.
        `counted` counts the bytes of keys and values of what is taken.
        """
        self._counted = counted or Tally()
        self._asked = asked
        self._stopped = stopped
        self._host = host
        self._fetcher = fetcher
        self._out_of_range = out_of_range
        self._works: dict[TopicPartition, PartitionWork] = {}
        self._lanes: dict[TopicPartition, FetchLane] = {}
        self._paused: dict[TopicPartition, None] = {}
        self._stirred = asyncio.Event()
        memory.on_room(self._respect_bound)

    def add(self, work: PartitionWork) -> None:
        """Begins to fetch a restored lease."""
        self._works[work.lease.topic_partition] = work
        self._lanes[work.lease.topic_partition] = FetchLane(work.memory.name, work.memory.share)
        self._paused.pop(work.lease.topic_partition, None)
        self._assign()

    def remove(self, work: PartitionWork) -> None:
        """Stops fetching a lease."""
        if self._works.get(work.lease.topic_partition) is work:
            del self._works[work.lease.topic_partition], self._lanes[work.lease.topic_partition]
            self._paused.pop(work.lease.topic_partition, None)
            self._assign()

    async def run(self) -> None:
        """Connects, then fetches until cancelled, however often the cluster goes away."""
        await self._fetcher.start()
        while True:
            self._respect_bound()
            if len(self._paused) == len(self._works):
                self._stirred.clear()
                await self._stirred.wait()
                continue
            await self._fetch()

    def review(self) -> None:
        """Something may be fetched again."""
        self._respect_bound()

    def contact(self) -> Contact:
        """Whether the cluster answers fetches."""
        return self._fetcher.contact()

    async def close(self) -> None:
        """Stops the client."""
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
            work = self._works.get(each.partition)
            if work is not None:
                work.accept(each)
                self._counted.bytes += work.content
                work.content = 0
        await asyncio.sleep(0)  # what is fetched ahead comes without waiting; handlers get their turn

    def _assign(self) -> None:
        known = {at: KnownLog(work.leader_epoch, work.restored_end) for at, work in self._works.items()}
        self._fetcher.assign({at: work.progress.fetched for at, work in self._works.items()}, self._lanes, known)
        self._stirred.set()

    def _respect_bound(self) -> None:
        """Pauses the partitions of lanes that are full, resumes those of lanes that have room again."""
        for work in self._works.values():
            work.note_acked()
        for lane in {id(work.memory): work.memory for work in self._works.values()}.values():
            lane.review()
        stopped = self._stopped()
        held = {at for at, work in self._works.items() if stopped or work.memory.held_back or work.read_up}
        full = [at for at in self._works if at in held and at not in self._paused]
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
        """A position left the log under our hands: retention was faster, or the log was truncated."""
        _log.warning("fetch position outside the log: %s", error)
        partition = TopicPartition(error.metadata["topic"], int(error.metadata["partition"]))
        work = self._works.pop(partition, None)
        self._lanes.pop(partition, None)
        self._paused.pop(partition, None)
        self._assign()
        if work is not None:
            self._out_of_range(work)
