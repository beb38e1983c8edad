"""Inflates what a batch holds into a buffer of fixed size, so that a decompression bomb costs no more than the buffer.

The codecs are those of record batches: gzip, snappy (raw, or in xerial's framing), lz4 frames and zstd (KIP-110).
Nothing here believes a size that the data itself states.
"""

import struct
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import cramjam
import zstandard

from braid.kernel.limits import XERIAL_BLOCK_BYTES_MIN, ZSTD_WINDOW_BYTES_MAX

CODEC_MASK: Final = 0x07  # of a batch's attributes
NAMES: Final[Mapping[int, str]] = MappingProxyType({1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"})

# What the decompressors raise for bytes that are not what they say.
INFLATE_ERRORS: Final = (cramjam.DecompressionError, zstandard.ZstdError, struct.error, ValueError)

_FULL: Final = "failed to write whole buffer"  # how cramjam says that its output does not fit
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEAD_BYTES: Final = 16  # the magic, then a version and the oldest version that reads it
_BLOCK_SIZE: Final = struct.Struct(">i")


class DoesNotFit(Exception):
    """There is more than the buffer takes."""


def inflate_into(codec: int, packed: memoryview, room: memoryview) -> int:
    """Inflates into `room` and returns how many of its bytes were used.

    Raises:
        DoesNotFit: it holds more than `room`; what `room` holds then is of no use.
        ValueError, or another of `INFLATE_ERRORS`: the data is damaged, or of no codec there is.
    """
    inflate = _INFLATERS.get(codec)
    if inflate is None:
        raise ValueError(f"no codec has number {codec}")
    return inflate(packed, room)


def _cramjam(decompress_into: Callable[[memoryview, memoryview], int], packed: memoryview, room: memoryview) -> int:
    try:
        return decompress_into(packed, room)
    except cramjam.DecompressionError as error:
        if _FULL in str(error):
            raise DoesNotFit from error
        raise


def _gzip(packed: memoryview, room: memoryview) -> int:
    return _cramjam(cramjam.gzip.decompress_into, packed, room)


def _lz4(packed: memoryview, room: memoryview) -> int:
    return _cramjam(cramjam.lz4.decompress_into, packed, room)


def _zstd(packed: memoryview, room: memoryview) -> int:
    """By zstandard, because cramjam takes any window: a frame of a few bytes may ask for 128 MiB."""
    bounded = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW_BYTES_MAX)
    with bounded.stream_reader(packed, read_across_frames=True, closefd=False) as reader:
        used = 0
        while used < len(room) and (count := reader.readinto(room[used:])):
            used += count
        if used == len(room) and reader.readinto(bytearray(1)):
            raise DoesNotFit
        return used


def _snappy(packed: memoryview, room: memoryview) -> int:
    if bytes(packed[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return _raw_snappy(packed, room)
    at, used, blocks = _XERIAL_HEAD_BYTES, 0, 0
    while at < len(packed):
        (size,) = _BLOCK_SIZE.unpack_from(packed, at)
        at += _BLOCK_SIZE.size
        if not 0 < size <= len(packed) - at:
            raise ValueError(f"a snappy block of {size} bytes where {len(packed) - at} are left")
        blocks += 1
        # Empty blocks would cost time without end.
        if blocks > len(room) // XERIAL_BLOCK_BYTES_MIN + 1:
            raise DoesNotFit
        used += _raw_snappy(packed[at : at + size], room[used:])
        at += size
    return used


def _raw_snappy(packed: memoryview, room: memoryview) -> int:
    if cramjam.snappy.decompress_raw_len(packed) > len(room):
        raise DoesNotFit
    return cramjam.snappy.decompress_raw_into(packed, room)


_INFLATERS: Final = MappingProxyType({1: _gzip, 2: _snappy, 3: _lz4, 4: _zstd})
