"""Rows of a slice are taken in order, each once, whatever is put back; and only those that are wanted are made."""

import gc
from typing import TYPE_CHECKING, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from braid.client.records.delivery import Delivery
from braid.client.records.record import Row
from braid.client.records.slices import Slice, slice_of_rows
from braid.kafka.batches.batch import columns_in, read_frame
from tests.unit.kafka.batches.columns_beside_records import Given
from tests.unit.kafka.batches.columns_beside_records import made as made_batch
from tests.unit.kafka.batches.test_columns import columns_of_small_batches

if TYPE_CHECKING:
    from braid.client.delivery.cursor import Cursor

assert columns_of_small_batches is not None, "a fixture for all tests here, too"

NOBODY = cast("Cursor", None)
OFFSET = 1_000


def made(count: int) -> Slice[Delivery]:
    """Fetched records."""
    rows: list[Given] = [(1, at, None, b"%d" % at, []) for at in range(count)]
    frame = read_frame(memoryview(made_batch(rows, OFFSET, 0)), 0)
    assert frame is not None
    columns = columns_in([(frame, frame.raw)], ())
    assert columns is not None
    return Slice(NOBODY, columns, np.arange(count), np.full(count, 7))


def rows_alive() -> int:
    return sum(type(each) is Row for each in gc.get_objects())


@pytest.mark.parametrize("as_rows", [True, False])
@given(st.lists(st.tuples(st.sampled_from(["take", "back", "rest"]), st.integers(1, 20)), max_size=30))
def test_each_is_taken_once_and_in_order(as_rows: bool, steps: list[tuple[str, int]]) -> None:
    waiting, taken, last = made(100), list[int](), list[Row]()
    if as_rows:
        waiting = slice_of_rows(NOBODY, waiting.rows, admitted=False)
    for step, count in steps:
        if step == "take":
            last = list(waiting.take(min(count, len(waiting))))
            taken += [row.offset for row in last]
        elif step == "back":
            back = last[-count:]
            waiting.put_back(back)
            taken, last = taken[: len(taken) - len(back)], last[: len(last) - len(back)]
        else:
            rest = waiting.rest(count)
            assert len(rest) == min(count, 100 - len(taken))
            taken, last = taken + [row.offset for row in rest.rows], []
        assert taken == [*range(OFFSET, OFFSET + len(taken))]
        assert len(waiting) == 100 - len(taken) == len(waiting.sizes)


def test_rows_are_made_when_they_are_wanted() -> None:
    before, waiting = rows_alive(), made(5_000)
    taken = waiting.take(100)
    assert len(taken) == rows_alive() - before == 100
    del taken
    waiting.take(100)
    assert rows_alive() == before, "those that were handled are gone"


def test_all_rows_at_once_would_be_seen() -> None:
    """The control for the test before."""
    before, waiting = rows_alive(), made(5_000)
    assert waiting.rows
    taken = waiting.take(100)
    assert len(taken) == 100
    assert rows_alive() - before == 5_000
