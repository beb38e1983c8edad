"""A cluster's disk: reads it without a broker, and removes data from it while the cluster is dead.

A log's directory is `<topic>-<partition>`. Its segments are consecutive batches in the format of Kafka's protocol
(record batch, magic 2): eight bytes of base offset, four of length, then the rest. A cluster of one node has written
everything that it acknowledged to its files (though perhaps not synced), so a killed process leaves all of it there.
"""

import shutil
import struct
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from aiokafka.record.memory_records import MemoryRecords

from devmesh.files import MeshFiles
from testbed.checkers import facts
from testbed.ground.clusters import OFFSETS_TOPIC, RawRecord, Timed, commit_facts, record_facts
from testbed.ground.quorum_log import METADATA_TOPIC, topic_changes

_HEAD: Final = struct.Struct(">qi")  # base offset; length of what follows


class Batch(NamedTuple):
    """The position of a batch in its segment, and its first offset."""

    position: int
    base_offset: int


class Disk:
    """The disk of one cluster of a mesh; the cluster must not run while its disk is changed."""

    def __init__(self, mesh: Path, cluster: str, prefix: str, group: str) -> None:
        """Opens a disk. `prefix` selects the topics, `group` the commits."""
        self.cluster = cluster
        home = MeshFiles(mesh).cluster(cluster)
        first = home / "1"  # of a cluster of several brokers, each of which has a copy of everything
        self._data = (first if first.exists() else home) / "data"
        self._prefix = prefix
        self._group = group

    def logs(self) -> list[facts.LogId]:
        """All logs of the topics."""
        return sorted(_log_of(self.cluster, path) for path in self._data.glob(f"{self._prefix}*-*[0-9]"))

    def end(self, log: facts.LogId) -> int:
        """The end offset of a log."""
        return max((record.offset + 1 for record in self._records(log)), default=0)

    def told(self, apart: Collection[facts.Topic] = ()) -> list[Timed]:
        """All facts on the disk, without some topics: records, dead letters, commits."""
        logs = (log for log in self.logs() if facts.Topic(log.cluster, log.topic) not in apart)
        found = [each for log in logs for each in self.log_facts(log)]
        for path in self._data.glob(f"{OFFSETS_TOPIC}-*"):
            for record in self._records(_log_of(self.cluster, path)):
                found += commit_facts(self.cluster, self._group, record)
        return found

    def topic_changes(self) -> list[Timed]:
        """Topics that the cluster ever created and deleted, from its own metadata log."""
        records = self._records(facts.LogId(self.cluster, METADATA_TOPIC, 0))
        return topic_changes(self.cluster, self._prefix, records)

    def log_facts(self, log: facts.LogId, first: int = 0) -> list[Timed]:
        """The facts in a log from an offset on."""
        records = (record for record in self._records(log) if record.offset >= first)
        return [each for record in records for each in record_facts(log.cluster, record)]

    def replace(self) -> None:
        """Replaces the disk by an empty one: the next start is that of a new cluster."""
        shutil.rmtree(self._data)

    def batch(self, log: facts.LogId, share: float) -> Batch:
        """The batch in a log's last segment before which this share of its batches lies."""
        batches = list(batches_in(self._segments(log)[-1].read_bytes()))
        return batches[int(share * len(batches))]

    def cut(self, log: facts.LogId, batch: Batch) -> None:
        """Removes the end of a log, from a batch of its last segment on."""
        with self._segments(log)[-1].open("r+b") as file:
            file.truncate(batch.position)

    def _segments(self, log: facts.LogId) -> list[Path]:
        return sorted((self._data / f"{log.topic}-{log.partition}").glob("*.log"))

    def _records(self, log: facts.LogId) -> Iterator[RawRecord]:
        for segment in self._segments(log):
            yield from records_in(segment.read_bytes(), log.topic, log.partition)


def batches_in(segment: bytes) -> Iterator[Batch]:
    """Complete batches of a segment; a partly written one does not count, as for a broker that starts on it."""
    position = 0
    while position + _HEAD.size <= len(segment):
        base_offset, length = _HEAD.unpack_from(segment, position)
        if length <= 0 or position + _HEAD.size + length > len(segment):
            return
        yield Batch(position, base_offset)
        position += _HEAD.size + length


def records_in(segment: bytes, topic: str, partition: int) -> Iterator[RawRecord]:
    """Records of a segment's complete batches, without brokers' transaction markers."""
    records = MemoryRecords(segment)
    while records.has_next():
        batch = records.next_batch()
        if batch is None or batch.is_control_batch:
            continue
        for each in batch:
            yield RawRecord(topic, partition, each.offset, each.timestamp, each.key, each.value, each.headers)


def _log_of(cluster: str, path: Path) -> facts.LogId:
    topic, _, partition = path.name.rpartition("-")
    return facts.LogId(cluster, topic, int(partition))
