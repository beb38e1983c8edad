"""Packed columns are as they were, take what their range takes, and are refused where they do not fit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.lagmon.division.packing import DamagedColumns, Packed, pack, unpack

NUMBERS = st.lists(st.integers(-(1 << 42), 1 << 62) | st.integers(0, 3), max_size=30)


@given(NUMBERS)
def test_a_column_comes_back(numbers: list[int]) -> None:
    column = np.array(numbers, np.int64)
    assert unpack(pack(column), len(numbers)).tolist() == numbers


@pytest.mark.parametrize(("most", "width"), [(0, 0), (255, 1), (256, 2), (65_536, 4), (1 << 40, 8)])
def test_a_column_is_as_narrow_as_its_range(most: int, width: int) -> None:
    packed = pack(np.array([7_000_000_000, 7_000_000_000 + most]))
    assert (packed.width, len(packed.data)) == (width, 2 * width)


@pytest.mark.parametrize(
    "packed",
    [Packed(0, 3, bytes(6)), Packed(0, 2, bytes(5)), Packed(0, 0, b"x"), Packed((1 << 63) - 1, 1, b"\0\1"),
     Packed(-5, 8, b"\xff" * 16)],
)  # fmt: skip
def test_a_column_that_cannot_be_is_refused(packed: Packed) -> None:
    with pytest.raises(DamagedColumns):
        unpack(packed, 2)
