"""The commit envelope, version 1, as a whole: prefix, packing, checksum and body. `encode` and `decode` only.

The format is specified in `docs/reference/commit-envelope.md`; the modules beside this one implement its parts.
Nothing here knows how or when a commit is sent.
"""

import re
import zlib
from dataclasses import replace
from enum import Enum
from typing import Final, NamedTuple

from braid.kernel.envelope.ascii_bytes import ascii_bytes_that_fit, pack_ascii, unpack_ascii
from braid.kernel.envelope.base46341 import bytes_that_fit, pack, unpack
from braid.kernel.envelope.body import check, read_body, write_body
from braid.kernel.envelope.coders import OFFSET_MAX
from braid.kernel.envelope.fit import cut, reductions, unstated, whole
from braid.kernel.errors import Invalid, Unsupported
from braid.kernel.limits.envelope import ENVELOPE_UNITS_DEFAULT, ENVELOPE_UNITS_MAX
from braid.kernel.progress.fields import EnvelopeFields, SpillPointer
from braid.kernel.progress.ranges import EMPTY

PREFIX: Final = "b1:"
_ANY_VERSION: Final = re.compile(r"b[0-9]{1,4}:")
_CHECKSUM_BYTES: Final = 4


class MetadataKind(Enum):
    """The kind of a commit's metadata."""

    ENVELOPE = "envelope"
    NONE = "none"
    FOREIGN = "foreign"
    DAMAGED = "damaged"
    UNSUPPORTED = "unsupported"


class EncodedCommit(NamedTuple):
    """A commit as it is to be stored, and the claims that it contains.

    Attributes:
        offset: The Kafka offset; below the progress' base only when rejected or expired offsets could not be stated.
        metadata: The Kafka metadata; empty when not even the smallest envelope fits.
        truncated: Whether something true was left out because of the limit, and never stated before; count it.
        stated: What the commit states: `decode` of it returns these fields. Hand them to `Progress.acknowledge`.
    """

    offset: int
    metadata: str
    truncated: bool
    stated: EnvelopeFields


class Decoded(NamedTuple):
    """The contents of a commit as read.

    Attributes:
        kind: What its metadata is. Only `ENVELOPE` says more than the offset.
        fields: Progress to go on with; for every other kind just the offset as base.
        reason: Why the metadata was not used, for a log line; empty otherwise.
        beyond_log_end: Whether the commit claimed offsets at or above the log's end; `fields` claims none of them.
    """

    kind: MetadataKind
    fields: EnvelopeFields
    reason: str = ""
    beyond_log_end: bool = False


def encode(
    fields: EnvelopeFields,
    limit_units: int = ENVELOPE_UNITS_DEFAULT,
    *,
    ascii_only: bool = False,
    spill: SpillPointer | None = None,
) -> EncodedCommit:
    """Writes progress as an offset and metadata of at most `limit_units` UTF-16 units.

    What does not fit is left out and thereby unclaimed here; `fit.reductions` says in which order.

    Args:
        fields: The progress, as `Progress.snapshot` gives it.
        limit_units: The cluster's `offset.metadata.max.bytes`; more than `ENVELOPE_UNITS_MAX` is not used.
        ascii_only: Whether a unit is a byte there, so that text of one byte a character holds more.
        spill: The record that says all of it.

    Raises:
        Invalid: the fields contradict themselves or leave their ranges.
    """
    everything, needed = whole(fields), replace(fields, rejected_before=EMPTY)
    check(everything)
    room = min(limit_units, ENVELOPE_UNITS_MAX) - len(PREFIX)
    size_max = (ascii_bytes_that_fit(room) if ascii_only else bytes_that_fit(room)) - _CHECKSUM_BYTES
    if spill is not None:
        fields = replace(fields, spill=spill._replace(done=OFFSET_MAX))
    for reduced in reductions(fields, size_max, _size):
        stated = reduced if spill is None or reduced.spill is None else _beside(reduced, spill, everything)
        body = write_body(stated)
        if len(body) <= size_max:
            payload = _checksum(stated.base, body) + body
            metadata = PREFIX + (pack_ascii(payload) if ascii_only else pack(payload))
            return EncodedCommit(stated.base, metadata, stated not in (everything, needed), stated)
    bare = unstated(needed)
    return EncodedCommit(bare.base, "", bare != needed, bare)


def _beside(stated: EnvelopeFields, spill: SpillPointer, everything: EnvelopeFields) -> EnvelopeFields:
    """Returns the pointer, with the number of offsets that the record claims beyond this statement."""
    return replace(stated, spill=spill._replace(done=everything.claims.count - stated.claims.count))


def decode(offset: int, metadata: str | None, log_end: int | None = None) -> Decoded:
    """Reads a commit. Never raises, whatever the metadata holds, and costs a bounded amount of memory.

    Args:
        offset: The committed offset; -1 (no commit) counts as 0.
        metadata: The committed metadata.
        log_end: The log's end, where known: nothing at or above it is claimed.
    """
    decoded = _decode(min(max(offset, 0), OFFSET_MAX), metadata)
    if log_end is None:
        return decoded
    bounded = cut(decoded.fields, max(log_end, 0))
    return decoded._replace(fields=bounded, beyond_log_end=bounded.claims != decoded.fields.claims)


def _decode(offset: int, metadata: str | None) -> Decoded:
    if not metadata:
        return _offset_only(MetadataKind.NONE, offset, "")
    if not metadata.startswith(PREFIX):
        found = _ANY_VERSION.match(metadata)
        if found is None:
            return _offset_only(MetadataKind.FOREIGN, offset, "the metadata is another tool's")
        version = found.group()[1:-1]
        return _offset_only(MetadataKind.UNSUPPORTED, offset, f"version {version} is not known to this release")
    try:
        return Decoded(MetadataKind.ENVELOPE, _read(offset, metadata))
    except Unsupported as unsupported:
        return _offset_only(MetadataKind.UNSUPPORTED, offset, unsupported.message)
    except Invalid as damage:
        return _offset_only(MetadataKind.DAMAGED, offset, damage.message)


def _offset_only(kind: MetadataKind, offset: int, reason: str) -> Decoded:
    return Decoded(kind, EnvelopeFields(base=offset), reason)


def _read(offset: int, metadata: str) -> EnvelopeFields:
    if len(metadata) > ENVELOPE_UNITS_MAX:
        raise Invalid("the metadata is longer than any envelope")
    text = metadata[len(PREFIX) :]
    payload = unpack_ascii(text) if text.isascii() else unpack(text)
    body = payload[_CHECKSUM_BYTES:]
    if payload[:_CHECKSUM_BYTES] != _checksum(offset, body):
        raise Invalid("the checksum does not match this offset and metadata")
    return read_body(offset, body)


def _checksum(offset: int, body: bytes) -> bytes:
    """CRC-32 of the offset and the body, so that metadata counts only beside the offset for which it was written."""
    return zlib.crc32(body, zlib.crc32(offset.to_bytes(8, "big"))).to_bytes(4, "big")


def _size(fields: EnvelopeFields) -> int:
    return len(write_body(fields))
