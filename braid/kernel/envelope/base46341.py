"""Bytes as text of 31 bits per two UTF-16 units. Only the packing lives here; what the bytes mean is the caller's.

The alphabet is 46,341 characters of the basic multilingual plane in three blocks: one UTF-16 unit and three UTF-8 bytes
each, no surrogates, no spaces, no combining marks, stable under Unicode normalisation form C. It is as large as it must
be for two characters to hold 31 bits (46,341² ≥ 2³¹), and no larger.
"""

from typing import Final

import numpy as np

from braid.kernel.errors import Invalid

_RADIX: Final = 46_341
_PAIR_BITS: Final = 31
_LAST_BITS: Final = 15  # of a last character that has no other beside it
_MARK_BITS: Final = 16  # among the last of which the end mark is, or one character fewer would hold the same
_UNREADABLE: Final = "metadata has characters or pairs that stand for nothing, or no end mark"
_NO_BYTES: Final = "metadata does not end with its last byte"
_BLOCKS: Final = ((0x3400, 28_813), (0xAC00, 11_172), (0xE000, 6_356))  # first code point, how many
_ALPHABET: Final = np.concatenate([np.arange(first, first + count) for first, count in _BLOCKS]).astype("<u2")
_NOTHING: Final = -(1 << 31)  # in place of a value: what it is part of is negative
_VALUES: Final = np.full(1 << 16, _NOTHING, np.int64)
_VALUES[_ALPHABET] = np.arange(_RADIX)
CHARACTERS: Final = _ALPHABET.tobytes().decode("utf-16-le")
_DIGITS: Final[list[int]] = _VALUES.tolist()  # read faster one by one than an array
_SHORT_BYTES: Final = 128  # most envelopes; so few bytes are sooner read as one number than as arrays
_SHORT_UNITS: Final = (_SHORT_BYTES * 16 + 2 + _PAIR_BITS - 1) // _PAIR_BITS


def units_needed(size_bytes: int) -> int:
    """How many UTF-16 units `pack` uses for so many bytes."""
    return (size_bytes * 16 + 2 + _PAIR_BITS - 1) // _PAIR_BITS


def bytes_that_fit(units: int) -> int:
    """The most bytes `pack` fits into so many UTF-16 units; negative when none do."""
    return (_bits_of(units) - 1) // 8


def _bits_of(units: int) -> int:
    """Two units hold 31 bits, a last one without another holds 15."""
    return units * _PAIR_BITS // 2


def pack(data: bytes) -> str:
    """Writes the bits of `data`, a one and zeros: two characters for 31 bits, one for 15 or fewer that are left."""
    return pack_number(data) if len(data) <= _SHORT_BYTES else pack_bits(data)


def pack_number(data: bytes) -> str:
    """`pack` for a few bytes."""
    units = units_needed(len(data))
    number = (int.from_bytes(data, "big") << 1 | 1) << _bits_of(units) - len(data) * 8 - 1
    last = ""
    if units % 2:
        last = CHARACTERS[number & 0x7FFF]
        number >>= _LAST_BITS
    text = ""
    for shift in range(_bits_of(units - units % 2) - _PAIR_BITS, -1, -_PAIR_BITS):
        first, second = divmod(number >> shift & 0x7FFFFFFF, _RADIX)
        text += CHARACTERS[first] + CHARACTERS[second]
    return text + last


def pack_bits(data: bytes) -> str:
    """`pack` for many bytes."""
    units = units_needed(len(data))
    pairs, single = divmod(units, 2)
    stream = np.zeros(_bits_of(units), np.uint8)
    stream[: len(data) * 8] = np.unpackbits(np.frombuffer(data, np.uint8))
    stream[len(data) * 8] = 1
    bits = np.zeros((pairs + single, _PAIR_BITS + 1), np.uint8)
    bits[:pairs, 1:] = stream[: pairs * _PAIR_BITS].reshape(pairs, _PAIR_BITS)
    bits[pairs:, -_LAST_BITS:] = stream[pairs * _PAIR_BITS :].reshape(single, _LAST_BITS)
    numbers = np.packbits(bits.ravel()).view(">u4").astype(np.uint32)  # four bytes a row; along an axis it takes longer
    values = np.empty((len(numbers), 2), np.uint32)
    values[:, 0] = numbers // np.uint32(_RADIX)
    values[:, 1] = numbers - values[:, 0] * np.uint32(_RADIX)
    characters: bytes = _ALPHABET[values.ravel()].tobytes()
    if single:
        characters = characters[:-4] + characters[-2:]
    return characters.decode("utf-16-le")


def unpack(text: str) -> bytes:
    """Reads what `pack` wrote, and nothing else: each text stands for other bytes.

    Raises:
        Invalid: a character or a pair stands for nothing, or the end mark is missing or misplaced.
    """
    return unpack_number(text) if len(text) <= _SHORT_UNITS else unpack_bits(text)


def unpack_number(text: str) -> bytes:
    """`unpack` for a few characters."""
    number, part, codes = 0, 0, map(ord, text)
    try:
        for first, second in zip(codes, codes):  # noqa: B905 (a last one without another is taken below)
            part = _DIGITS[first] * _RADIX + _DIGITS[second]
            if part >> _PAIR_BITS:
                raise Invalid(_UNREADABLE)
            number = number << _PAIR_BITS | part
        if len(text) % 2:
            part = _DIGITS[ord(text[-1])]
            if part >> _LAST_BITS:
                raise Invalid(_UNREADABLE)
            number = number << _LAST_BITS | part
    except IndexError:
        raise Invalid(_UNREADABLE) from None
    size = _size_bits(len(text), part)
    return (number >> len(text) * _PAIR_BITS // 2 - size).to_bytes(size // 8, "big")


def unpack_bits(text: str) -> bytes:
    """`unpack` for many characters."""
    codes = np.frombuffer(text.encode("utf-16-le", "surrogatepass"), "<u2")
    single = len(codes) % 2
    values = np.zeros(len(codes) + single, np.int64)
    values[: len(codes)] = _VALUES[codes]
    if single:
        values[-2:] = 0, values[-2]
    numbers = values[::2] * _RADIX + values[1::2]
    if (numbers >> _PAIR_BITS).any() or (single and numbers[-1] >> _LAST_BITS):
        raise Invalid(_UNREADABLE)
    size = _size_bits(len(codes), int(numbers[-1]) if len(numbers) else 0)
    bits = np.unpackbits(numbers.astype(">u4").view(np.uint8)).reshape(-1, _PAIR_BITS + 1)[:, 1:].ravel()
    if single:
        bits[-_PAIR_BITS : _LAST_BITS - _PAIR_BITS] = bits[-_LAST_BITS:]
    return np.packbits(bits[:size]).tobytes()


def _size_bits(units: int, last: int) -> int:
    """How many bits there are before the end mark, given what the last pair, or the last single unit, stands for.

    Raises:
        Invalid: these are not whole bytes, or fewer units would hold them.
    """
    mark = (last & -last).bit_length()
    if not mark:
        raise Invalid(_UNREADABLE)
    size = units * _PAIR_BITS // 2 - mark
    if size % 8 or mark > _MARK_BITS:
        raise Invalid(_NO_BYTES)
    return size
