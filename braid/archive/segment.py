"""Archive segments: consecutive events of one history with their times and links, encoded and decoded. Pure.

    "BSG1" ‖ length of the header (4 bytes) ‖ header ‖ body ‖ SHA-256 of everything before
    header: JSON with history, first, count, incarnation, before, after (links in hexadecimal)
    body:   zstd of, for each event: length (4 bytes) ‖ time in ms (8, signed) ‖ link (32) ‖ the event's bytes at rest

Numbers are big-endian. Equal events give equal bytes. Bytes from anywhere are safe to decode: their cost is bounded.
"""

import hashlib
import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import zstandard

from braid.archive.chain import LINK_BYTES, links, next_link
from braid.archive.names import SegmentName, short
from braid.kernel.errors import ArchiveDamaged
from braid.kernel.limits.archive import (
    ARCHIVE_RAW_BYTES_MAX,
    ARCHIVE_SEGMENT_BYTES,
    ARCHIVE_SEGMENT_EVENTS,
    ARCHIVE_WINDOW_BYTES_MAX,
)
from braid.kernel.ports import HistoryId

_MAGIC: Final = b"BSG1"
_LENGTH: Final = struct.Struct(">I")
_EVENT: Final = struct.Struct(f">Iq{LINK_BYTES}s")
_SUM_BYTES: Final = 32
_LEVEL: Final = 6


@dataclass(frozen=True, slots=True)
class Segment:
    """Consecutive events of a history with their times and links.

    Attributes:
        first: Sequence of `events[0]`.
        times_ms: When each event was decided.
        links: The chain's link of each event.
        before: The link of the event before the first.
    """

    history: HistoryId
    first: int
    events: Sequence[bytes]
    times_ms: Sequence[int]
    links: Sequence[bytes]
    before: bytes
    incarnation: int

    @property
    def last(self) -> int:
        """Sequence of the last event."""
        return self.first + len(self.events) - 1

    @property
    def name(self) -> SegmentName:
        """The name of its object."""
        times, after = self.times_ms, self.links[-1]
        return SegmentName(
            self.history,
            self.first,
            self.last,
            min(times),
            max(times),
            short(self.before),
            short(after),
            self.incarnation,
        )

    def link_at(self, sequence: int) -> bytes:
        """The link of one of its events, or of the one before its first."""
        return self.before if sequence == self.first - 1 else self.links[sequence - self.first]


def cut(
    history: HistoryId,
    before: bytes,
    first: int,
    events: Sequence[bytes],
    times_ms: Sequence[int],
    incarnation: int,
) -> Sequence[Segment]:
    """Splits events into segments within the limits; the splits depend on the events alone."""
    made: list[Segment] = []
    start = size = 0
    every = list(links(before, first, events))
    for index, event in enumerate(events):
        if index > start and (index - start == ARCHIVE_SEGMENT_EVENTS or size + len(event) > ARCHIVE_SEGMENT_BYTES):
            made.append(_part(history, before, first, events, times_ms, every, incarnation, start, index))
            start, size = index, 0
        size += len(event)
    if events:
        made.append(_part(history, before, first, events, times_ms, every, incarnation, start, len(events)))
    return made


def _part(
    history: HistoryId,
    before: bytes,
    first: int,
    events: Sequence[bytes],
    times_ms: Sequence[int],
    every: Sequence[bytes],
    incarnation: int,
    start: int,
    end: int,
) -> Segment:
    link = every[start - 1] if start else before
    part = slice(start, end)
    return Segment(history, first + start, events[part], times_ms[part], every[part], link, incarnation)


def encode(segment: Segment) -> bytes:
    """Encodes a segment; equal segments give equal bytes."""
    header = {
        "history": list(segment.history),
        "first": segment.first,
        "count": len(segment.events),
        "incarnation": segment.incarnation,
        "before": segment.before.hex(),
        "after": segment.links[-1].hex(),
    }
    packed = json.dumps(header, separators=(",", ":"), sort_keys=True).encode()
    raw = b"".join(
        part
        for event, time_ms, link in zip(segment.events, segment.times_ms, segment.links, strict=True)
        for part in (_EVENT.pack(len(event), time_ms, link), event)
    )
    body = zstandard.ZstdCompressor(level=_LEVEL).compress(raw)
    whole = b"".join((_MAGIC, _LENGTH.pack(len(packed)), packed, body))
    return whole + hashlib.sha256(whole).digest()


