"""The wire format of Schema Registry: a zero byte, the schema's id in four bytes, and the encoded value. Pure.

Protobuf has the place of its message in the file before the value: a count and that many numbers, as zigzag varints;
one zero byte stands for the first message.
"""

from typing import Final, NamedTuple

_MAGIC: Final = 0
_HEAD: Final = 5
_DEPTH_MAX: Final = 20  # messages within one another
_VARINT_MAX: Final = 5  # bytes of a number that fits


class Framed(NamedTuple):
    """A value that names its schema."""

    schema_id: int
    payload: bytes


def framed(data: bytes | None) -> Framed | None:
    """The parts of a value; None for one that names no schema."""
    if data is None or len(data) < _HEAD or data[0] != _MAGIC:
        return None
    return Framed(int.from_bytes(data[1:_HEAD], "big"), data[_HEAD:])


def message_place(payload: bytes) -> tuple[list[int], bytes]:
    """The place of a Protobuf message in its file, and its bytes. Raises `ValueError` for no such place."""
    count, at = _zigzag(payload, 0)
    if count == 0:
        return [0], payload[at:]
    if not 0 < count <= _DEPTH_MAX:
        raise ValueError(f"the message lies {count} levels deep")
    place = []
    for _ in range(count):
        number, at = _zigzag(payload, at)
        place.append(number)
    return place, payload[at:]


def _zigzag(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(_VARINT_MAX):
        if at >= len(data):
            raise ValueError("it ends within a number")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << (7 * shift)
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
    raise ValueError("a number is too long")
