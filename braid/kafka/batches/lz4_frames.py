"""Inflates an LZ4 frame block by block (LZ4 Frame Format 1.6), in the memory of one block. Frames may be hostile.

cramjam inflates a frame as a whole, or one block. The blocks of most frames refer to what stands before them, which its
block decoder knows nothing of: such a block is given what came before as literals of its own, in front.
What a frame has of checksums is not looked at: a record batch has one over all its bytes.
"""

import struct
from collections.abc import Iterator
from types import MappingProxyType
from typing import Final

import cramjam

_HEAD: Final = struct.Struct("<IBB")  # magic, flags, the largest block
_WORD: Final = struct.Struct("<I")
_MAGIC: Final = 0x184D2204
_VERSION: Final = 0x40
_VERSION_MASK: Final = 0xC0
_INDEPENDENT: Final = 0x20
_BLOCK_CHECKSUM: Final = 0x10
_CONTENT_SIZE: Final = 0x08
_CONTENT_CHECKSUM: Final = 0x04
_DICTIONARY: Final = 0x01
_BLOCK_BYTES: Final = MappingProxyType({4: 64 << 10, 5: 256 << 10, 6: 1 << 20, 7: 4 << 20})
_STORED: Final = 1 << 31  # of a block's size: it is not compressed
_HISTORY_BYTES: Final = 0xFFFF  # how far back a block may refer
_MATCH_BYTES: Final = 4  # the shortest reference


def inflated_blocks(packed: memoryview) -> Iterator[memoryview]:
    """Yields the content of each block; each is valid until the next is asked for.

    Raises:
        ValueError, struct.error, cramjam.DecompressionError: the frame is damaged, or not the only thing in there.
    """
    flags, block_bytes, at = _head(packed)
    room = memoryview(bytearray(_MATCH_BYTES + _HISTORY_BYTES + block_bytes))
    history = b""
    while True:
        (word,) = _WORD.unpack_from(packed, at)
        at += _WORD.size
        if not word:
            break
        size = word & ~_STORED
        if not 0 < size <= min(block_bytes, len(packed) - at):
            raise ValueError(f"an lz4 block of {size} bytes where {len(packed) - at} are left")
        block = packed[at : at + size]
        at += size + (_WORD.size if flags & _BLOCK_CHECKSUM else 0)
        part = block if word & _STORED else _inflated(block, history, room, block_bytes)
        if not flags & _INDEPENDENT:
            history = (history + bytes(part[-_HISTORY_BYTES:]))[-_HISTORY_BYTES:]
        yield part
    at += _WORD.size if flags & _CONTENT_CHECKSUM else 0
    if at != len(packed):
        raise ValueError(f"an lz4 frame of {at} bytes in {len(packed)}")


def _head(packed: memoryview) -> tuple[int, int, int]:
    """Reads a frame's flags, the size of its blocks, and where they begin."""
    magic, flags, sizes = _HEAD.unpack_from(packed)
    block_bytes = _BLOCK_BYTES.get(sizes >> 4 & 0x07)
    if magic != _MAGIC or flags & _VERSION_MASK != _VERSION or flags & _DICTIONARY or block_bytes is None:
        raise ValueError(f"no lz4 frame of a kind that is read: {bytes(packed[: _HEAD.size]).hex()}")
    return flags, block_bytes, _HEAD.size + (8 if flags & _CONTENT_SIZE else 0) + 1  # a byte of checksum ends it


def _inflated(block: memoryview, history: bytes, room: memoryview, block_bytes: int) -> memoryview:
    """Inflates a block into `room`, after the history to which it may refer."""
    before = 0
    packed: memoryview | bytes = block
    if history:
        packed = _as_literals(history) + block
        before = _MATCH_BYTES + max(len(history), _MATCH_BYTES)
    most = before + block_bytes
    used = cramjam.lz4.decompress_block_into(packed, room[:most], output_len=most)
    return room[before:used]


def _as_literals(history: bytes) -> bytes:
    """The beginning of a block that inflates to four bytes and the history.

    Literals have to be followed by a reference: they are the history with its last four bytes in front, which the
    reference repeats behind them. A history of fewer than four bytes is filled up with zeros in front.
    """
    history = history.rjust(_MATCH_BYTES, b"\0")
    more, last = divmod(len(history) - 15, 255)
    token = bytes([0xF0]) + b"\xff" * more + bytes([last]) if more >= 0 else bytes([len(history) << 4])
    literals = history[-_MATCH_BYTES:] + history[:-_MATCH_BYTES]
    return token + literals + len(history).to_bytes(2, "little")
