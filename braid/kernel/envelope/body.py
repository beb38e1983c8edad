"""The fields of a commit envelope as bytes: which number each has, how it is written, read and checked.

Checksum, packing and leaving out what does not fit are not done here.
"""

import re
import struct
from typing import Final

from braid.kernel.envelope.coders import OFFSET_MAX, decode_attempts, decode_ranges, encode_attempts, encode_ranges
from braid.kernel.envelope.wire import (
    bytes_of,
    number_of,
    put_bytes,
    put_number,
    read_fields,
    skip_unknown,
    unzigzag,
    zigzag,
)
from braid.kernel.errors import Invalid
from braid.kernel.limits.envelope import ENVELOPE_CURSORS_MAX
from braid.kernel.limits.names import LANES_MAX
from braid.kernel.ports import Fingerprint
from braid.kernel.progress.fields import Attempts, Cursor, EnvelopeFields, LaneShare, SpillPointer
from braid.kernel.progress.ranges import Ranges

_EPOCH, _FLAGS, _OLDEST, _HEAD, _CURSOR, _REJECTED, _EXPIRED, _ATTEMPTS, _FINGERPRINT, _LANE_SHARE = range(1, 11)
_SPILL: Final = 14
_SPILL_NUMBERS: Final = range(1, 7)  # in the order of `SpillPointer`
_CURSOR_BASE, _CURSOR_BEHIND, _CURSOR_AHEAD, _CURSOR_DONE, _CURSOR_OLDEST, _CURSOR_PERMILLE = range(1, 7)
_PERMILLE_MAX: Final = 999
_PARTITION_MAX: Final = (1 << 31) - 1
_SHARE_LANE, _SHARE_SHARE = range(1, 3)
_DETACHED: Final = 1
_LANE: Final = re.compile(r"[a-z0-9-]{1,63}")
_FINGERPRINT_FORM: Final = struct.Struct(">16siI")
_Found = dict[int, list[int | bytes]]


def check(fields: EnvelopeFields) -> None:
    """Refuses fields that contradict themselves or cannot be written.

    Raises:
        Invalid: naming the field.
    """
    main = Cursor(fields.base, fields.base, fields.until, fields.done)
    for cursor in (main, *fields.cursors):
        _check_cursor(cursor)
    if len(fields.cursors) >= ENVELOPE_CURSORS_MAX:
        raise Invalid(f"more than {ENVELOPE_CURSORS_MAX} cursors", field="cursors")
    if not 0 <= fields.epoch <= OFFSET_MAX:
        raise Invalid(f"epoch {fields.epoch} is out of range", field="epoch")
    if fields.attempts and fields.attempts[0].offset < fields.base:
        raise Invalid("attempts of a record below the base", field="attempts")
    if (fields.rejected or fields.expired) and not fields.rejected.union(fields.expired) <= fields.claims:
        raise Invalid("rejected or expired offsets that do not count as done", field="rejected")
    if len(fields.lanes) > LANES_MAX or not all(_LANE.fullmatch(one.lane) and one.share >= 0 for one in fields.lanes):
        raise Invalid("lanes are too many, misnamed or have a negative share", field="lanes")


def _check_cursor(cursor: Cursor) -> None:
    if not 0 <= cursor.start <= cursor.base <= OFFSET_MAX:
        raise Invalid(f"a cursor's base {cursor.base} is below its start or out of range", field="base")
    if cursor.done and (cursor.done.edges[0] <= cursor.base or cursor.done.edges[-1] > OFFSET_MAX):
        raise Invalid("done ranges touch the base or leave the range of offsets", field="done")
    if cursor.until is not None and not cursor.base <= cursor.until <= OFFSET_MAX:
        raise Invalid(f"a cursor's end {cursor.until} is below its base", field="until")
    if not 0 <= cursor.backlog_permille <= _PERMILLE_MAX:
        raise Invalid(f"a share of {cursor.backlog_permille} thousandths is out of range", field="backlog_permille")


# --- writing


def write_body(fields: EnvelopeFields) -> bytes:
    """The fields by increasing number; what has its default is left out."""
    out = bytearray()
    _put_header(out, fields)
    main = Cursor(fields.base, fields.base, fields.until, fields.done)
    for cursor in (main, *fields.cursors):
        put_bytes(out, _CURSOR, _cursor_bytes(cursor, fields.base))
    if fields.rejected:
        put_bytes(out, _REJECTED, encode_ranges(fields.rejected, fields.base))
    if fields.expired:
        put_bytes(out, _EXPIRED, encode_ranges(fields.expired, fields.base))
    if fields.attempts:
        put_bytes(out, _ATTEMPTS, encode_attempts(fields.attempts, fields.base)[0])
    if fields.fingerprint is not None:
        put_bytes(out, _FINGERPRINT, _fingerprint_bytes(fields.fingerprint))
    for share in fields.lanes:
        put_bytes(out, _LANE_SHARE, _lane_bytes(share))
    if fields.spill is not None:
        put_bytes(out, _SPILL, _spill_bytes(fields.spill))
    return bytes(out)


def _put_header(out: bytearray, fields: EnvelopeFields) -> None:
    if fields.epoch:
        put_number(out, _EPOCH, fields.epoch)
    if fields.detached:
        put_number(out, _FLAGS, _DETACHED)
    if fields.oldest_ingested_at_ms is not None:
        put_number(out, _OLDEST, zigzag(fields.oldest_ingested_at_ms))
    if fields.head_ingested_at_ms is not None:
        put_number(out, _HEAD, zigzag(fields.head_ingested_at_ms))


