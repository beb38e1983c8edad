"""`tools.animate` writes frames that a decoder of PNG accepts, and refuses those that do not fit together."""

import struct
import zlib

import pytest

from tools.animate import Frame, animated, chunks


def png(width: int, height: int, colour: int = 6) -> bytes:
    """A picture in one colour, four bytes a pixel."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)
    rows = zlib.compress((b"\x00" + b"\x10\x20\x30\xff" * width) * height)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def test_frames_follow_each_other_with_their_place_and_time() -> None:
    found = list(chunks(animated([Frame(png(4, 3), 500), Frame(png(2, 1), 250, 2, 2), Frame(png(1, 1), 90)])))
    assert [name for name, _ in found] == [
        *(b"IHDR", b"acTL", b"fcTL", b"IDAT", b"fcTL", b"fdAT", b"fcTL", b"fdAT", b"IEND")
    ]
    assert found[1][1] == struct.pack(">II", 3, 0)
    controls = [struct.unpack(">IIIIIHHBB", data) for name, data in found if name == b"fcTL"]
    assert controls == [
        (0, 4, 3, 0, 0, 500, 1_000, 0, 0),
        (1, 2, 1, 2, 2, 250, 1_000, 0, 0),
        (3, 1, 1, 0, 0, 90, 1_000, 0, 0),
    ]
    sequences = [struct.unpack(">I", data[:4])[0] for name, data in found if name == b"fdAT"]
    assert sequences == [2, 4]


@pytest.mark.parametrize(
    ("second", "why"),
    [
        (Frame(png(2, 2, colour=2), 1), "another form of pixels"),
        (Frame(png(2, 2), 1, x=3), "beyond the first"),
        (Frame(b"GIF89a", 1), "no PNG"),
        (Frame(png(2, 2)[:-20] + bytes(20), 1), "damaged"),
    ],
)
def test_frames_that_do_not_fit_are_refused(second: Frame, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        animated([Frame(png(4, 4), 1), second])
