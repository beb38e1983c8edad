"""Rows as the `braid` source gives them, and a stand-in for the shuffle that hands tasks whole buckets, sorted."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import pyarrow as pa

from pipelines.table.manifest import Staged
from pipelines.table.merging import BUCKET, MergeJob, merge_rows
from pipelines.table.rows import SCHEMA
from pipelines.table.writer import TableWriter
from tests.support.record_identity import bucket_of, identity_of

PRODUCERS = ("01K0000000000000000000000A", "01K0000000000000000000000B")


class Copy(NamedTuple):
    """One copy of a record in a log."""

    producer: str
    sequence: int
    offset: int
    cluster: str = "east"
    key: bytes | None = b"k"
    value: bytes = b"v"

    @property
    def id(self) -> str | None:
        """Its `braid-id`; a copy without a producer has none."""
        return f"{self.producer}:{self.sequence}" if self.producer else None


def task_batches(copies: Iterable[Copy], buckets: int, batch_rows: int = 1_000) -> list[pa.RecordBatch]:
    """The rows of one task, sorted by (bucket, producer, sequence), in batches."""
    rows = []
    for copy in copies:
        topic = "braid.logs.live.1"
        identity = identity_of(copy.id, copy.cluster, topic, 0, copy.offset)
        row = dict.fromkeys(SCHEMA.names) | {
            "stream": "logs", "lane": "live", "cluster": copy.cluster, "topic": topic, "partition": 0,
            "offset": copy.offset, "timestamp": 0, "timestamp_type": 0, "ingested_at": 0, "key": copy.key,
            "value": copy.value, "headers": [{"key": "h", "value": b"x"}], "id": copy.id,
            "producer": identity.producer, "sequence": identity.sequence, BUCKET: bucket_of(identity, buckets),
        }  # fmt: skip
        rows.append(row)
    rows.sort(key=lambda row: (row[BUCKET], row["producer"], row["sequence"], row["cluster"], row["offset"]))
    table = pa.Table.from_pylist(rows, schema=pa.schema([*SCHEMA, pa.field(BUCKET, pa.int32())]))
    return list(table.to_batches(max_chunksize=batch_rows))


def staged_by_tasks(job: MergeJob, copies: Sequence[Copy], buckets: int, tasks: int = 2) -> list[Staged]:
    """The rows that the tasks of a batch stage, each with its own buckets."""
    staged: list[Staged] = []
    for task in range(tasks):
        mine = [copy for copy in copies if _bucket(copy, buckets) % tasks == task]
        staged += merge_rows(job, task_batches(mine, buckets))
    return staged


def merge(writer: TableWriter, copies: Sequence[Copy]) -> None:
    """A whole batch: tasks, commit."""
    writer.commit(staged_by_tasks(writer.job(), copies, writer.manifest.buckets))


def _bucket(copy: Copy, buckets: int) -> int:
    return bucket_of(identity_of(copy.id, copy.cluster, "braid.logs.live.1", 0, copy.offset), buckets)
