"""The log of one partition in memory: batches with leader epoch and checksum, a start that can move, an end."""

import zlib
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from braid.kernel.errors import OffsetOutOfRange
from braid.kernel.ports import DamagedBatch

_RECORD_OVERHEAD_BYTES = 70  # of a batch of one record, about what Kafka's takes


class MemoryRecord(NamedTuple):
    """A record as fetched, see `KafkaRecord`."""

    offset: int
    timestamp: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes]]


class NewRecord(NamedTuple):
    """A record on its way to a log."""

    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]

    def size(self) -> int:
        """Bytes in a batch of its own."""
        headers = sum(len(name) + len(value) + 4 for name, value in self.headers)
        return _RECORD_OVERHEAD_BYTES + len(self.key or b"") + len(self.value or b"") + headers


class LogBatch(NamedTuple):
    """The records of one append."""

    base: int
    leader_epoch: int
    crc: int
    records: Sequence[MemoryRecord]
    producer: int = -1
    sequence: int = -1  # of its first record


class Read(NamedTuple):
    """The result of a read: records and damaged batches, both in order, and where the next read begins."""

    records: Sequence[MemoryRecord]
    damaged: Sequence[DamagedBatch]
    next_offset: int


@dataclass(slots=True)
class Log:
    """The log of one partition. Offsets below `start` are gone; `end` is the next to be given.

    The newest `uncopied` records exist only on the leader: consumers cannot read them, and `high` lies before them.
    """

    start: int = 0
    end: int = 0
    uncopied: int = 0
    batches: list[LogBatch] = field(default_factory=list)
    # Last sequence and base offset by producer: a batch sent again is answered, not written again.
    producers: dict[int, tuple[int, int]] = field(default_factory=dict)
    damaged: dict[int, str] = field(default_factory=dict)  # by base offset of the batch, what is wrong with it
    size: int = 0  # bytes of what is there, as a broker's disk would hold them
    epochs: list[tuple[int, int]] = field(default_factory=list)  # each leader epoch that wrote, and where it began

    @property
    def high(self) -> int:
        """The offset below which all copies have everything: Kafka's high watermark."""
        return self.end - self.uncopied

    def append(self, new: Sequence[NewRecord], leader_epoch: int, producer: int, sequence: int) -> int:
        """Writes records and returns the first one's offset. `sequence` is the first one's; producer -1 has none."""
        if producer >= 0:
            last, base = self.producers.get(producer, (-1, 0))
            if sequence <= last:
                return base
            self.producers[producer] = (sequence, self.end)
        records = [MemoryRecord(self.end + at, one.timestamp_ms, 0, *one[1:]) for at, one in enumerate(new)]
        crc = zlib.crc32(repr(records).encode())
        if not self.epochs or self.epochs[-1][0] < leader_epoch:
            self.epochs.append((leader_epoch, self.end))
        self.batches.append(LogBatch(self.end, leader_epoch, crc, records, producer, sequence))
        self.end += len(records)
        self.size += sum(record.size() for record in new)
        return self.batches[-1].base

    def read(self, offset: int, limit: int, max_bytes: int) -> Read:
        """Records from an offset on: at most `limit`, and at least one however small `max_bytes` is.

        Raises:
            OffsetOutOfRange: the offset lies outside the log.
        """
        if not self.start <= offset <= self.end:
            raise OffsetOutOfRange(f"offset {offset} lies outside {self.start} to {self.end}")
        found: list[MemoryRecord] = []
        damaged: list[DamagedBatch] = []
        size = 0
        for batch in self.batches[max(0, self._index(offset)) :]:
            records = [record for record in batch.records if offset <= record.offset < self.high]
            if not records:
                continue
            if batch.base in self.damaged:
                if len(found) + len(damaged) == limit:
                    break
                damaged.append(self._told(batch, records))
                offset = records[-1].offset + 1
                continue
            for record in records:
                size += _RECORD_OVERHEAD_BYTES + len(record.key or b"") + len(record.value or b"")
                if len(found) + len(damaged) == limit or (found and size > max_bytes):
                    return Read(found, damaged, offset)
                found.append(record)
                offset = record.offset + 1
        return Read(found, damaged, offset)

    def damage(self, offset: int, why: str) -> None:
        """Damages the batch that holds an offset: it cannot be decoded any more."""
        self.damaged[self.batches[self._index(offset)].base] = why

    def _told(self, batch: LogBatch, records: Sequence[MemoryRecord]) -> DamagedBatch:
        size = sum(_RECORD_OVERHEAD_BYTES + len(record.value or b"") for record in batch.records)
        first, last = records[0].offset, records[-1]
        raw = b"".join(record.value or b"" for record in batch.records).ljust(size, b"\0")  # as if they lay so
        return DamagedBatch(first, last.offset, self.damaged[batch.base], 0, size, last.timestamp, raw)

    def batch_of(self, offset: int) -> LogBatch | None:
        """Returns the batch that holds an offset, while it is in the log."""
        if not self.start <= offset < self.end:
            return None
        return self.batches[self._index(offset)]

    def epoch_end(self, leader_epoch: int) -> int:
        """Returns where leaders later than an epoch began to write, or the end."""
        later = (start for epoch, start in self.epochs if epoch > leader_epoch)
        return max(self.start, next(later, self.end))

    def offset_at(self, timestamp_ms: int) -> int:
        """Returns the first offset at or after a time, or the end."""
        times = (record for batch in self.batches for record in batch.records if record.offset >= self.start)
        return next((record.offset for record in times if record.timestamp >= timestamp_ms), self.end)

    def first_since(self, timestamp_ms: int) -> int:
        """Returns the base of the first batch with a record at or after a time, or the end; all before it is older."""
        for batch in self.batches[max(0, self._index(self.start)) :]:
            kept = [record.timestamp for record in batch.records if record.offset >= self.start]
            if kept and max(kept) >= timestamp_ms:
                return max(batch.base, self.start)
        return self.end

    def expire(self, start: int) -> None:
        """Moves the start, as retention does."""
        start = min(max(self.start, start), self.end)
        if start > self.start:
            gone = self.batches[max(0, self._index(self.start)) : self._index(start - 1) + 1]
            self.size -= _size(each for batch in gone for each in batch.records if self.start <= each.offset < start)
            self.start = start

    def compact(self) -> None:
        """Keeps the newest record of each key, unless that is a tombstone, and the last of all as Kafka does."""
        newest = {record.key: record.offset for batch in self.batches for record in batch.records}
        self.batches = [
            batch._replace(records=kept)
            for batch in self.batches
            if (kept := [each for each in batch.records if _stays(each, newest, self.end)])
        ]
        self._weigh()

    def truncate(self, end: int) -> None:
        """Loses what is at and after an offset, as an unclean election does, with the sequences of what is lost."""
        self.end = min(self.end, end)
        kept = [batch for batch in self.batches if batch.base < self.end]
        if kept and kept[-1].base + len(kept[-1].records) > self.end:
            last = kept[-1]
            records = last.records[: self.end - last.base]
            kept[-1] = last._replace(crc=zlib.crc32(repr(records).encode()), records=records)
        self.batches = kept
        self.epochs = [each for each in self.epochs if each[1] < self.end]
        self.damaged = {base: why for base, why in self.damaged.items() if base < self.end}
        self.producers = {producer: at for producer, at in self.producers.items() if at[1] < self.end}
        self._weigh()

    def _weigh(self) -> None:
        self.size = _size(each for batch in self.batches for each in batch.records if each.offset >= self.start)

    def _index(self, offset: int) -> int:
        return bisect_right(self.batches, offset, key=lambda batch: batch.base) - 1


def _size(records: Iterable[MemoryRecord]) -> int:
    return sum(NewRecord(each.timestamp, each.key, each.value, tuple(each.headers)).size() for each in records)


def _stays(record: MemoryRecord, newest: Mapping[bytes | None, int], end: int) -> bool:
    return record.offset == end - 1 or (newest[record.key] == record.offset and record.value is not None)
