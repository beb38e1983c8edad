"""Merges one task's rows: keeps the first of each identity, and writes those as sorted files.

A task gets whole buckets, its rows sorted by (bucket, producer, sequence). It walks each bucket's seen set beside them,
in that same order, and writes the set anew. Nothing it writes is part of the table: the one writer's manifest names it,
or it is litter.

**Memory** is bounded whatever the table's size: one Arrow batch of input, `TABLE_RUN_BYTES` of kept rows about three
times (gathered, joined, sorted), `TABLE_SEEN_BLOCK_ENTRIES` chunks of at most 8 KiB read and as many written, one chunk
unpacked.
"""

import itertools
from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from braid.kernel.errors import Refused
from pipelines.limits import TABLE_RUN_BYTES, TABLE_SEEN_BLOCK_ENTRIES
from pipelines.table import directory as files
from pipelines.table import seen
from pipelines.table.identity import CHUNK_BITS, CHUNK_SEQUENCES
from pipelines.table.manifest import Manifest, SeenFile, Staged
from pipelines.table.rows import COLUMNS, SCHEMA, ordered

SEEN_SCHEMA: Final = pa.schema(
    [
        pa.field("producer", pa.string()),
        pa.field("chunk", pa.int64()),  # sequence >> 16
        pa.field("ids", pa.int32()),  # how many are seen
        pa.field("seen", pa.binary()),  # `seen.encode`
    ]
)
BUCKET: Final = "bucket"

Place = tuple[str, int]  # producer, chunk


@dataclass(frozen=True)
class MergeJob:
    """The input of a task: where the table is, and which seen sets it merges against.

    Attributes:
        directory: Of the table.
        base: Number of the manifest merged against.
        seen: Name of a bucket's seen file, for buckets that have one.
    """

    directory: Path
    base: int
    seen: Mapping[int, str]

    @classmethod
    def on(cls, directory: Path, manifest: Manifest) -> "MergeJob":
        """Returns the job of a merge against a manifest."""
        return cls(directory, manifest.number, {file.bucket: file.name for file in manifest.seen})


@dataclass(frozen=True)
class _Entry:
    producer: str
    chunk: int
    ids: int
    seen: bytes

    @property
    def place(self) -> Place:
        return self.producer, self.chunk


def merge_rows(job: MergeJob, batches: Iterable[pa.RecordBatch]) -> Iterator[Staged]:
    """Merges the rows of whole buckets.

    Args:
        job: Against what.
        batches: Columns of the table and `bucket`, sorted by (bucket, producer, sequence).

    Yields:
        What was written, in parts; all of them belong to the task's attempt.

    Raises:
        Refused: rows are not sorted, or a seen set is damaged.
    """
    run = _Run(job)
    walk: SeenWalk | None = None
    repeats = 0
    try:
        for batch in batches:
            keep = np.zeros(batch.num_rows, dtype=np.bool_)
            for bucket, place, start, end, lows in _segments(batch):
                if walk is None or walk.bucket != bucket:
                    if walk is not None:
                        yield Staged(seen=(walk.close(),))
                    walk = SeenWalk(job, bucket)
                keep[start:end] = walk.admit(place, lows)
            repeats += batch.num_rows - int(keep.sum())
            if keep.any():
                yield from run.add(pa.Table.from_batches([batch.filter(pa.array(keep))]))
        if walk is not None:
            yield Staged(seen=(walk.close(),))
    finally:
        if walk is not None:
            walk.abandon()
    yield from run.flush()
    if repeats:
        yield Staged(repeats=repeats)


