"""Tails the offset log of one cluster into its model: every partition from its start, then as it grows.

Only committed records are read, so that commits of aborted transactions do not count. A partition that was cut or made
anew is read again from its start.
"""

import contextlib
from collections.abc import Callable, Mapping

from structlog.stdlib import BoundLogger

from braid.kafka.offset_log.records import OFFSETS_TOPIC
from braid.kafka.offset_log.table import Damage, OffsetTable
from braid.kernel.errors import BraidError, ClusterUnavailable, OffsetOutOfRange
from braid.kernel.limits.client import FETCH_WAIT_SECONDS
from braid.kernel.limits.lagmon.sampling import (
    LAG_CHECKPOINT_SECONDS,
    LAG_FETCH_BYTES,
    LAG_FETCH_RECORDS,
    LAG_QUIET_SECONDS,
    LAG_STALE_SECONDS,
    LAG_TOPICS_SECONDS,
)
from braid.kernel.ports import (
    FetchedColumns,
    Host,
    Isolation,
    KafkaAdmin,
    KafkaCluster,
    KafkaFetcher,
    KnownLog,
    OffsetAt,
    TopicDescription,
    TopicPartition,
)
from braid.kernel.timing.backoff import Backoff
from services.lagmon.columns.checkpoint import Checkpoint
from services.lagmon.domain import ClusterModel
from services.lagmon.policy import LONG_AGO
from services.lagmon.reconciler.checkpoints import Checkpoints