def _cursor_bytes(cursor: Cursor, anchor: int) -> bytes:
    out = bytearray()
    if cursor.base != anchor:
        put_number(out, _CURSOR_BASE, zigzag(cursor.base - anchor))
    if cursor.start != cursor.base:
        put_number(out, _CURSOR_BEHIND, cursor.base - cursor.start)
    if cursor.until is not None:
        put_number(out, _CURSOR_AHEAD, cursor.until - cursor.base)
    if cursor.done:
        put_bytes(out, _CURSOR_DONE, encode_ranges(cursor.done, cursor.base))
    if cursor.oldest_ingested_at_ms is not None:
        put_number(out, _CURSOR_OLDEST, zigzag(cursor.oldest_ingested_at_ms))
    if cursor.backlog_permille:
        put_number(out, _CURSOR_PERMILLE, cursor.backlog_permille)
    return bytes(out)


def _spill_bytes(pointer: SpillPointer) -> bytes:
    out = bytearray()
    for number, value in zip(_SPILL_NUMBERS, pointer, strict=True):
        if value:
            put_number(out, number, value)
    return bytes(out)


def _lane_bytes(share: LaneShare) -> bytes:
    out = bytearray()
    put_bytes(out, _SHARE_LANE, share.lane.encode("ascii"))
    put_number(out, _SHARE_SHARE, share.share)
    return bytes(out)


def _fingerprint_bytes(fingerprint: Fingerprint) -> bytes:
    if len(fingerprint.topic_id) != 16:
        raise Invalid("a topic id has 16 bytes", field="fingerprint")
    try:
        return _FINGERPRINT_FORM.pack(*fingerprint)
    except struct.error as error:
        raise Invalid("a leader epoch or CRC exceeds 32 bits", field="fingerprint") from error


# --- reading


def read_body(offset: int, body: bytes) -> EnvelopeFields:
    """Reads the fields of an envelope committed at `offset`.

    Raises:
        Invalid: they are not well-formed or contradict themselves.
        Unsupported: a critical field or a coder this release does not know.
    """
    found = _collect(body, _SPILL)
    main, *cursors = [_read_cursor(bytes_of(value), offset) for value in found.get(_CURSOR, [b""])]
    if (main.start, main.base) != (offset, offset):
        raise Invalid("the main cursor does not begin at the committed offset")
    fingerprint = found.get(_FINGERPRINT)
    fields = EnvelopeFields(
        base=offset,
        done=main.done,
        until=main.until,
        cursors=tuple(cursors),
        epoch=_number(found, _EPOCH) or 0,
        detached=bool((_number(found, _FLAGS) or 0) & _DETACHED),
        oldest_ingested_at_ms=_signed(found, _OLDEST),
        head_ingested_at_ms=_signed(found, _HEAD),
        attempts=_read_attempts(found, offset),
        rejected=_read_ranges(found, _REJECTED, offset),
        expired=_read_ranges(found, _EXPIRED, offset),
        fingerprint=_read_fingerprint(bytes_of(fingerprint[-1])) if fingerprint else None,
        lanes=tuple(_read_lane(bytes_of(value)) for value in found.get(_LANE_SHARE, ())),
        spill=_read_spill(bytes_of(found[_SPILL][-1])) if _SPILL in found else None,
    )
    check(fields)
    return fields


def _collect(data: bytes, last_known: int) -> _Found:
    """Values by field number; of a field that is not repeated the last one counts. Unknown ones are passed over."""
    found: _Found = {}
    for number, value in read_fields(data):
        if 0 < number <= last_known:
            found.setdefault(number, []).append(value)
        else:
            skip_unknown(number)
    return found


def _number(found: _Found, number: int) -> int | None:
    return number_of(found[number][-1]) if number in found else None


def _signed(found: _Found, number: int) -> int | None:
    value = _number(found, number)
    return None if value is None else unzigzag(value)


def _read_ranges(found: _Found, number: int, anchor: int) -> Ranges:
    return decode_ranges(bytes_of(found[number][-1]) if number in found else b"", anchor)


def _read_attempts(found: _Found, anchor: int) -> tuple[Attempts, ...]:
    return decode_attempts(bytes_of(found[_ATTEMPTS][-1]) if _ATTEMPTS in found else b"", anchor)


def _read_cursor(data: bytes, anchor: int) -> Cursor:
    if not data:
        return Cursor(anchor, anchor)
    found = _collect(data, _CURSOR_PERMILLE)
    base = anchor + (_signed(found, _CURSOR_BASE) or 0)
    ahead = _number(found, _CURSOR_AHEAD)
    return Cursor(
        start=base - (_number(found, _CURSOR_BEHIND) or 0),
        base=base,
        until=None if ahead is None else base + ahead,
        done=_read_ranges(found, _CURSOR_DONE, base),
        oldest_ingested_at_ms=_signed(found, _CURSOR_OLDEST),
        backlog_permille=_number(found, _CURSOR_PERMILLE) or 0,
    )


def _read_fingerprint(data: bytes) -> Fingerprint:
    if len(data) < _FINGERPRINT_FORM.size:
        raise Invalid("a fingerprint is cut off")
    return Fingerprint(*_FINGERPRINT_FORM.unpack_from(data))


def _read_spill(data: bytes) -> SpillPointer:
    found = _collect(data, _SPILL_NUMBERS[-1])
    pointer = SpillPointer._make(_number(found, number) or 0 for number in _SPILL_NUMBERS)
    if pointer.partition > _PARTITION_MAX or max(pointer.offset, pointer.done) > OFFSET_MAX:
        raise Invalid("a pointer leaves the range of offsets or partitions")
    return pointer


def _read_lane(data: bytes) -> LaneShare:
    found = _collect(data, _SHARE_SHARE)
    lane = bytes_of(found[_SHARE_LANE][-1]) if _SHARE_LANE in found else b""
    return LaneShare(lane.decode("ascii", "replace"), _number(found, _SHARE_SHARE) or 0)
