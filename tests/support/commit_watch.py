"""Invariant I3 on clusters in memory: what a commit claims was processed, rejected or dead-lettered when it was made.

The watch sits in the clusters themselves and looks at every commit as it is stored; the sink it compares with is told
by the test's handlers.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from braid.kafka.memory import MemoryCluster
from braid.kafka.memory.log import MemoryRecord, NewRecord
from braid.kernel.envelope import Decoded, MetadataKind, decode
from braid.kernel.envelope.spill import TOPIC, read_spilled
from braid.kernel.errors import BraidError, NotFound
from braid.kernel.ports import Committed, Generation, TopicPartition
from braid.kernel.progress.fields import EnvelopeFields

_ORIGIN: Final = ("braid-dl-cluster", "braid-dl-topic", "braid-dl-partition")


class Commit(NamedTuple):
    """One partition's part of a commit, as stored."""

    cluster: str
    partition: TopicPartition
    committed: Committed
    decoded: Decoded

    @property
    def fields(self) -> EnvelopeFields:
        return self.decoded.fields


class CommitWatch:
    """Every commit there was, and what of them was untrue."""

    def __init__(self, clusters: Mapping[str, MemoryCluster]) -> None:
        self.commits: list[Commit] = []
        self.untrue: list[str] = []
        self.spilled: list[EnvelopeFields] = []  # what commits said that point to a record
        # With the epoch of the leader that took the record: where a log was cut, others come to lie at its offsets.
        self._done: dict[tuple[str, TopicPartition], set[tuple[int, int]]] = defaultdict(set)
        self._clusters = clusters
        for cluster in clusters.values():
            self._wrap(cluster)

    def done(self, cluster: str, topic: str, partition: int, offset: int) -> None:
        """The sink holds a record, or a test wants it skipped."""
        place = TopicPartition(topic, partition)
        self._done[cluster, place].add((offset, _epoch_at(self._clusters[cluster], place, offset)))

    def last(self, topic: str, partition: int = 0) -> Commit:
        """The newest commit of a partition. Raises IndexError before any."""
        return [each for each in self.commits if each.partition == TopicPartition(topic, partition)][-1]

    def base(self, topic: str, partition: int = 0) -> int:
        """The newest committed offset of a partition; -1 before any."""
        found = [each.committed.offset for each in self.commits if each.partition == TopicPartition(topic, partition)]
        return found[-1] if found else -1

    def _wrap(self, cluster: MemoryCluster) -> None:
        store = cluster.commit

        def watched(group: str, offsets: Mapping[TopicPartition, Committed], generation: Generation | None) -> None:
            store(group, offsets, generation)
            for partition, committed in offsets.items():
                self._look(cluster, group, partition, committed)

        cluster.commit = watched  # type: ignore[method-assign]  # the twin has no hook of its own

    def _look(self, cluster: MemoryCluster, group: str, partition: TopicPartition, committed: Committed) -> None:
        decoded = decode(committed.offset, committed.metadata)
        self.commits.append(Commit(cluster.name, partition, committed, decoded))
        if decoded.kind is not MetadataKind.ENVELOPE:
            self.untrue.append(f"{partition}: not an envelope: {decoded.reason}")
            return
        if decoded.fields.spill is not None:
            self._look_behind(cluster, group, partition, decoded.fields, newest_epoch(committed))
        self._compare(cluster, partition, decoded.fields, newest_epoch(committed))

    def _look_behind(
        self, cluster: MemoryCluster, group: str, partition: TopicPartition, stated: EnvelopeFields, epoch: int
    ) -> None:
        """The record that a commit points to is there when the commit is, and as true as the commit."""
        assert stated.spill is not None, "asked of commits that point to a record"
        self.spilled.append(stated)
        try:
            log = cluster.log(TopicPartition(TOPIC, stated.spill.partition))
            found = next(
                record for batch in log.batches for record in batch.records if record.offset == stated.spill.offset
            )
            whole = read_spilled(group, partition, stated, found.key, found.value)
        except (BraidError, StopIteration) as error:
            self.untrue.append(f"{cluster.name} {partition}: the commit points to nothing of its own: {error!r}")
            return
        if not stated.claims <= whole.claims or whole.claims.count - stated.claims.count != stated.spill.done:
            self.untrue.append(f"{cluster.name} {partition}: the commit and its record differ")
        self._compare(cluster, partition, whole, epoch)

    def _compare(self, cluster: MemoryCluster, partition: TopicPartition, fields: EnvelopeFields, epoch: int) -> None:
        """Compares a commit's claims with what is done. With an `epoch`, records of later leaders are left out (-1:
        none is)."""
        log, done = cluster.log(partition), self._done[cluster.name, partition]
        claims, rejected, expired = fields.claims, fields.rejected, fields.expired
        copied: set[int] | None = None  # looked for once something claimed is not done
        for batch in log.batches:
            if 0 <= epoch < batch.leader_epoch:
                break
            # A batch nobody can decode counts as one record, at its first offset.
            for at in [batch.base] if batch.base in log.damaged else [record.offset for record in batch.records]:
                if (at, batch.leader_epoch) in done:
                    continue
                if at in rejected or at in expired:
                    done.add((at, batch.leader_epoch))  # stated once is enough: later commits need not repeat it
                elif at in claims and at >= log.start:
                    copied = self._dead_lettered(cluster.name, partition) if copied is None else copied
                    if at not in copied:
                        self.untrue.append(f"{cluster.name} {partition}@{at} is claimed and not done")

    def _dead_lettered(self, cluster: str, partition: TopicPartition) -> set[int]:
        """Offsets of a partition that have a copy in some dlq lane."""
        origin = (cluster.encode(), partition.topic.encode(), b"%d" % partition.partition)
        found = set()
        for each in self._clusters.values():
            for record in _with_headers(each):
                headers = dict(record.headers)
                if tuple(headers.get(name) for name in _ORIGIN) == origin:
                    found.add(int(headers["braid-dl-offset"]))
        return found


def _with_headers(cluster: MemoryCluster) -> Iterator[MemoryRecord]:
    """Records of any topic that have headers, as dead letters do."""
    for topic in cluster.describe_topics(None).values():
        for number in range(topic.partitions):
            for batch in cluster.log(TopicPartition(topic.name, number)).batches:
                yield from (record for record in batch.records if record.headers)


def newest_epoch(committed: Committed) -> int:
    """The newest leader epoch that a commit claims; -1 if it does not say."""
    if committed.leader_epoch >= 0:
        return committed.leader_epoch
    stated = decode(committed.offset, committed.metadata).fields.fingerprint
    return stated.leader_epoch if stated is not None and not stated.batch_crc else -1


def _epoch_at(cluster: MemoryCluster, partition: TopicPartition, offset: int) -> int:
    """The leader epoch of the record at an offset."""
    try:
        batch = cluster.log(partition).batch_of(offset)
    except NotFound:
        return -1
    return -1 if batch is None else batch.leader_epoch


def fill(cluster: MemoryCluster, partition: TopicPartition, values: list[bytes], timestamp_ms: int = 0) -> int:
    """Appends records outside any producer; returns the first one's offset."""
    return cluster.append(partition, [NewRecord(timestamp_ms, None, value, ()) for value in values])
