"""Pages of columns are the pages of all rows, sorted and cut."""

from collections.abc import Callable
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.lagmon.columns.lags import LagColumns, LagRows
from services.lagmon.columns.pages import page_of
from services.lagmon.model.lag import Detail, Filter, LagRow, RowKey, after, summed
from tests.unit.lagmon.columns.rows import Key, Said
from tests.unit.lagmon.columns.tables import columns_of, tables

names = st.sampled_from(["a", "b", "b0"])
filters = st.builds(
    Filter, st.just("") | names, st.sampled_from(["", "logs"]), st.sampled_from(["", "live"]),
    st.sampled_from(["", "west"]), st.booleans(), st.frozensets(names | st.just("none")),
)  # fmt: skip


@given(tables, filters, st.sampled_from(list(Detail)), st.integers(1, 5))
def test_pages_hold_what_sorting_all_rows_gives(
    said: list[dict[Key, Said]], wanted: Filter, detail: Detail, size: int
) -> None:
    same_pages(columns_of(said), wanted, detail, size)


def same_pages(parts: list[LagColumns], wanted: Filter, detail: Detail, size: int) -> None:
    """Fails unless the pages of columns are those of all rows."""
    every = summed((row for row in LagRows(parts) if wanted.matches(row)), detail)
    assert walk(lambda last: page_of(parts, wanted, detail, last, size)) == walk(
        lambda last: page_and_next(every, last, size)
    )


@pytest.mark.parametrize("detail", list(Detail))
@pytest.mark.parametrize("exclude_foreign", [False, True])
@pytest.mark.parametrize("groups", [(), ("a",), ("b", "d", "none")])
def test_pages_of_many_groups_are_those_of_all_rows(
    groups: tuple[str, ...], exclude_foreign: bool, detail: Detail
) -> None:
    """Every third row is of a member of Braid; every second topic of a group is on one cluster alone."""
    said: list[dict[Key, Said]] = [{}, {}]
    for number, (group, topic, partition) in enumerate(product("abcde", "tux", range(3))):
        value = (number % 9, "" if number % 3 else "b1:damaged")
        for cluster in (0, 1) if number % 2 else (number % 4 // 2,):
            said[cluster][group, topic, partition] = value
    for size in (1, 2, 3, 7):
        wanted = Filter(exclude_foreign=exclude_foreign, groups=frozenset(groups))
        same_pages(columns_of(said), wanted, detail, size)


def page_and_next(rows: list[LagRow], last: RowKey | None, size: int) -> tuple[list[LagRow], RowKey | None]:
    page, behind = after(rows, last, size)
    return list(page), behind


def walk(page: Callable[[RowKey | None], tuple[list[LagRow], RowKey | None]]) -> list[list[LagRow]]:
    """All pages, one after another."""
    found: list[list[LagRow]] = []
    last: RowKey | None = None
    while True:
        rows, last = page(last)
        found.append(rows)
        assert len(found) < 100
        if last is None:
            return found


@pytest.mark.parametrize("kept", [0, 1_000])
@given(said=tables)
def test_rows_are_made_alike_one_by_one_and_in_slices(kept: int, said: list[dict[Key, Said]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("services.lagmon.columns.lags.LAG_ROWS_MADE_MAX", kept)
        rows_are_made_alike(said)


def rows_are_made_alike(said: list[dict[Key, Said]]) -> None:
    rows = LagRows(columns_of(said))
    assert [rows[at] for at in range(len(rows))] == rows[:] == list(rows)
    assert rows[1:3] == list(rows)[1:3]
    streams = LagRows([part.of_streams() for part in columns_of(said)])
    assert list(streams) == [row for row in rows if row.key.stream]
