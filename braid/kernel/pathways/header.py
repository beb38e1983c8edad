"""The header `dd-pathway-ctx-base64`, which carries a record's pathway, as Datadog's libraries write and read it. Pure.

It holds base64 of the hash in 8 bytes (little-endian), then two zigzag varints: when the pathway began and when the
record passed the last point, milliseconds since the epoch. Braid adds a byte, which those libraries do not read: how
many records this one stands for.
"""

import binascii
from base64 import b64decode, b64encode
from typing import Final, NamedTuple

from braid.kernel.limits.lagmon.pathways import (
    PATHWAY_FUTURE_MS_MAX,
    PATHWAY_HEADER_BYTES_MAX,
    PATHWAY_WEIGHT_SHIFT_MAX,
)

PATHWAY_HEADER: Final = "dd-pathway-ctx-base64"
_HASH_BYTES: Final = 8
_VARINT_BYTES_MAX: Final = 9  # as those libraries write them: the ninth byte has eight bits
_WEIGHT_MARK: Final = 0xA0  # the byte's first three bits; the others are the weight's logarithm


class Context(NamedTuple):
    """A record's pathway at the last point that it passed.

    Attributes:
        hash: The point's.
        began_ms: When the pathway began.
        passed_ms: When the record passed the point.
        shift: The record stands for `2**shift` records: itself and those that were not sampled.
    """

    hash: int
    began_ms: int
    passed_ms: int
    shift: int = 0


def encode_context(context: Context) -> bytes:
    """Returns the header's value."""
    raw = (
        context.hash.to_bytes(_HASH_BYTES, "little")
        + _varint(context.began_ms)
        + _varint(context.passed_ms)
        + bytes((_WEIGHT_MARK | context.shift,))
    )
    return b64encode(raw)


def decode_context(header: bytes, now_ms: int) -> Context | None:
    """Returns what a header says; None for garbage: it is too short or too long, no base64, or its times are absurd."""
    if len(header) > PATHWAY_HEADER_BYTES_MAX:
        return None
    try:
        raw = b64decode(header, validate=True)
    except binascii.Error:
        return None
    began_ms, at = _read_varint(raw, _HASH_BYTES)
    passed_ms, at = _read_varint(raw, at)
    found = int.from_bytes(raw[:_HASH_BYTES], "little")
    if not found or not 0 < began_ms <= now_ms + PATHWAY_FUTURE_MS_MAX:
        return None
    if not 0 < passed_ms <= now_ms + PATHWAY_FUTURE_MS_MAX:
        return None
    weight = raw[at] if len(raw) == at + 1 else 0
    shift = weight ^ _WEIGHT_MARK
    return Context(found, began_ms, passed_ms, shift if shift <= PATHWAY_WEIGHT_SHIFT_MAX else 0)


def _varint(number: int) -> bytes:
    """Writes a zigzag varint of a number that is not negative."""
    left = number << 1
    found = bytearray()
    while left >= 0x80 and len(found) < _VARINT_BYTES_MAX - 1:
        found.append(left & 0x7F | 0x80)
        left >>= 7
    found.append(left & 0xFF)
    return bytes(found)


def _read_varint(raw: bytes, at: int) -> tuple[int, int]:
    """Reads a zigzag varint; returns it and where it ends. One that is cut off is 0, which no time is."""
    value = shift = 0
    for place in range(at, min(at + _VARINT_BYTES_MAX, len(raw))):
        byte = raw[place]
        if byte < 0x80 or place == at + _VARINT_BYTES_MAX - 1:
            value |= byte << shift
            return (value >> 1) ^ -(value & 1), place + 1
        value |= (byte & 0x7F) << shift
        shift += 7
    return 0, len(raw)
