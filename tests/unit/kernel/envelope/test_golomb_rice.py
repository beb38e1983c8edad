"""Golomb-Rice codes of sets: read by a reader of the specification alone, near the entropy, bounded."""

import math
from typing import Final

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from braid.kernel.envelope import decode, encode
from braid.kernel.envelope.coders import Coder, SizedRanges, decode_ranges, encode_ranges
from braid.kernel.envelope.golomb_rice import read_rice
from braid.kernel.envelope.wire import read_varint, unzigzag
from braid.kernel.errors import Invalid
from braid.kernel.progress.fields import EnvelopeFields
from braid.kernel.progress.ranges import Ranges
from tests.support.examples import examples

ANCHOR: Final = 1_000
OFFSET_MAX: Final = (1 << 63) - 1


def window(size: int, unfinished: float, seed: int = 0) -> Ranges:
    """`size` offsets from the anchor on, of which so many are not done, each by chance."""
    done = np.random.default_rng(seed).random(size) >= unfinished
    done[0], done[-1] = False, True
    edges = np.flatnonzero(np.diff(np.concatenate(([0], done.astype(np.int8), [0]))))
    return Ranges.of_edges((edges + ANCHOR).tolist())


def by_the_book(payload: bytes, anchor: int) -> set[int]:
    """The set that a payload says, bit by bit as the reference page says it."""
    first, at = read_varint(payload, 0)
    length, at = read_varint(payload, at)
    form, at = read_varint(payload, at)
    count, at = read_varint(payload, at)
    width = form & 63
    remainders = int.from_bytes(payload[at : at + (count * width + 7) // 8], "little")
    unary = int.from_bytes(payload[at + (count * width + 7) // 8 :], "little")
    listed, position = set(), -1
    for _ in range(count):
        quotient = 0
        while not unary & 1:
            unary, quotient = unary >> 1, quotient + 1
        unary >>= 1
        position += (quotient << width) + (remainders & ((1 << width) - 1)) + 1
        remainders >>= width
        listed.add(position)
    assert (unary, remainders) == (0, 0)
    start = anchor + unzigzag(first)
    return {start + each for each in range(length) if (each in listed) is bool(form & 64)}


sets = st.builds(
    window, st.integers(2, 3_000), st.sampled_from((0.5, 0.1, 0.01, 0.001, 0.9, 0.99, 0.995)), st.integers(0, 1 << 32)
)


@given(sets)
def test_what_is_written_is_read_and_by_the_book_too(done: Ranges) -> None:
    data = encode_ranges(done, ANCHOR)
    assert decode_ranges(data, ANCHOR) == done
    if data[0] == Coder.GOLOMB_RICE:
        assert by_the_book(data[1:], ANCHOR) == {each for span in done for each in range(*span)}


def test_each_coder_has_its_sets() -> None:
    chosen = {share: encode_ranges(window(20_000, share), ANCHOR)[0] for share in (0.5, 0.1, 0.01, 0.001, 0.99)}
    assert chosen == {0.5: Coder.BITMAP} | dict.fromkeys((0.1, 0.01, 0.001, 0.99), Coder.GOLOMB_RICE)
    bursts = Ranges((ANCHOR + n * 10_000, ANCHOR + n * 10_000 + 9_000) for n in range(50))
    assert encode_ranges(bursts, ANCHOR)[0] == Coder.RUNS


@pytest.mark.parametrize(("unfinished", "size"), [(0.5, 60_000), (0.1, 128_000), (0.01, 750_000), (0.001, 5_200_000)])
def test_a_brokers_4096_units_hold_a_large_window(unfinished: float, size: int) -> None:
    """Most windows of that size: by chance more or less of one is unfinished."""
    whole = 0
    for done in (window(size, unfinished, seed) for seed in range(5)):
        commit = encode(EnvelopeFields(base=ANCHOR, done=done))
        whole += not commit.truncated
        if not commit.truncated:
            assert decode(commit.offset, commit.metadata).fields.done == done
        missing = size - done.count
        entropy = (math.lgamma(size + 1) - math.lgamma(missing + 1) - math.lgamma(done.count + 1)) / math.log(2)
        assert len(encode_ranges(done, ANCHOR)) * 8 <= entropy * 1.02
    assert whole >= 3


@given(sets, st.floats(0, 1))
def test_the_size_of_a_part_is_never_more_than_foretold(done: Ranges, part: float) -> None:
    horizon = ANCHOR + round(part * 3_000)
    beginning = Ranges(span for span in done if span.start < horizon)
    assert len(encode_ranges(beginning, ANCHOR)) <= SizedRanges(done).size_below(horizon) + 1


@given(st.binary(max_size=400), st.integers(-5, 5) | st.integers(OFFSET_MAX - 5, OFFSET_MAX + 5))
@settings(max_examples=examples(500))
def test_any_bytes_are_a_set_or_refused(data: bytes, start: int) -> None:
    try:
        edges = read_rice(data, start)
    except Invalid:
        return
    assert len(edges) % 2 == 0
    assert edges == sorted(set(edges))
    assert start == edges[0]
    assert 0 <= edges[0] < edges[-1] <= OFFSET_MAX


@given(sets, st.data())
def test_damage_is_refused_or_another_set_of_its_kind(done: Ranges, data: st.DataObject) -> None:
    payload = bytearray(encode_ranges(done, ANCHOR))
    place = data.draw(st.integers(1, len(payload) - 1))
    payload[place] ^= 1 << data.draw(st.integers(0, 7))
    try:
        decode_ranges(bytes(payload), ANCHOR)
    except Invalid:
        return


@pytest.mark.parametrize(
    "payload",
    [
        "",
        "0a0001",  # nothing listed
        "0a000000",
        "0a800100ff",  # a form of two bytes
        "0a2d0100ffffff",  # remainders of 45 bits
        "0a0001ff",  # eight quotients, not one
        "0a00010200",  # a byte too many
        "0a000101",  # the first offset is not done
        "0a000180",  # begins well; see below for its end
        "0340010a",  # listed: done, but not up to the end
        "ffffffffffffffff7f000102",  # beyond all offsets
    ],
)
def test_what_no_writer_writes_is_refused(payload: str) -> None:
    if payload == "0a000180":
        assert read_rice(bytes.fromhex(payload), 0) == [0, 7, 8, 10]
        return
    with pytest.raises(Invalid):
        read_rice(bytes.fromhex(payload), 5)