def decode(data: bytes, name: SegmentName) -> Segment:
    """Decodes a segment and checks every link of it.

    Args:
        data: Bytes from any source.
        name: The name of the expected segment.

    Raises:
        ArchiveDamaged: the bytes are not those events; names the damaged event if possible, else all of them.
    """
    header, body = _split(data, name)
    before, after = header["before"], header["after"]
    told = (header["history"], header["first"], header["count"], header["before"], header["after"])
    wanted = (list(name.history), name.first, name.last - name.first + 1, before, after)
    links_are_named = str(before).startswith(name.before) and str(after).startswith(name.after)
    if told != wanted or not links_are_named or header["incarnation"] != name.incarnation:
        raise damaged(name, name.first, name.last, "its header and its name describe different events")
    segment = _events(_decompressed(body, name), name, bytes.fromhex(str(before)))
    if segment.links[-1].hex() != after:
        raise damaged(name, name.last, name.last, "its last event does not match its header")
    if hashlib.sha256(data[:-_SUM_BYTES]).digest() != data[-_SUM_BYTES:]:
        raise damaged(name, name.first, name.last, "its checksum is not that of its bytes, though every event is whole")
    return segment


def damaged(name: SegmentName, first: int, last: int, found: str) -> ArchiveDamaged:
    """The error for an archived segment that cannot be trusted."""
    which = f"event {first}" if first == last else f"events {first} to {last}"
    return ArchiveDamaged(
        f"the archive of {name.history} is damaged at {which}: {found}",
        remedy="put the object back from another replica's archive or a backup, or remove it to have the hole reported",
        metadata={"history": str(name.history), "first": str(first), "last": str(last), "object": str(name)},
    )


def _split(data: bytes, name: SegmentName) -> tuple[dict[str, object], bytes]:
    """The header and the compressed body."""
    start = len(_MAGIC) + _LENGTH.size
    if len(data) < start + _SUM_BYTES or data[: len(_MAGIC)] != _MAGIC:
        raise damaged(name, name.first, name.last, "it is cut short, or no segment")
    (length,) = _LENGTH.unpack_from(data, len(_MAGIC))
    if start + length > len(data) - _SUM_BYTES:
        raise damaged(name, name.first, name.last, "it is cut short")
    try:
        header = json.loads(data[start : start + length])
        bytes.fromhex(header["before"])
        bytes.fromhex(header["after"])
        {header[field] for field in ("first", "count", "incarnation")} | {*header["history"]}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise damaged(name, name.first, name.last, "its header cannot be read") from error
    return header, data[start + length : -_SUM_BYTES]


def _decompressed(body: bytes, name: SegmentName) -> bytes:
    try:
        reader = zstandard.ZstdDecompressor(max_window_size=ARCHIVE_WINDOW_BYTES_MAX).stream_reader(body)
        raw = reader.read(ARCHIVE_RAW_BYTES_MAX + 1)
    except (zstandard.ZstdError, MemoryError) as error:
        raise damaged(name, name.first, name.last, "its events cannot be decompressed") from error
    if len(raw) > ARCHIVE_RAW_BYTES_MAX:
        raise damaged(name, name.first, name.last, f"its events take more than {ARCHIVE_RAW_BYTES_MAX} bytes")
    return raw


def _events(raw: bytes, name: SegmentName, before: bytes) -> Segment:
    events: list[bytes] = []
    times_ms: list[int] = []
    found: list[bytes] = []
    link, position = before, 0
    for sequence in range(name.first, name.last + 1):
        if position + _EVENT.size > len(raw):
            raise damaged(name, sequence, name.last, "they are missing")
        length, time_ms, told = _EVENT.unpack_from(raw, position)
        position += _EVENT.size + length
        event = raw[position - length : position]
        link = next_link(link, sequence, event)
        if len(event) != length or link != told:
            raise damaged(name, sequence, sequence, "it was changed, or one before it removed")
        events.append(event)
        times_ms.append(time_ms)
        found.append(link)
    if position != len(raw):
        raise damaged(name, name.last, name.last, "more bytes follow it")
    return Segment(name.history, name.first, tuple(events), tuple(times_ms), tuple(found), before, name.incarnation)