class OffsetTail:
    """Follows one cluster's offset log, also while the cluster comes and goes."""

    def __init__(
        self,
        host: Host,
        cluster: KafkaCluster,
        model: ClusterModel,
        took: Callable[[], None],
        log: BoundLogger,
        checkpoints: Checkpoints | None = None,
    ) -> None:
        self.table = OffsetTable()
        self._checkpoints = checkpoints
        self._unused: Checkpoints | None = checkpoints  # is read once, at the start
        self._host = host
        self._cluster = cluster
        self._model = model
        self._took = took  # is told whenever the model took commits
        self._log = log
        self._positions: dict[TopicPartition, int] = {}
        self._targets: dict[TopicPartition, int] = {}
        self._epochs: dict[TopicPartition, int] = {}
        self._answered_ms = 0  # the wall clock when the cluster last described the log
        self._moved_at = 0.0
        self._noted = 0
        self.read_at = LONG_AGO  # when the log last answered

    async def run(self) -> None:
        """Tails until cancelled."""
        backoff = Backoff(self._host)
        admin = self._cluster.admin()
        fetcher = self._cluster.fetcher(
            max_partition_bytes=LAG_FETCH_BYTES, isolation=Isolation.READ_COMMITTED, client_rack=""
        )
        try:
            await fetcher.start()
            while True:
                with contextlib.suppress(ClusterUnavailable):  # known lag stays, and is shown as stale
                    await self._read_anew(admin, fetcher)
                    backoff.reset()
                await backoff.wait()
        finally:
            await fetcher.close()
            await admin.close()

    async def _read_anew(self, admin: KafkaAdmin, fetcher: KafkaFetcher) -> None:
        """Reads the offset log from its start and follows it, until another offset log is in its place."""
        topic = await self._find(admin)
        partitions = [TopicPartition(OFFSETS_TOPIC, number) for number in range(topic.partitions)]
        starts = await admin.offsets_at(dict.fromkeys(partitions, OffsetAt.EARLIEST))
        self._targets = dict(await admin.offsets_at(dict.fromkeys(partitions, OffsetAt.LATEST)))
        self._answered_ms = self._host.clock.now_ms()
        saved = await self._saved(topic)
        fetcher.assign({})
        for number in range(topic.partitions):
            self._model.forget(number)
        self._positions, self._epochs = dict(starts), {}
        self._moved_at = self.read_at = self._host.clock.elapsed()
        self._model.catching_up = True
        known = await self._restore(saved) if saved is not None else {}
        fetcher.assign(self._positions, known=known)
        looked_at = saved_at = self._host.clock.elapsed()
        while True:
            await self._read_some(admin, fetcher)
            now = self._host.clock.elapsed()
            if now - looked_at >= LAG_TOPICS_SECONDS:
                looked_at = now
                if await self._is_other(admin, topic):
                    return
            if now - saved_at >= LAG_CHECKPOINT_SECONDS and not self._model.catching_up:
                saved_at = now
                self._save(topic)

    async def _saved(self, topic: TopicDescription) -> Checkpoint | None:
        """Returns what an earlier life of this replica saved of this log; asked for once."""
        checkpoints, self._unused = self._unused, None
        return await checkpoints.load(topic.topic_id) if checkpoints is not None else None

    async def _restore(self, saved: Checkpoint) -> Mapping[TopicPartition, KnownLog]:
        """Takes saved commits of partitions whose log still holds what came after; returns what is known of these."""
        known: dict[TopicPartition, KnownLog] = {}
        partitions = [TopicPartition(OFFSETS_TOPIC, number) for number in range(len(self._positions))]
        starts, ends = ([of[partition] for partition in partitions] for of in (self._positions, self._targets))
        for number in saved.usable(starts, ends):
            partition, position, epoch = partitions[number], saved.positions[number], saved.epochs[number]
            for commits in saved.commits(number):
                self._model.take(number, commits, LONG_AGO)
                await self._host.clock.sleep(0)
            self._positions[partition], self._epochs[partition] = position, epoch
            known[partition] = KnownLog(epoch, position)
        self._log.info("offsets begin with a checkpoint", partitions=len(known), rows=len(self._model.progress))
        return known

    def _save(self, topic: TopicDescription) -> None:
        """Begins to write what was read so far, and up to where."""
        if self._checkpoints is None:
            return
        partitions = [TopicPartition(OFFSETS_TOPIC, number) for number in range(topic.partitions)]
        positions = [self._positions[partition] for partition in partitions]
        epochs = [self._epochs.get(partition, -1) for partition in partitions]
        rows = self._model.progress.commits()
        self._checkpoints.save(Checkpoint(topic.topic_id, self._answered_ms, positions, epochs, *rows))

    async def _find(self, admin: KafkaAdmin) -> TopicDescription:
        """Waits for the offset log to exist; a cluster has none before its first group."""
        while True:
            topic = (await admin.describe_topics([OFFSETS_TOPIC])).get(OFFSETS_TOPIC)
            if topic is not None and topic.partitions:
                return topic
            self._model.catching_up, self.read_at = False, self._host.clock.elapsed()
            await self._host.clock.sleep(FETCH_WAIT_SECONDS)

    async def _is_other(self, admin: KafkaAdmin, known: TopicDescription) -> bool:
        """Whether the offset log was replaced, or has another number of partitions."""
        try:
            found = (await admin.describe_topics([OFFSETS_TOPIC])).get(OFFSETS_TOPIC)
        except ClusterUnavailable:
            return False
        self._answered_ms = self._host.clock.now_ms()
        return found is None or (found.topic_id, found.partitions) != (known.topic_id, known.partitions)

    async def _read_some(self, admin: KafkaAdmin, fetcher: KafkaFetcher) -> None:
        try:
            fetched = await fetcher.fetch_columns(LAG_FETCH_RECORDS, FETCH_WAIT_SECONDS, ())
        except OffsetOutOfRange as error:
            await self._restart(admin, fetcher, _place(error))
            return
        except ClusterUnavailable as error:
            self._pass_damage(fetcher, error)
            return
        for each in fetched:
            self._take(each)
        self._took()
        await self._catch_up_after_a_pause(admin)
        self._look_whether_caught_up(bool(fetched))
        self._tell_damage()
        await self._host.clock.sleep(0)  # what is in hand comes without waiting: calls get their turn

    def _take(self, fetched: FetchedColumns) -> None:
        heard_at = LONG_AGO if self._model.catching_up else self._host.clock.elapsed()
        number = fetched.partition.partition
        for batch in fetched.damaged:
            self._count_damage(number, batch.first_offset, batch.why)
        for part in fetched.parts:
            self._model.take(number, self.table.take(number, part), heard_at)
        self._positions[fetched.partition] = fetched.next_offset
        self._epochs[fetched.partition] = max(fetched.leader_epoch, self._epochs.get(fetched.partition, -1))

    async def _catch_up_after_a_pause(self, admin: KafkaAdmin) -> None:
        """Counts as catching up after a pause of the process or the cluster, until what came meanwhile is read."""
        clock = self._host.clock
        if clock.elapsed() - self.read_at > LAG_STALE_SECONDS:
            try:
                self._targets = dict(await admin.offsets_at(dict.fromkeys(self._positions, OffsetAt.LATEST)))
            except ClusterUnavailable:
                return  # it is asked again when the log next answers; until then nobody takes this reading for good
            self._model.catching_up, self._moved_at = True, clock.elapsed()
        self.read_at = clock.elapsed()

    def _look_whether_caught_up(self, moved: bool) -> None:
        now = self._host.clock.elapsed()
        if moved:
            self._moved_at = now
        if self._model.catching_up:
            reached = all(self._positions[partition] >= end for partition, end in self._targets.items())
            self._model.catching_up = not reached and now - self._moved_at < LAG_QUIET_SECONDS

    async def _restart(self, admin: KafkaAdmin, fetcher: KafkaFetcher, partition: TopicPartition) -> None:
        """Reads a partition of the offset log again whose position is gone: it was cut, or replaced."""
        self._log.warning("offset log was cut, it is read again", partition=partition.partition)
        starts = await admin.offsets_at({partition: OffsetAt.EARLIEST})
        self._model.forget(partition.partition)
        self._epochs.pop(partition, None)
        self._move(fetcher, partition, starts[partition])

    def _pass_damage(self, fetcher: KafkaFetcher, error: ClusterUnavailable) -> None:
        """Passes one offset at which no batch can be read."""
        if "offset" not in error.metadata:
            return
        place, offset = _place(error), int(error.metadata["offset"])
        self._count_damage(place.partition, offset, error.message)
        self._tell_damage()
        self._move(fetcher, place, offset + 1)

    def _count_damage(self, partition: int, offset: int, why: str) -> None:
        self.table.counts.damaged += 1
        self.table.damage.append(Damage(partition, offset, why))

    def _move(self, fetcher: KafkaFetcher, partition: TopicPartition, offset: int) -> None:
        others = {each: at for each, at in self._positions.items() if each != partition}
        self._positions = {**others, partition: offset}
        fetcher.assign(others)
        fetcher.assign(self._positions)

    def _tell_damage(self) -> None:
        """Logs the newest unreadable record, once for each chunk."""
        counts = self.table.counts
        if counts.damaged + counts.unsupported > self._noted and self.table.damage:
            self._noted = counts.damaged + counts.unsupported
            where = self.table.damage[-1]
            self._log.warning("unreadable record in the offset log", **where._asdict())


def _place(error: BraidError) -> TopicPartition:
    where: Mapping[str, str] = error.metadata
    return TopicPartition(where["topic"], int(where["partition"]))
