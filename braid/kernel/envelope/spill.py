"""Progress that does not fit its commit, as a record of a compacted topic: its key, value and next slot. Pure.

A commit points to the record, and states beside the pointer as much of the same progress as fits
(`docs/reference/commit-envelope.md`). A lease writes to two slots in turn, so the record to which the last acknowledged
commit points is never overwritten. The epoch in the key keeps an earlier holder from overwriting a later one's record.
"""

import zlib
from collections.abc import Sequence
from typing import Final, NamedTuple

from braid.kernel.envelope.body import check, read_body, write_body
from braid.kernel.envelope.coders import OFFSET_MAX
from braid.kernel.envelope.fit import cut, reductions, whole
from braid.kernel.errors import Invalid
from braid.kernel.limits.envelope import SPILL_BYTES_MAX, SPILL_RETENTION_MS
from braid.kernel.ports import TopicPartition
from braid.kernel.progress.fields import EnvelopeFields, SpillPointer

TOPIC: Final = "braid-progress"
SLOTS: Final = 2
_MINUTE_MS: Final = 60_000
_CHECKSUM_BYTES: Final = 4
_BASE_BYTES: Final = 8
_HEAD_BYTES: Final = _CHECKSUM_BYTES + _BASE_BYTES


class SpillRecord(NamedTuple):
    """A record of progress to be written.

    Attributes:
        slot: Which of the lease's it is.
        key: Its key.
        value: Checksum, base and the fields.
        stated: What it says.
        whole: Whether that is everything; what it leaves out is claimed nowhere.
    """

    slot: int
    key: bytes
    value: bytes
    stated: EnvelopeFields
    whole: bool

    def at(self, partition: int, offset: int) -> SpillPointer:
        """Returns the pointer to the record once it is written there."""
        return SpillPointer(partition, offset, self.slot, len(self.value), _number(self.value))


def record_key(group: str, place: TopicPartition, epoch: int, slot: int) -> bytes:
    """The key of one slot of a lease."""
    return f"{place.topic}/{place.partition}/{epoch}/{slot}/{group}".encode()


def keys_of(group: str, place: TopicPartition, epoch: int) -> Sequence[bytes]:
    """The keys of all slots of a lease."""
    return [record_key(group, place, epoch, slot) for slot in range(SLOTS)]


def retention_ms(offsets_retention_minutes: int) -> int:
    """How long the topic keeps a record: longer than its cluster keeps a commit that nobody repeats.

    A holder writes its record anew with each commit, so what grows so old is of a holder that died before its commit,
    or of a group that is gone: no tombstone of anybody's will meet it.
    """
    return max(SPILL_RETENTION_MS, 2 * offsets_retention_minutes * _MINUTE_MS)


def spilled(group: str, place: TopicPartition, fields: EnvelopeFields, slot: int) -> SpillRecord:
    """Returns the record with all of a lease's progress, or with as much as `SPILL_BYTES_MAX` holds.

    Raises:
        Invalid: the fields contradict themselves or leave their ranges.
    """
    everything = whole(fields)
    check(everything)
    key, size_max = record_key(group, place, fields.epoch, slot), SPILL_BYTES_MAX - _HEAD_BYTES
    for stated in reductions(fields, size_max, lambda each: len(write_body(each))):
        body = write_body(stated)
        if len(body) <= size_max:
            head = stated.base.to_bytes(_BASE_BYTES, "big")
            return SpillRecord(slot, key, _checksum(key, head + body) + head + body, stated, stated == everything)
    raise Invalid("not even the smallest statement fits a record", field="spill")


def read_spilled(
    group: str, place: TopicPartition, stated: EnvelopeFields, key: bytes | None, value: bytes | None,
    log_end: int | None = None,
) -> EnvelopeFields:  # fmt: skip
    """Reads the record to which a commit points. Costs a bounded amount of memory.

    Args:
        group: Whose commit it is.
        place: Of what partition.
        stated: What the commit says by itself.
        key: The found record's.
        value: The found record's.
        log_end: The log's end, where known: nothing at or above it is claimed.

    Raises:
        Invalid: it is not the record that was meant, or is damaged.
        Unsupported: a critical field or a coder this release does not know.
    """
    pointer = stated.spill
    if pointer is None or key != record_key(group, place, stated.epoch, pointer.slot) or value is None:
        raise Invalid("another record lies where the commit points")
    if len(value) != pointer.size or len(value) > SPILL_BYTES_MAX or len(value) < _HEAD_BYTES:
        raise Invalid("the record is of another size than the commit says")
    if _number(value) != pointer.checksum or value[:_CHECKSUM_BYTES] != _checksum(key, value[_CHECKSUM_BYTES:]):
        raise Invalid("the record's checksum does not match")
    base = int.from_bytes(value[_CHECKSUM_BYTES:_HEAD_BYTES], "big")
    if base > OFFSET_MAX:
        raise Invalid("the record's base is out of range")
    fields = read_body(base, value[_HEAD_BYTES:])
    return fields if log_end is None else cut(fields, max(log_end, 0))


class Slots:
    """Chooses the slot to which a lease writes next, under one epoch."""

    def __init__(self) -> None:
        self._pointed = SLOTS - 1

    @property
    def next(self) -> int:
        """Returns the slot to which no acknowledged commit points."""
        return (self._pointed + 1) % SLOTS

    def acknowledged(self, pointer: SpillPointer) -> None:
        """Notes that a commit which points to this slot is stored."""
        self._pointed = pointer.slot


def _checksum(key: bytes, rest: bytes) -> bytes:
    return zlib.crc32(rest, zlib.crc32(key)).to_bytes(_CHECKSUM_BYTES, "big")


def _number(value: bytes) -> int:
    return int.from_bytes(value[:_CHECKSUM_BYTES], "big")
