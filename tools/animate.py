"""Writes an animated PNG: pictures in one file, which browsers play and older viewers show the first of.

The format is PNG's third edition (https://www.w3.org/TR/png-3/#apng-frame-based-animation): an `acTL` chunk with the
number of frames, then of each an `fcTL` chunk with its place and time and its data.
"""

import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

_SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
_OVERWRITE: Final = (0, 0)  # a frame stays, and the next one replaces what it covers


class Frame(NamedTuple):
    """A picture as PNG, its place on the first one, and how long it is shown."""

    png: bytes
    milliseconds: int
    x: int = 0
    y: int = 0


def animated(frames: Sequence[Frame]) -> bytes:
    """Frames as one animated PNG that is played again and again.

    Raises:
        ValueError: a picture is no PNG, has another form of pixels than the first, or reaches beyond it.
    """
    first = _header(frames[0].png)
    sequence = 0
    out = [_SIGNATURE, _chunk(b"IHDR", first), _chunk(b"acTL", struct.pack(">II", len(frames), 0))]
    for place, frame in enumerate(frames):
        width, height = _checked(frame, first)
        control = (sequence, width, height, frame.x, frame.y, frame.milliseconds, 1_000, *_OVERWRITE)
        out.append(_chunk(b"fcTL", struct.pack(">IIIIIHHBB", *control)))
        sequence += 1
        for data in _data(frame.png):
            if place == 0:
                out.append(_chunk(b"IDAT", data))
            else:
                out.append(_chunk(b"fdAT", struct.pack(">I", sequence) + data))
                sequence += 1
    return b"".join([*out, _chunk(b"IEND", b"")])


def chunks(png: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Names and contents of a PNG's chunks. Raises `ValueError` for what is none."""
    if not png.startswith(_SIGNATURE):
        raise ValueError("this is no PNG")
    at = len(_SIGNATURE)
    while at + 12 <= len(png):
        (size,) = struct.unpack_from(">I", png, at)
        name, data = png[at + 4 : at + 8], png[at + 8 : at + 8 + size]
        if png[at + 8 + size : at + 12 + size] != struct.pack(">I", zlib.crc32(name + data)):
            raise ValueError(f"the chunk {name!r} is damaged")
        yield name, data
        at += 12 + size


def _header(png: bytes) -> bytes:
    return next(data for name, data in chunks(png) if name == b"IHDR")


def _data(png: bytes) -> Iterator[bytes]:
    return (data for name, data in chunks(png) if name == b"IDAT")


def _checked(frame: Frame, first: bytes) -> tuple[int, int]:
    header = _header(frame.png)
    (width, height), (whole_width, whole_height) = (struct.unpack(">II", each[:8]) for each in (header, first))
    if header[8:] != first[8:]:
        raise ValueError("a frame has another form of pixels than the first")
    if frame.x + width > whole_width or frame.y + height > whole_height:
        raise ValueError("a frame reaches beyond the first")
    return width, height


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
