"""One batch as it lies in a log: its frame, its checksum, and its records once inflated. Batches may be hostile.

Batches may be hostile. aiokafka reads the records, but never gets a compressed batch, because its own decompressor has
no bound.
"""

import contextlib
import struct
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import google_crc32c
from aiokafka.errors import KafkaError
from aiokafka.record.default_records import DefaultRecordBatch

from braid.kafka.batches.columns import UncheckedHead, decode_columns
from braid.kafka.batches.decompress import CODEC_MASK, INFLATE_ERRORS, NAMES, DoesNotFit, inflate_into
from braid.kernel.limits.kafka import (
    BATCH_HEADERS_FREE_BYTES,
    COLUMN_BATCH_BYTES_MAX,
    COLUMN_RECORDS_MIN,
    INFLATED_INLINE_BYTES_MAX,
    INFLATED_TURN_BYTES,
    RECORD_HEADERS_MAX,
)
from braid.kernel.ports import KafkaRecord
from braid.kernel.record_columns import RecordColumns

# What reading records raises for bytes that are not what they say. Sizes near 2^63 overflow or ask for all memory.
DAMAGE: Final = (
    *INFLATE_ERRORS,
    KafkaError,
    IndexError,
    AssertionError,
    OverflowError,
    MemoryError,
    SystemError,
)

# Base offset, length, leader epoch, magic, checksum, attributes, last offset's delta, first and newest time, producer
# id and epoch, first sequence, record count (KIP-98). All formats share base offset, length and the place of magic.
HEAD: Final = struct.Struct(">qiibIhiqqqhii")
HEAD_BYTES: Final = HEAD.size  # behind them are the records
_FRAME: Final = struct.Struct(">qi")
_ATTRIBUTES: Final = struct.Struct(">h")
_COUNT: Final = struct.Struct(">i")
_MAGIC_AT: Final = 16
_LEGACY_ATTRIBUTES_AT: Final = 17
_CHECKSUM: Final = struct.Struct(">I")
_CHECKSUM_AT: Final = 17
_ATTRIBUTES_AT: Final = 21
_COUNT_AT: Final = 57
_CHECKED_BYTES: Final = 256 << 10
MAGIC: Final = 2  # of the format since Kafka 0.11
_CONTROL: Final = 0x20
_TRANSACTIONAL: Final = 0x10
_APPENDED: Final = 0x08
_LEGACY_HEAD_BYTES: Final = 26  # of the oldest format, without key and value


class NoFrame(Exception):
    """The bytes do not begin with a whole batch, although they should."""


class Unreadable(ValueError):
    """A batch that is complete but cannot be read."""


class BadChecksum(ValueError):
    """A batch that changed since it was written, on its way or in the log."""


class Frame(NamedTuple):
    """The place and the head of a batch, of which nothing is checked."""

    raw: memoryview
    magic: int
    attributes: int
    base_offset: int
    last_offset: int
    newest_ms: int
    producer_id: int
    records: int
    leader_epoch: int = -1

    @property
    def is_control(self) -> bool:
        """Whether it holds a transaction's marker."""
        return bool(self.attributes & _CONTROL)

    @property
    def is_transactional(self) -> bool:
        """Whether a transaction wrote it."""
        return bool(self.attributes & _TRANSACTIONAL)

    @property
    def codec(self) -> int:
        """The number of the batch's codec; 0 for none."""
        return self.attributes & CODEC_MASK


