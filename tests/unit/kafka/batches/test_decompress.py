"""Inflating within a bound: honest data comes whole, and nothing brings more than there is room for."""

import contextlib
import random
import struct

import cramjam
import pytest
import zstandard
from hypothesis import example, given
from hypothesis import strategies as st

from braid.kafka.batches.decompress import INFLATE_ERRORS, DoesNotFit, inflate_into, inflated_parts
from braid.kernel.limits.kafka import XERIAL_BLOCK_BYTES_MIN, ZSTD_WINDOW_BYTES_MAX
from testbed.batches import CODECS, bomb, packed

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


def in_parts(codec: int, data: bytes) -> bytes:
    return b"".join(map(bytes, inflated_parts(codec, memoryview(data))))


@given(codec=codecs, content=contents)
def test_parts_are_the_whole(codec: int, content: bytes) -> None:
    assert in_parts(codec, packed(codec, content)) == content
    assert in_parts(0, content) == content


@given(codec=st.sampled_from([1, 4]), content=contents, more=contents)
def test_members_and_frames_that_follow_each_other_are_one(codec: int, content: bytes, more: bytes) -> None:
    assert in_parts(codec, packed(codec, content) + packed(codec, more)) == content + more


@given(content=contents)
def test_raw_snappy_is_one_part(content: bytes) -> None:
    assert in_parts(2, bytes(cramjam.snappy.compress_raw(content))) == content


@given(
    contents=st.lists(st.one_of(contents, st.integers(0, 255).map(lambda seed: noise(seed, 70_000))), max_size=6),
    linked=st.booleans(),
    checked=st.booleans(),
)
@example(contents=[b"\0", b"\0" * 13], linked=True, checked=False)  # shorter than any reference
def test_lz4_blocks_may_refer_to_those_before_them(contents: list[bytes], linked: bool, checked: bool) -> None:
    """Each content twice: the second time it is all references, as far as those may go."""
    packer = cramjam.lz4.Compressor(level=1, content_checksum=checked, block_linked=linked)
    data = b"".join(bytes(packer.flush()) for content in contents for _ in range(2) if packer.compress(content))
    data += bytes(packer.finish())
    whole = b"".join(content * 2 for content in contents)
    assert in_parts(3, data) == whole
    assert inflate(3, data, len(whole)) == whole


def noise(seed: int, size: int) -> bytes:
    return random.Random(seed).randbytes(size)


@given(codec=codecs, content=contents, cut=st.floats(0, 0.999))
def test_parts_of_a_stream_that_was_cut_are_its_beginning(codec: int, content: bytes, cut: float) -> None:
    data, found = packed(codec, content), b""
    with contextlib.suppress(*INFLATE_ERRORS):
        for part in inflated_parts(codec, memoryview(data[: int(len(data) * cut)])):
            found += part
    assert content.startswith(found)


@given(codec=st.integers(0, 7), data=st.binary(max_size=500), at=st.integers(0, 40), content=contents)
def test_parts_of_noise_end_or_are_refused(codec: int, data: bytes, at: int, content: bytes) -> None:
    honest = bytearray(packed(codec, content) if codec in CODECS else b"")
    honest[at : at + len(data)] = data
    for whole in (data, XERIAL + data, bytes(honest)):
        with contextlib.suppress(*INFLATE_ERRORS, DoesNotFit):
            in_parts(codec, whole)


@pytest.mark.parametrize("codec", CODECS[1:])
def test_a_bomb_comes_part_by_part(codec: int) -> None:
    parts = inflated_parts(codec, memoryview(bomb(codec, 64 << 20)))
    assert all(len(part) <= 4 << 20 for part, _ in zip(parts, range(5), strict=False))


def test_a_block_of_snappy_larger_than_any_record_does_not_fit() -> None:
    lying = b"\xff\xff\xff\x7f" + bytes(cramjam.snappy.compress_raw(b"content"))[1:]
    with pytest.raises(DoesNotFit):
        in_parts(2, lying)


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
