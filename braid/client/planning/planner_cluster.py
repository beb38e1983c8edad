"""One cluster's share of a lease planner: where its logs end, and the commits of what was done in them."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import NamedTuple

from braid.client.commits.committer import Committer
from braid.client.commits.encoder import CommitEncoder
from braid.client.commits.restore import restore
from braid.client.commits.spill import Spill
from braid.client.delivery.lease_work import LeaseWork
from braid.client.records.record import Record
from braid.client.tasks import Run
from braid.kernel.errors import BraidError, GroupOccupied, NotFound, Unavailable
from braid.kernel.ids import LeaseId
from braid.kernel.limits.client import COMMIT_RECORDS_MAX, RESTORES_AT_ONCE
from braid.kernel.limits.planning import SPARK_ENDS_FRESH_SECONDS, SPARK_ENDS_WAIT_SECONDS
from braid.kernel.ports import Generation, Host, KafkaCluster, OffsetAt, Task, TopicPartition
from braid.kernel.progress.tracker import Progress

_log = logging.getLogger("braid.planner")


class LogSeen(NamedTuple):
    """The newest bounds of a log from its cluster: its first offset and its end."""

    start: int
    end: int


_OCCUPIED = ("Stable", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")


def _started(watch: Callable[[Run, str], Task], run: Run, name: str) -> None:
    watch(run, name)


class PlannerCluster:
    """Asks one cluster for ends and progress, and commits to it; it also receives the rows that are done."""

    def __init__(
        self,
        host: Host,
        name: str,
        cluster: KafkaCluster,
        group: str,
        *,
        interval_seconds: float,
        detached: Callable[[], bool],
        refused: Callable[[BraidError], None],
        watch: Callable[[Run, str], Task],
        ask: Callable[[Generation], Awaitable[None]],
    ) -> None:
        """`detached` says whether no assigner can be reached; `refused` gets an error that no retry can mend."""
        self.name = name
        self._host = host
        self._group = group
        self._admin = cluster.admin()
        self._offsets = cluster.offsets()
        self._watch = watch
        self._tasks: list[Task] = []
        self._described = False
        self._restoring = asyncio.Semaphore(RESTORES_AT_ONCE)
        self._seen: dict[TopicPartition, LogSeen] = {}
        self._topic_ids: dict[str, bytes] = {}
        self._was_away = False
        self._asked_at = float("-inf")
        self._asking: Task | None = None
        self._answered = asyncio.Event()
        self._spill = Spill(host, cluster, self._admin, group, lambda run, what: _started(watch, run, what))
        self.committer = Committer(
            host,
            group,
            self._offsets,
            CommitEncoder(group, self._admin, detached=detached, spill=self._spill),
            interval_seconds=interval_seconds,
            refused=refused,
            ask=ask,
        )

    def start(self) -> None:
        """Starts committing."""
        self._tasks = [
            self._watch(self.committer.run, f"committer-{self.name}"),
            self._watch(self.committer.tick, f"commit-interval-{self.name}"),
        ]

    async def restore(self, work: LeaseWork, accept: Callable[[Progress, bytes], None] | None = None) -> None:
        """Reads the group's progress of a lease and lets its work begin, unless `accept` raises at what was read.

        Raises:
            ClusterUnavailable: the cluster is away.
            NotFound: the topic is gone.
            GroupOccupied: other Kafka consumers use the group's name here, so nothing could be committed.
        """
        if not self._described:
            await self._check_group()
            described = await self._admin.describe_cluster()
            self.committer.learn(described.offset_metadata_max_units, described.offsets_retention_minutes)
            self._described = True
        # A query plans ranges of offsets by itself: what cursors of others did beyond the base is remembered as done.
        place = work.lease.topic_partition
        spilled = partial(self._spill.read, work.lease.id, place)
        async with self._restoring:
            progress, topic_id, *_ = await restore(
                self._group, place, self._offsets, self._admin, spilled=spilled, divide=False
            )
        # Whoever held the lease before noted when the newest record it saw was sent. Nobody tells this member of times,
        # and that one would soon look like the age of what is not done yet.
        progress.forget_head()
        self._topic_ids.pop(work.lease.topic_partition.topic, None)
        if accept is not None:
            accept(progress, topic_id)
        work.begin(progress, topic_id)
        if work.working:
            self.committer.add(work)
            self._asked_at = float("-inf")

    async def _check_group(self) -> None:
        if self.committer.generation is not None:  # then the group's one member is the assigner's own
            return
        state = await self._offsets.group_state(self._group)
        if state in _OCCUPIED:
            raise GroupOccupied(
                f"group {self._group} has members of other Kafka consumers on cluster {self.name} ({state})",
                field="group",
                remedy="stop them, or use another group's name",
            )

    async def logs(self) -> dict[LeaseId, LogSeen]:
        """Returns where the logs of restored leases begin and end, as of a moment ago; nothing without an answer.

        A cluster that is away is waited for once; then its answer is taken when it comes.
        """
        now = self._host.clock.elapsed()
        if self._asking is None and now - self._asked_at > SPARK_ENDS_FRESH_SECONDS:
            self._answered.clear()
            self._asking = self._watch(self._ask, f"ends-{self.name}")
            try:
                async with asyncio.timeout(SPARK_ENDS_WAIT_SECONDS):
                    await self._answered.wait()
            except TimeoutError:
                _log.info("cluster %s does not answer: nothing of it is planned", self.name)
        if self._asking is not None:
            return {}
        return {
            work.lease.id: self._seen[work.lease.topic_partition]
            for work in self.committer.works
            if work.lease.topic_partition in self._seen
        }

    def was_replaced(self, work: LeaseWork) -> bool:
        """Whether a lease's topic is another one than when its progress was read, while its cluster was away."""
        return self._topic_ids.get(work.lease.topic_partition.topic, work.topic_id) != work.topic_id

    async def _ask(self) -> None:
        partitions = [work.lease.topic_partition for work in self.committer.works]
        try:
            if self._was_away:  # it may have come back without its data
                topics = sorted({partition.topic for partition in partitions})
                found = await self._admin.describe_topics(topics)
                self._topic_ids = {name: topic.topic_id for name, topic in found.items()}
            self._seen = await self._look(partitions)
            self._was_away = False
        except Unavailable as error:
            _log.debug("ends of cluster %s are not known: %s", self.name, error)
            self._seen = {}
            self._was_away = True
        self._asked_at = self._host.clock.elapsed()
        self._asking = None
        self._answered.set()

    async def _look(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, LogSeen]:
        """Asks about all topics at once; when one is gone, about each alone, so that it does not hide the others."""
        if not partitions:
            return {}
        try:
            starts, ends = await asyncio.gather(
                self._admin.offsets_at(dict.fromkeys(partitions, OffsetAt.EARLIEST)),
                self._admin.offsets_at(dict.fromkeys(partitions, OffsetAt.LATEST)),
            )
        except NotFound as error:
            topics = sorted({partition.topic for partition in partitions})
            if len(topics) == 1:
                _log.debug("nothing of topic %s is planned: %s", topics[0], error)
                self._was_away = True
                return {}
            found: dict[TopicPartition, LogSeen] = {}
            for topic in topics:
                found |= await self._look([partition for partition in partitions if partition.topic == topic])
            return found
        return {partition: LogSeen(starts[partition], ends[partition]) for partition in partitions}

    async def close(self) -> None:
        """Stops loops and clients, whatever state the cluster is in."""
        tasks = [*self._tasks, *([self._asking] if self._asking is not None else [])]
        for task in tasks:
            task.cancel()
        for task in tasks:
            await task.ended()
        await self._offsets.close()
        await self._admin.close()

    # --- `Settling`: rows are done or not; single records are never settled here

    def settled(self, count: int) -> None:
        """Makes a commit due now, because a planned range is done."""
        self.committer.settled(max(count, COMMIT_RECORDS_MAX))

    def park(self, record: Record, delay_seconds: float) -> None:
        """Never called: planned ranges hold no record here."""
        raise AssertionError("a planned range parks no record")

    def write_dead_letter(self, record: Record, error: BaseException | str) -> None:
        """Never called: planned ranges hold no record here."""
        raise AssertionError("a planned range dead-letters no record")
