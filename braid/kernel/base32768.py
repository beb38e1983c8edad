"""Bytes as text of 15 bits per UTF-16 unit. Only the packing lives here; what the bytes mean is the caller's.

The alphabet is 32,768 assigned characters of the basic multilingual plane in three blocks (CJK extension A, CJK
unified ideographs, Hangul syllables): one UTF-16 unit and three UTF-8 bytes each, no spaces, no combining marks,
stable under Unicode normalisation form C.
"""

from array import array
from typing import Final

import numpy as np

from braid.kernel.errors import Invalid

_BITS: Final = 15
_UNREADABLE: Final = "metadata has characters outside the alphabet or no end mark"
_NO_BYTES: Final = "metadata does not hold whole bytes"
_BLOCKS: Final = ((0x3400, 6_592), (0x4E00, 20_992), (0xAC00, 5_184))  # first code point, how many
_ALPHABET: Final = np.concatenate([np.arange(first, first + count) for first, count in _BLOCKS]).astype("<u2")
_VALUES: Final = np.full(1 << 16, -1, np.int32)
_VALUES[_ALPHABET] = np.arange(1 << _BITS)
_CHARACTERS: Final = _ALPHABET.tobytes().decode("utf-16-le")
_DIGITS: Final = array("i", _VALUES.tobytes())
_SHORT_BYTES: Final = 64  # most envelopes; so few bytes are sooner read as one number than as arrays
_SHORT_UNITS: Final = (_SHORT_BYTES * 8 + _BITS) // _BITS


def units_needed(size_bytes: int) -> int:
    """How many UTF-16 units `pack` uses for so many bytes."""
    return (size_bytes * 8 + _BITS) // _BITS


def bytes_that_fit(units: int) -> int:
    """The most bytes `pack` fits into so many UTF-16 units; negative when none do."""
    return (units * _BITS - 1) // 8


def pack(data: bytes) -> str:
    """Writes the bits of `data`, a one and zeros up to a multiple of 15, as one character per 15 bits."""
    return pack_number(data) if len(data) <= _SHORT_BYTES else pack_bits(data)


def pack_number(data: bytes) -> str:
    """`pack` for a few bytes."""
    units = units_needed(len(data))
    zeros = units * _BITS - len(data) * 8 - 1
    number = (int.from_bytes(data, "big") << 1 | 1) << zeros
    return "".join([_CHARACTERS[number >> shift & 0x7FFF] for shift in range((units - 1) * _BITS, -1, -_BITS)])


def pack_bits(data: bytes) -> str:
    """`pack` for many bytes."""
    bits = np.zeros((units_needed(len(data)), _BITS + 1), np.uint8)
    stream = np.zeros(len(bits) * _BITS, np.uint8)
    stream[: len(data) * 8] = np.unpackbits(np.frombuffer(data, np.uint8))
    stream[len(data) * 8] = 1
    bits[:, 1:] = stream.reshape(-1, _BITS)
    values = np.packbits(bits.ravel()).view(">u2")  # two bytes a row; along an axis it takes ten times as long
    units: bytes = _ALPHABET[values].tobytes()
    return units.decode("utf-16-le")


def unpack(text: str) -> bytes:
    """Reads what `pack` wrote.

    Raises:
        Invalid: a character is outside the alphabet, or the end mark is missing or misplaced.
    """
    return unpack_number(text) if len(text) <= _SHORT_UNITS else unpack_bits(text)


def unpack_number(text: str) -> bytes:
    """`unpack` for a few characters."""
    number, digit = 0, 0
    for character in text:
        code = ord(character)
        digit = _DIGITS[code] if code < len(_DIGITS) else -1
        if digit < 0:
            raise Invalid(_UNREADABLE)
        number = number << _BITS | digit
    if not digit:
        raise Invalid(_UNREADABLE)
    mark = (number & -number).bit_length()
    size = len(text) * _BITS - mark
    if size % 8:
        raise Invalid(_NO_BYTES)
    return (number >> mark).to_bytes(size // 8, "big")


def unpack_bits(text: str) -> bytes:
    """`unpack` for many characters."""
    units = np.frombuffer(text.encode("utf-16-le", "surrogatepass"), "<u2")
    values = _VALUES[units]
    if not len(values) or int(values.min()) < 0 or not values[-1]:
        raise Invalid(_UNREADABLE)
    bits = np.unpackbits(values.astype(">u2").view(np.uint8)).reshape(-1, _BITS + 1)[:, 1:].ravel()
    last = int(values[-1])
    size = len(bits) - (last & -last).bit_length()
    if size % 8:
        raise Invalid(_NO_BYTES)
    return np.packbits(bits[:size]).tobytes()
