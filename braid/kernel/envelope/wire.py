"""Varints and tagged fields of the commit envelope: Protocol Buffers' wire format, checked strictly; no meaning."""

from collections.abc import Iterator, Sequence
from typing import Final

from braid.kernel.errors import Invalid, Unsupported

VARINT: Final = 0
BYTES: Final = 2
_LENGTHS: Final = (VARINT, BYTES)  # wire types that begin with a varint
_FIXED_SIZES: Final = {1: 8, 5: 4}
_CRITICAL: Final = range(64, 128)  # a reader that does not know one of these fields must not trust the rest
_VARINT_BITS_MAX: Final = 64


def put_varint(out: bytearray, value: int) -> None:
    """Appends an unsigned LEB128 varint."""
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def put_number(out: bytearray, number: int, value: int) -> None:
    """Appends a field that holds one varint; `number` is below 16."""
    out.append(number << 3 | VARINT)
    put_varint(out, value)


def put_bytes(out: bytearray, number: int, value: bytes) -> None:
    """Appends a field that holds bytes; `number` is below 16."""
    out.append(number << 3 | BYTES)
    put_varint(out, len(value))
    out += value


def zigzag(value: int) -> int:
    """Maps a signed integer of 64 bits to an unsigned one, small magnitudes first."""
    return value << 1 if value >= 0 else ~(value << 1)


def unzigzag(value: int) -> int:
    """The inverse of `zigzag`."""
    return ~(value >> 1) if value & 1 else value >> 1


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """Reads a varint; returns it and the position after it.

    Raises:
        Invalid: it is cut off or exceeds 64 bits.
    """
    if position < len(data) and data[position] < 0x80:
        return data[position], position + 1
    value = shift = 0
    while position < len(data) and shift < _VARINT_BITS_MAX:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >> _VARINT_BITS_MAX:
                break
            return value, position
        shift += 7
    raise Invalid("a varint is cut off or exceeds 64 bits")


def write_varints(values: Sequence[int]) -> bytes:
    """Writes varints one after the other."""
    if max(values, default=0) < 0x80:
        return bytes(values)
    out = bytearray()
    for value in values:
        while value > 0x7F:
            out.append(value & 0x7F | 0x80)
            value >>= 7
        out.append(value)
    return bytes(out)


def read_varints(data: bytes) -> list[int]:
    """Reads varints to the end of the data.

    Raises:
        Invalid: one is cut off or exceeds 64 bits.
    """
    if data.isascii():
        return list(data)
    values: list[int] = []
    position = 0
    while position < len(data):
        value = data[position]
        position += 1
        if value > 0x7F:
            value, position = read_varint(data, position - 1)
        values.append(value)
    return values


def read_fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yields (field number, value) in order: an int for a varint, bytes for anything else.

    Raises:
        Invalid: the data is not well-formed.
    """
    position, end = 0, len(data)
    while position < end:
        tag = data[position]
        position += 1
        if tag > 0x7F:
            tag, position = read_varint(data, position - 1)
        wire = tag & 7
        value, position = read_varint(data, position) if wire in _LENGTHS else (_size_of(wire), position)
        if wire == VARINT:
            yield tag >> 3, value
            continue
        if value > end - position:
            raise Invalid("a field is cut off")
        yield tag >> 3, data[position : position + value]
        position += value


def _size_of(wire: int) -> int:
    if wire not in _FIXED_SIZES:
        raise Invalid(f"wire type {wire} is not known")
    return _FIXED_SIZES[wire]


def skip_unknown(number: int) -> None:
    """Passes over a field this release does not know.

    Raises:
        Invalid: the number is 0.
        Unsupported: the field is critical.
    """
    if number in _CRITICAL:
        raise Unsupported(f"critical field {number} is not known to this release")
    if number == 0:
        raise Invalid("field number 0 does not exist")


def number_of(value: int | bytes) -> int:
    """The value of a field that must hold a varint.

    Raises:
        Invalid: it holds bytes.
    """
    if not isinstance(value, int):
        raise Invalid("a field holds bytes where a number belongs")
    return value


def bytes_of(value: int | bytes) -> bytes:
    """The value of a field that must hold bytes.

    Raises:
        Invalid: it holds a number.
    """
    if not isinstance(value, bytes):
        raise Invalid("a field holds a number where bytes belong")
    return value
