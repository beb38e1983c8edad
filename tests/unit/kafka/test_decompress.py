"""Inflating within a bound: honest data comes whole, and nothing brings more than there is room for."""

import struct

import cramjam
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from braid.kafka.decompress import INFLATE_ERRORS, DoesNotFit, inflate_into
from braid.kernel.limits import XERIAL_BLOCK_BYTES_MIN, ZSTD_WINDOW_BYTES_MAX
from tests.support.batches import CODECS, bomb, packed

XERIAL = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
codecs = st.sampled_from(CODECS[1:])
contents = st.one_of(
    st.binary(max_size=3_000),
    st.builds(lambda piece, times: piece * times, st.binary(min_size=1, max_size=50), st.integers(1, 500)),
)


def inflate(codec: int, data: bytes, room: int) -> bytes:
    """Into a guarded buffer: not one byte beyond the room may be touched."""
    buffer = bytearray(room) + b"guard"
    used = inflate_into(codec, memoryview(data), memoryview(buffer)[:room])
    assert buffer[room:] == b"guard"
    assert used <= room
    return bytes(buffer[:used])


@given(codec=codecs, content=contents, spare=st.integers(0, 100))
def test_honest_data_comes_whole_if_there_is_room_and_only_then(codec: int, content: bytes, spare: int) -> None:
    data = packed(codec, content)
    assert inflate(codec, data, len(content) + spare) == content
    if content:
        with pytest.raises(DoesNotFit):
            inflate(codec, data, len(content) - 1)


@given(content=contents)
def test_raw_snappy_and_blocks_of_any_size(content: bytes) -> None:
    assert inflate(2, bytes(cramjam.snappy.compress_raw(content)), len(content)) == content
    half = len(content) // 2
    blocks = [bytes(cramjam.snappy.compress_raw(part)) for part in (content[:half], content[half:])]
    framed = XERIAL + b"".join(struct.pack(">i", len(block)) + block for block in blocks)
    assert inflate(2, framed, len(content) + XERIAL_BLOCK_BYTES_MIN) == content


@given(codec=codecs, content=contents, cut=st.floats(0, 0.999))
def test_a_stream_that_was_cut_never_comes_whole(codec: int, content: bytes, cut: float) -> None:
    data = packed(codec, content)
    if codec == 2 and not content:
        return  # the frame's head is all there is
    try:
        assert inflate(codec, data[: int(len(data) * cut)], len(content) + 10) != content or not content
    except (*INFLATE_ERRORS, DoesNotFit):
        pass


@given(codec=st.integers(0, 7), data=st.binary(max_size=500), room=st.integers(0, 5_000))
def test_noise_is_refused_in_one_of_two_ways(codec: int, data: bytes, room: int) -> None:
    for noise in (data, XERIAL + data):
        try:
            inflate(codec, noise, room)
        except (*INFLATE_ERRORS, DoesNotFit):
            pass


@pytest.mark.parametrize("codec", CODECS[1:])
@pytest.mark.parametrize("room", [0, 1, 1_000, 1 << 20])
def test_a_bomb_does_not_fit(codec: int, room: int) -> None:
    with pytest.raises(DoesNotFit):
        inflate(codec, bomb(codec, 8 << 20), room)


def test_a_zstd_window_beyond_the_bound_is_refused() -> None:
    """However little it holds: the window is memory beside the buffer."""
    for log, fits in ((ZSTD_WINDOW_BYTES_MAX.bit_length() - 1, True), (ZSTD_WINDOW_BYTES_MAX.bit_length(), False)):
        parameters = zstandard.ZstdCompressionParameters(window_log=log)
        stream = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
        data = stream.compress(b"small") + stream.flush()
        if fits:
            assert inflate(4, data, 10) == b"small"
        else:
            with pytest.raises(zstandard.ZstdError, match="memory"):
                inflate(4, data, 10)


def test_one_large_zstd_frame_needs_no_window() -> None:
    content = bytes(ZSTD_WINDOW_BYTES_MAX + 1)
    assert inflate(4, zstandard.ZstdCompressor().compress(content), len(content)) == content


@pytest.mark.parametrize("size", [0, -1, 1 << 30])
def test_snappy_blocks_that_lie_about_their_size(size: int) -> None:
    with pytest.raises(ValueError, match="block"):
        inflate(2, XERIAL + struct.pack(">i", size) + b"abc", 100)


def test_snappy_blocks_without_content_are_counted() -> None:
    empty = bytes(cramjam.snappy.compress_raw(b""))
    flood = XERIAL + (struct.pack(">i", len(empty)) + empty) * 100_000
    with pytest.raises(DoesNotFit):
        inflate(2, flood, 1 << 20)
