"""Decimals are what `int` makes of the same digits; nothing else passes for a digit."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from braid.kernel.decimals import decimals


@given(
    size=st.integers(1, 16),
    numbers=st.lists(st.integers(0, 10**16 - 1), min_size=1, max_size=20),
    before=st.integers(0, 9),
    behind=st.binary(max_size=3),
)
def test_digits_are_numbers(size: int, numbers: list[int], before: int, behind: bytes) -> None:
    texts = [b"%0*d" % (size, number % 10**size) for number in numbers]
    gap = b"7" * before
    data = gap + gap.join(texts) + behind
    said, sound = decimals(memoryview(data), np.arange(len(texts)) * (size + before) + before, size)
    assert sound.all()
    assert said.tolist() == [int(text) for text in texts]


@given(size=st.integers(1, 16), place=st.integers(0, 15), byte=st.integers(0, 255))
def test_what_is_no_digit_is_told(size: int, place: int, byte: int) -> None:
    text = bytearray(b"9" * size)
    text[place % size] = byte
    _, sound = decimals(memoryview(b"0" * size + text + b"9" * size), np.array([0, size, 2 * size]), size)
    assert sound.tolist() == [True, bytes([byte]).isdigit(), True]


@given(size=st.integers(1, 16), text=st.binary(min_size=16, max_size=16))
def test_any_bytes_are_judged_as_int_judges_them(size: int, text: bytes) -> None:
    _, sound = decimals(memoryview(text), np.array([0]), size)
    assert bool(sound[0]) == text[:size].isdigit()