class SeenWalk:
    """Walks one bucket's seen set once in order, and writes it anew.

    Args:
        job: Where the old one is, if there is one.
        bucket: Number.
    """

    def __init__(self, job: MergeJob, bucket: int) -> None:
        self.bucket = bucket
        self._directory = job.directory
        self._name = files.new_name(files.SEEN, job.base)
        old = job.seen.get(bucket)
        self._old = _entries(job.directory / old if old is not None else None)
        self._ahead = next(self._old, None)
        self._place: Place | None = None
        self._chunk = seen.nothing_seen()
        self._ids = 0
        self._written: list[_Entry] = []
        self._file = (self._directory / self._name).open("wb")
        self._writer = pq.ParquetWriter(self._file, SEEN_SCHEMA, compression="zstd")

    def admit(self, place: Place, lows: seen.Lows) -> seen.Bits:
        """Returns which rows of a chunk are new, and remembers them.

        Places must come in order, as must the sequences in them.
        """
        if place != self._place:
            self._go_to(place)
        return seen.admit(self._chunk, lows)

    def close(self) -> SeenFile:
        """Writes the rest of the old set; returns the new one."""
        self._leave()
        while self._ahead is not None:
            self._keep(self._ahead)
            self._ahead = next(self._old, None)
        self._flush()
        self._writer.close()
        files.sync_file(self._file)
        self._file.close()
        return SeenFile(self.bucket, self._name, self._ids, (self._directory / self._name).stat().st_size)

    def abandon(self) -> None:
        """Closes the files; what was written is litter unless `close` returned it."""
        self._old.close()
        if not self._file.closed:
            self._writer.close()
            self._file.close()

    def _go_to(self, place: Place) -> None:
        if self._place is not None and place < self._place:
            raise Refused(f"rows are not sorted: {place} after {self._place}", field="table")
        self._leave()
        while self._ahead is not None and self._ahead.place < place:
            self._keep(self._ahead)
            self._ahead = next(self._old, None)
        self._place = place
        if self._ahead is not None and self._ahead.place == place:
            self._chunk = seen.decode(self._ahead.seen)
            self._ahead = next(self._old, None)
        else:
            self._chunk = seen.nothing_seen()

    def _leave(self) -> None:
        if self._place is not None:
            self._keep(_Entry(*self._place, int(self._chunk.sum()), seen.encode(self._chunk)))

    def _keep(self, entry: _Entry) -> None:
        self._ids += entry.ids
        self._written.append(entry)
        if len(self._written) >= TABLE_SEEN_BLOCK_ENTRIES:
            self._flush()

    def _flush(self) -> None:
        if self._written:
            columns = zip(
                *((entry.producer, entry.chunk, entry.ids, entry.seen) for entry in self._written), strict=True
            )
            arrays = [pa.array(column, field.type) for column, field in zip(columns, SEEN_SCHEMA, strict=True)]
            self._writer.write_table(pa.Table.from_arrays(arrays, schema=SEEN_SCHEMA))
            self._written.clear()


class _Run:
    """Kept rows on their way into one sorted file."""

    def __init__(self, job: MergeJob) -> None:
        self._job = job
        self._tables: list[pa.Table] = []
        self._bytes = 0

    def add(self, table: pa.Table) -> Iterator[Staged]:
        """Gathers rows; a full run becomes a file."""
        self._tables.append(table.select(COLUMNS).cast(SCHEMA))
        self._bytes += table.nbytes
        if self._bytes >= TABLE_RUN_BYTES:
            yield from self.flush()

    def flush(self) -> Iterator[Staged]:
        """Writes the gathered rows to a file."""
        if self._tables:
            table = ordered(pa.concat_tables(self._tables))
            self._tables, self._bytes = [], 0
            name = files.new_name(files.DATA, self._job.base)
            yield Staged(files=(files.write_blocks(self._job.directory, name, SCHEMA, [table]),))


def _entries(path: Path | None) -> Generator[_Entry, None, None]:
    if path is None:
        return
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=TABLE_SEEN_BLOCK_ENTRIES):
            columns = (batch.column(name).to_pylist() for name in SEEN_SCHEMA.names)
            yield from (_Entry(*row) for row in zip(*columns, strict=True))


def _segments(batch: pa.RecordBatch) -> Iterator[tuple[int, Place, int, int, seen.Lows]]:
    """Yields stretches of one chunk: bucket, place, first row, row after the last, sequences within the chunk."""
    if not batch.num_rows:
        return
    buckets = batch.column(BUCKET).to_numpy(zero_copy_only=False)
    sequences = batch.column("sequence").to_numpy(zero_copy_only=False)
    producers = pc.dictionary_encode(batch.column("producer"))
    codes = producers.indices.to_numpy(zero_copy_only=False)
    chunks = sequences >> CHUNK_BITS
    changes = (np.diff(buckets) != 0) | (np.diff(codes) != 0) | (np.diff(chunks) != 0)
    starts = [0, *(np.flatnonzero(changes) + 1).tolist(), batch.num_rows]
    lows = (sequences & (CHUNK_SEQUENCES - 1)).astype(np.int64)
    for start, end in itertools.pairwise(starts):
        if np.any(np.diff(lows[start:end]) < 0):
            raise Refused("rows are not sorted by sequence", field="table", remedy="report this as a bug")
        place = producers.dictionary[int(codes[start])].as_py(), int(chunks[start])
        yield int(buckets[start]), place, start, end, lows[start:end]