def read_frame(data: memoryview, at: int) -> Frame | None:
    """Reads the batch at a place of fetched bytes; None if less than a whole one is left, as brokers may cut the last.

    Raises:
        NoFrame: what stands there cannot be the beginning of a batch.
    """
    if len(data) - at < _FRAME.size:
        return None
    base, length = _FRAME.unpack_from(data, at)
    size = _FRAME.size + length
    if size < _LEGACY_HEAD_BYTES or base < 0:
        raise NoFrame(f"a batch of {size} bytes at offset {base}")
    if size > len(data) - at:
        return None
    raw = data[at : at + size]
    magic = raw[_MAGIC_AT]
    if magic < MAGIC:
        return Frame(raw, magic, raw[_LEGACY_ATTRIBUTES_AT], base, base, 0, -1, 1)
    if size < HEAD_BYTES:
        raise NoFrame(f"a batch of {size} bytes at offset {base}")
    _, _, epoch, _, _, attributes, delta, _, newest, producer, _, _, count = HEAD.unpack_from(raw)
    return Frame(raw, magic, attributes, base, base + delta, newest, producer, count, epoch)


def newest_epoch(data: bytes, *, beyond: bool) -> int:
    """Returns the leader epoch of the first batch of fetched bytes, or of all `beyond` it too; -1 if there is none."""
    view, at, newest = memoryview(data), 0, -1
    with contextlib.suppress(NoFrame):
        while (frame := read_frame(view, at)) is not None:
            newest = max(newest, frame.leader_epoch)
            if not beyond:
                break
            at += len(frame.raw)
    return newest


def check(frame: Frame) -> None:
    """Checks that the batch has the one known format and a correct checksum.

    Raises:
        Unreadable: it is of another format.
        BadChecksum: it is not as it was written; what its head says may be wrong too.
    """
    if frame.magic != MAGIC:
        raise Unreadable(f"message format {frame.magic}; only {MAGIC} is read, which Kafka writes since 0.11")
    if not _whole(frame.raw):
        raise BadChecksum("its checksum does not match")
    if frame.last_offset < frame.base_offset or frame.records < 0:
        raise Unreadable(f"{frame.records} records up to offset {frame.last_offset}")


def _whole(raw: memoryview) -> bool:
    """Whether the checksum matches the bytes after it; the processor's own instruction is ten times as fast."""
    if google_crc32c.implementation != "c":  # no wheel for this machine
        return bool(DefaultRecordBatch(raw).validate_crc())
    found = 0
    for at in range(_ATTRIBUTES_AT, len(raw), _CHECKED_BYTES):  # it takes no views: copies that stay in the cache
        found = google_crc32c.extend(found, bytes(raw[at : at + _CHECKED_BYTES]))
    return found == int(_CHECKSUM.unpack_from(raw, _CHECKSUM_AT)[0])


class Inflater:
    """Inflates batches on the event loop, within a budget of bytes.

    Attributes:
        left: Bytes that may still be opened before the event loop gets its turn; counted by who opens batches.
    """

    def __init__(self) -> None:
        self.left = INFLATED_TURN_BYTES
        self._room: memoryview | None = None

    def inflate(self, frame: Frame) -> memoryview:
        """Returns the batch with its records decompressed.

        Raises:
            DoesNotFit: it holds too much for the event loop.
        """
        if self._room is None:  # kept, because fresh memory costs more than inflating
            self._room = memoryview(bytearray(INFLATED_INLINE_BYTES_MAX))
        put_head(frame, self._room)
        used = inflate_into(frame.codec, frame.raw[HEAD_BYTES:], self._room[HEAD_BYTES:])
        return memoryview(bytes(self._room[: HEAD_BYTES + used]))


def put_head(frame: Frame, room: memoryview) -> None:
    """Writes the batch's head to the beginning of `room`, for the frame's number of records, uncompressed."""
    room[:HEAD_BYTES] = frame.raw[:HEAD_BYTES]
    _ATTRIBUTES.pack_into(room, _ATTRIBUTES_AT, frame.attributes & ~CODEC_MASK)
    _COUNT.pack_into(room, _COUNT_AT, frame.records)


