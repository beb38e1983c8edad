"""One cluster's part of a consumer: its clients, fetch loop, commits and leases."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, Protocol

from braid.client.commits.committer import Committer
from braid.client.commits.encoder import CommitEncoder
from braid.client.commits.restore import Restored, restore
from braid.client.commits.spill import Spill
from braid.client.consuming.cluster_fetching import ClusterFetching
from braid.client.consuming.consumer_context import ConsumerContext
from braid.client.consuming.fetch_loop import FetchLoop
from braid.client.delivery.lease_work import LeaseWork
from braid.client.delivery.stages import Stage
from braid.client.records.delivery import OwnedLease
from braid.client.records.record import Record
from braid.client.records.where import headers_asked
from braid.client.telemetry.zone_bytes import Tally
from braid.kernel.errors import BraidError
from braid.kernel.limits.client import RESTORES_AT_ONCE
from braid.kernel.ports import Contact, Generation, Isolation, KafkaCluster, Task


class ClusterSettling(NamedTuple):
    """Receives the records of one cluster that are not simply done; `stages.Settling`."""

    park: Callable[[Record, float], None]
    write_dead_letter: Callable[[Record, BaseException | str], None]
    settled: Callable[[int], None]


class ClusterLeases(Protocol):
    """A consumer's leases, as its work on one cluster uses them."""

    def detached(self) -> bool:
        """Whether no assigner can be reached."""
        ...

    def begin_anew(self, lease: OwnedLease) -> None:
        """Reads a lease's progress again, because its log has nothing at the offset where fetching would continue."""
        ...

    async def ask_generation(self, cluster: str, generation: Generation) -> None:
        """Asks the assigner for a newer generation, because the cluster refuses commits of this one."""
        ...

    def close_finished(self, cluster: "ClusterWork", work: LeaseWork) -> None:
        """Closes a lease's finished backlog cursors, because a commit is about to be made."""
        ...


class ClusterWork:
    """One cluster's part of a consumer.

    Attributes:
        fetching: What is fetched of it.
        committer: Commits to it.
        settling: Where its partitions' records turn to when they are settled.
        cluster_id: Its own id; empty before it told any.
    """

    def __init__(
        self, name: str, cluster: KafkaCluster, context: ConsumerContext, leases: ClusterLeases, fetched: Tally
    ) -> None:
        """`fetched` counts the bytes of fetched records."""
        host, settings, background = context.host, context.settings, context.background
        self.admin = cluster.admin()
        self.offsets = cluster.offsets()
        self._group = settings.group
        self._spill = Spill(host, cluster, self.admin, settings.group, background.beside)
        before = partial(leases.close_finished, self)
        encoder = CommitEncoder(settings.group, self.admin, detached=leases.detached, spill=self._spill, before=before)
        self.committer = Committer(
            host,
            settings.group,
            self.offsets,
            encoder,
            interval_seconds=settings.commit_interval_seconds,
            refused=background.refuse,
            ask=partial(leases.ask_generation, name),
            resumed=lambda: self.fetching.review(),
        )
        self.fetching = ClusterFetching(self._loops(cluster, context, leases, fetched), background.watched)
        self.settling = ClusterSettling(context.retries.park, context.dead_letters.write, self.committer.settled)
        self._watch = background.watched
        self._tasks: list[Task] = []
        self._described = False
        self._restoring = asyncio.Semaphore(RESTORES_AT_ONCE)
        self._unread: dict[LeaseWork, tuple[float, str]] = {}  # since when progress is being read, and the last failure
        self._elapsed = host.clock.elapsed
        self.cluster_id = ""

    def _loops(
        self, cluster: KafkaCluster, context: ConsumerContext, leases: ClusterLeases, fetched: Tally
    ) -> Callable[[int], FetchLoop]:
        asked: Sequence[str] = headers_asked(context.settings.where)
        if context.pathways is not None:
            asked = context.pathways.asked(asked)

        def open_loop(max_partition_bytes: int) -> FetchLoop:
            fetcher = cluster.fetcher(
                isolation=Isolation.READ_COMMITTED,
                client_rack=context.zone,
                keep_damaged_bytes=context.settings.quarantine_bytes,
                max_partition_bytes=max_partition_bytes,
            )
            return FetchLoop(context.host, fetcher, context.memory, leases.begin_anew, self.committer, asked, fetched)

        return open_loop

    def start(self) -> None:
        """Starts fetching and committing."""
        self.fetching.start()
        self._tasks = [
            self._watch(self.committer.run, "committer"),
            self._watch(self.committer.tick, "commit-interval"),
        ]

    async def restore(self, work: LeaseWork) -> Restored | None:
        """Reads where work on a lease begins, some leases at once; nothing if it ended before its turn.

        Raises:
            ClusterUnavailable: the cluster does not answer.
            NotFound: the topic is gone.
        """
        since, _ = self._unread.setdefault(work, (self._elapsed(), ""))
        try:
            async with self._restoring:
                return await self._restore(work) if work.stage is Stage.RESTORING else None
        except BraidError as error:
            if work in self._unread:
                self._unread[work] = since, str(error)
            raise

    async def _restore(self, work: LeaseWork) -> Restored:
        place = work.lease.topic_partition
        spilled = partial(self._spill.read, work.lease.id, place)
        reading = restore(self._group, place, self.offsets, self.admin, spilled=spilled)
        restored, _ = await asyncio.gather(reading, self._describe())
        return restored

    async def _describe(self) -> None:
        """Reads, once, the cluster's limits."""
        if not self._described:
            described = await self.admin.describe_cluster()
            self.cluster_id = described.cluster_id
            self.committer.learn(described.offset_metadata_max_units, described.offsets_retention_minutes)
            self._described = True

    def unread(self, work: LeaseWork) -> str:
        """Says how long a lease's committed progress has been read, and the last failure; empty once it was read."""
        if work.stage is not Stage.RESTORING:
            return ""
        now = self._elapsed()
        since, why = self._unread.get(work, (now, ""))
        return f"for {now - since:.0f} s" + (f": {why}" if why else "")

    def add(self, work: LeaseWork) -> None:
        """Begins to fetch and commit a restored lease."""
        self._unread.pop(work, None)
        self.committer.add(work)
        self.fetching.add(work)

    def contact(self) -> Contact:
        """Says whether the cluster answers fetches and commits."""
        return self.fetching.contact().joined(self.committer.contact())

    def remove(self, work: LeaseWork) -> None:
        """Ends fetching and committing a lease."""
        self._unread.pop(work, None)
        self.committer.remove(work)
        self.fetching.remove(work)

    async def close(self) -> None:
        """Stops loops and clients, whatever state the cluster is in."""
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            await task.ended()
        await self.fetching.close()
        await self._spill.close()
        await self.offsets.close()
        await self.admin.close()
