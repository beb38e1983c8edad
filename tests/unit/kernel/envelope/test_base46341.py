"""Packing: both ways of doing it do the same, for bytes and for what is no packing of any."""

import unicodedata
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from braid.kernel.envelope import base46341
from braid.kernel.envelope.base46341 import bytes_that_fit, pack, pack_bits, pack_number, units_needed, unpack
from braid.kernel.errors import Invalid

BLOCKS = ((0x3400, 0xA48C), (0xAC00, 0xD7A3), (0xE000, 0xF8D3))
ALPHABET = [chr(point) for first, last in BLOCKS for point in range(first, last + 1)]
EDGES = [*"㐀㐁\u33ff\ua48d\uabff\uf8d4", *(ALPHABET[value] for value in (32_767, 32_768, 46_339, 46_340))]
CHARACTERS = st.sampled_from([*pack(bytes(range(60))), *EDGES, "a", "\ud800", "\U0001f600", "\uffff"])
BYTES = st.integers(0, 300).flatmap(lambda size: st.binary(min_size=size, max_size=size))


@given(BYTES)
def test_packed_data_reads_back_and_takes_no_more_than_it_needs(data: bytes) -> None:
    text = pack(data)
    assert unpack(text) == data
    assert len(text.encode("utf-16-le")) // 2 == len(text) == units_needed(len(data))
    assert bytes_that_fit(len(text)) >= len(data) > bytes_that_fit(len(text) - 1)


@pytest.mark.parametrize("byte", [b"\x00", b"\x80", b"\xff"])
def test_every_size_reads_back_by_both_ways(byte: bytes) -> None:
    for size in range(301):
        text = pack_bits(byte * size)
        assert text == pack_number(byte * size)
        assert base46341.unpack_bits(text) == base46341.unpack_number(text) == byte * size


def test_units_and_bytes_are_exact_for_every_limit() -> None:
    assert [bytes_that_fit(units) for units in (-3, 0, 1, 2, 3)] == [-6, -1, 1, 3, 5]
    for units in range(1, 9_000):
        assert units_needed(bytes_that_fit(units)) <= units < units_needed(bytes_that_fit(units) + 1)


@given(st.binary(max_size=100))
def test_a_number_packs_as_bits_do(data: bytes) -> None:
    assert pack_number(data) == pack_bits(data)


@given(st.text(CHARACTERS, max_size=12))
def test_a_number_unpacks_as_bits_do_and_reads_back_as_written(text: str) -> None:
    read = _outcome(base46341.unpack_number, text)
    assert read == _outcome(base46341.unpack_bits, text)
    if isinstance(read, bytes):
        assert pack(read) == text, "one text for the same bytes"


@given(st.text(max_size=80) | st.text(CHARACTERS, min_size=30, max_size=80))
def test_hostile_text_is_read_or_refused(text: str) -> None:
    read = _outcome(unpack, text)
    assert isinstance(read, str) or pack(read) == text


def _outcome(unpack: Callable[[str], bytes], text: str) -> bytes | str:
    try:
        return unpack(text)
    except Invalid as error:
        return error.message


def _alone(value: int) -> str:
    return ALPHABET[value]


def _pair(number: int) -> str:
    return ALPHABET[number // len(ALPHABET)] + ALPHABET[number % len(ALPHABET)]


@pytest.mark.parametrize("before", ["", pack_bits(bytes(range(93)))[:-1]])  # short, and long: 24 pairs
@pytest.mark.parametrize(
    "text",
    [
        "",  # nothing
        _alone(0),  # no end mark
        _pair(0),
        "\u33ff" + _alone(1),  # outside the alphabet
        _alone(1) + "\ud800",
        "😀",
        "a",
        _pair(1 << 31 | 1 << 6),  # a pair beyond 31 bits
        _alone(1 << 15 | 1 << 6),  # a single one beyond 15
        _pair(1 << 22),  # the mark in what a single one would hold
        _alone(1 << 7),  # not whole bytes
    ],
)
def test_what_is_never_written_is_refused_in_both_ways(before: str, text: str) -> None:
    for way in (base46341.unpack_number, base46341.unpack_bits):
        with pytest.raises(Invalid):
            way(before + text)


def test_a_control_what_is_written_so_is_read() -> None:
    assert [unpack(text) for text in (_alone(1 << 14), _alone(1 << 6), _pair(1 << 14), _pair(1 << 6))] == [
        b"",
        b"\x00",
        bytes(2),
        bytes(3),
    ]


def test_the_alphabet_travels_unchanged() -> None:
    assert "".join(ALPHABET) == base46341.CHARACTERS
    assert len(set(ALPHABET)) == 46_341 >= (1 << 31) ** 0.5 > 46_340
    for one in ALPHABET:
        assert len(one.encode()) == 3 and not one.isspace() and unicodedata.combining(one) == 0
        assert unicodedata.category(one) in ("Lo", "Lm", "So", "Co")
        assert unicodedata.normalize("NFC", f"각가{one}é{one}") == f"각가{one}é{one}"
    assert unicodedata.normalize("NFC", "".join(ALPHABET[::-1])) == "".join(ALPHABET[::-1])