def reader_of(frame: Frame, plain: memoryview, *, cut: bool = False) -> Iterator[KafkaRecord]:
    """Iterates over the records of an uncompressed batch, or of a piece cut out of one, decoded one by one.

    Raises:
        One of `DAMAGE`, at any record.
    """
    assert not frame.codec or plain is not frame.raw, "aiokafka's own decompressor knows no bound"
    reader: Any = DefaultRecordBatch(plain)
    return _with_few_headers(reader, plain) if cut or len(plain) > BATCH_HEADERS_FREE_BYTES else iter(reader)


def columns_in(batches: Sequence[tuple[Frame, memoryview]], names: Sequence[str]) -> RecordColumns | None:
    """Decodes the records of uncompressed batches all at once; None if they must be read one by one."""
    records, size = sum(frame.records for frame, _ in batches), sum(len(plain) for _, plain in batches)
    if records < COLUMN_RECORDS_MIN or size > COLUMN_BATCH_BYTES_MAX:
        return None
    if len(batches) == 1:
        ((frame, plain),) = batches
        return decode_columns(plain, HEAD_BYTES, [_head_of(frame, plain, len(plain))], names)
    heads, end = [], 0
    for frame, plain in batches:
        end += len(plain) - HEAD_BYTES
        heads.append(_head_of(frame, plain, end))
    together = memoryview(b"".join(plain[HEAD_BYTES:] for _, plain in batches))
    return decode_columns(together, 0, heads, names)


def _head_of(frame: Frame, plain: memoryview, ends_at: int) -> UncheckedHead:
    _, _, _, _, _, _, _, first_ms, newest_ms, _, _, _, _ = HEAD.unpack_from(plain)
    appended_ms = newest_ms if frame.attributes & _APPENDED else None
    last_delta = frame.last_offset - frame.base_offset
    return UncheckedHead(ends_at, frame.records, frame.base_offset, last_delta, first_ms, appended_ms)


def first_offset(frame: Frame, plain: memoryview) -> int:
    """Returns the offset of an uncompressed batch's first record by its own account; raises one of `DAMAGE`."""
    at = HEAD_BYTES
    for _ in range(3):  # length, attributes, time
        _, at = read_varint(plain, at)
    return frame.base_offset + read_varint(plain, at)[0]


def _with_few_headers(reader: Iterator[KafkaRecord], plain: memoryview) -> Iterator[KafkaRecord]:
    """Checks how many headers a record has before it is decoded: an empty one of two bytes becomes a hundred."""
    at = HEAD_BYTES
    while at < len(plain):
        at = _check_headers(plain, at)
        yield next(reader)
    yield from iter(lambda: next(reader, None), None)  # sees to it that nothing is left over


def _check_headers(plain: memoryview, at: int) -> int:
    """Checks how many headers the record at a place has; returns where the record ends by its own account."""
    length, at = read_varint(plain, at)
    end = at + length
    for _ in range(3):  # attributes, time, offset
        _, at = read_varint(plain, at)
    for _ in range(2):  # key, value
        size, at = read_varint(plain, at)
        at += max(0, size)
    headers, _ = read_varint(plain, at)
    if headers > RECORD_HEADERS_MAX:
        raise ValueError(f"a record of {headers} headers, more than {RECORD_HEADERS_MAX}")
    if end <= at:
        raise ValueError(f"a record of {length} bytes that holds more")
    return end


def read_varint(data: memoryview | bytes, at: int) -> tuple[int, int]:
    """A zigzag varint as Kafka's records have them (Protocol Buffers' sint64), and where it ends.

    Raises:
        IndexError: it is cut.
        ValueError: it has more than 64 bits.
    """
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
        if shift > 63:
            raise ValueError("a number of more than 64 bits")


def why_not(frame: Frame, error: BaseException) -> str:
    """Says what is wrong with a batch, for people."""
    if isinstance(error, DoesNotFit):
        return f"bomb: {len(frame.raw)} bytes of {NAMES[frame.codec]} hold {error}"
    codec = NAMES.get(frame.codec, f"codec {frame.codec}") if frame.codec else "plain"
    return f"damaged ({codec}): {str(error) or type(error).__name__}"
