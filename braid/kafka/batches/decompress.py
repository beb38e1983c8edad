"""Inflates a batch into a buffer of fixed size, or part by part, so that a bomb costs no more memory than that.

The codecs are those of record batches: gzip, snappy (raw, or in xerial's framing), lz4 frames and zstd (KIP-110). No
size that the data itself states is trusted.
"""

import mmap
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

import cramjam
import zstandard

from braid.kafka.batches.lz4_frames import inflated_blocks
from braid.kernel.limits.kafka import (
    INFLATED_PART_BYTES,
    INFLATED_RECORD_BYTES_MAX,
    LARGE_PIECE_BYTES,
    XERIAL_BLOCK_BYTES_MIN,
    ZSTD_WINDOW_BYTES_MAX,
)

CODEC_MASK: Final = 0x07  # of a batch's attributes
NAMES: Final[Mapping[int, str]] = MappingProxyType({1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"})

# What the decompressors raise for bytes that are not what they say.
INFLATE_ERRORS: Final = (cramjam.DecompressionError, zstandard.ZstdError, zlib.error, struct.error, ValueError)

_FULL: Final = "failed to write whole buffer"  # how cramjam says that its output does not fit
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEAD_BYTES: Final = 16  # the magic, then a version and the oldest version that reads it
_BLOCK_SIZE: Final = struct.Struct(">i")
_GZIP: Final = 31  # zlib's number for gzip's framing around its largest window
_FED_BYTES: Final = 64 << 10  # zlib copies what it was fed and has not used


class DoesNotFit(Exception):
    """The data inflates to more than the buffer holds."""


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


def inflated_parts(codec: int, packed: memoryview) -> Iterator[memoryview]:
    """Yields the inflated data part by part, in order, in the memory of a part and a codec's window.

    Codec 0 is no compression. A part is valid until the next is asked for; it may be empty. It is 4 MiB at most, except
    for snappy's blocks: those are as large as they were made, and raw snappy is one block.

    Raises:
        DoesNotFit: a block of snappy holds more than `INFLATED_RECORD_BYTES_MAX`.
        ValueError, or another of `INFLATE_ERRORS`: the data is damaged from there on, or of no codec there is.
    """
    parts = _PARTS.get(codec)
    if parts is None:
        raise ValueError(f"no codec has number {codec}")
    return parts(packed)


def fresh_room(size: int) -> memoryview:
    """Returns bytes to write to. A large buffer is mapped, so pages that are never written take no memory."""
    return memoryview(bytearray(size) if size <= LARGE_PIECE_BYTES else mmap.mmap(-1, size))


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
    """Inflates with zstandard, because cramjam accepts any window: a frame of a few bytes may ask for 128 MiB."""
    with _zstd_reader(packed) as reader:
        used = 0
        while used < len(room) and (count := reader.readinto(room[used:])):
            used += count
        if used == len(room) and reader.readinto(bytearray(1)):
            raise DoesNotFit
        return used


def _zstd_reader(packed: memoryview) -> zstandard.ZstdDecompressionReader:
    bounded = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW_BYTES_MAX)
    return bounded.stream_reader(packed, read_across_frames=True, closefd=False)


def _snappy(packed: memoryview, room: memoryview) -> int:
    used = 0
    for blocks, block in enumerate(_snappy_blocks(packed)):
        if blocks > len(room) // XERIAL_BLOCK_BYTES_MIN:  # empty blocks would cost time without end
            raise DoesNotFit
        used += _raw_snappy(block, room[used:])
    return used


def _snappy_blocks(packed: memoryview) -> Iterator[memoryview]:
    """Yields the blocks of xerial's framing; without framing, all data is one block."""
    if bytes(packed[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        yield packed
        return
    at = _XERIAL_HEAD_BYTES
    while at < len(packed):
        (size,) = _BLOCK_SIZE.unpack_from(packed, at)
        at += _BLOCK_SIZE.size
        if not 0 < size <= len(packed) - at:
            raise ValueError(f"a snappy block of {size} bytes where {len(packed) - at} are left")
        yield packed[at : at + size]
        at += size


def _raw_snappy(packed: memoryview, room: memoryview) -> int:
    if cramjam.snappy.decompress_raw_len(packed) > len(room):
        raise DoesNotFit
    return cramjam.snappy.decompress_raw_into(packed, room)


def _plain_parts(packed: memoryview) -> Iterator[memoryview]:
    yield packed


def _gzip_parts(packed: memoryview) -> Iterator[memoryview]:
    at, fed, member = 0, b"", zlib.decompressobj(_GZIP)
    while True:
        if not fed:
            fed = bytes(packed[at : at + _FED_BYTES])
            at += len(fed)
        part = member.decompress(fed, INFLATED_PART_BYTES)
        if not part and not fed and not member.eof:
            raise ValueError("gzip that was cut short")
        yield memoryview(part)
        fed = member.unconsumed_tail
        if member.eof:
            at -= len(member.unused_data)
            if at == len(packed):
                return
            fed, member = b"", zlib.decompressobj(_GZIP)  # members may follow each other (RFC 1952)


def _zstd_parts(packed: memoryview) -> Iterator[memoryview]:
    with _zstd_reader(packed) as reader:
        while part := reader.read(INFLATED_PART_BYTES):
            yield memoryview(part)


def _snappy_parts(packed: memoryview) -> Iterator[memoryview]:
    for block in _snappy_blocks(packed):
        size = cramjam.snappy.decompress_raw_len(block)
        if size > INFLATED_RECORD_BYTES_MAX:
            raise DoesNotFit(f"a block of {size} bytes, more than {INFLATED_RECORD_BYTES_MAX}")
        room = fresh_room(size) if size else memoryview(b"")
        yield room[: cramjam.snappy.decompress_raw_into(block, room)] if size else room


_PARTS: Final = MappingProxyType(
    {0: _plain_parts, 1: _gzip_parts, 2: _snappy_parts, 3: inflated_blocks, 4: _zstd_parts}
)
_INFLATERS: Final = MappingProxyType({1: _gzip, 2: _snappy, 3: _lz4, 4: _zstd})
