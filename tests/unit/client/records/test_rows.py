"""Rows of columns of which nothing is wanted: a batch that was done before it was fetched again."""

import numpy as np
import pytest

from braid.client.records.record import rows_of
from braid.kernel.record_columns import Cells, RecordColumns

NONE = slice(0, 0)


@pytest.mark.parametrize("objects", [True, False])
def test_no_rows_of_no_records(objects: bool) -> None:
    number, cells = np.zeros(1, np.int64), Cells(np.zeros(1, np.int64), np.full(1, -1, np.int64))
    raws = [object()] if objects else []
    columns = RecordColumns(
        memoryview(b"\0"), number, number, number.astype(np.int8), number, cells, cells, [], None if objects else cells,
        raws,  # type: ignore[arg-type]  # nobody looks into it
    )  # fmt: skip
    assert list(rows_of(columns.of(NONE), number[NONE], number[NONE])) == []
