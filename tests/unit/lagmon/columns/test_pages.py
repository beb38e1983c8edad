"""Pages of columns are the pages of all rows, sorted and cut."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from braid.kernel.ports import TopicPartition
from services.lagmon.columns.lags import LagColumns, LagRows
from services.lagmon.columns.pages import page_of
from services.lagmon.domain import lag_of
from services.lagmon.model.lag import Detail, Filter, LagRow, RowKey, after, summed
from services.lagmon.model.mesh_view import Channel, GroupSubscription, MeshView, Presence
from services.lagmon.policy import Now
from tests.unit.lagmon.columns.rows import Key, Said, model_of

NOW = Now(9.0, 9_000)
CLUSTERS = ("east", "west")
names = st.sampled_from(["a", "b", "b0"])
keys = st.tuples(names, st.sampled_from(["t", "u", "x"]), st.integers(0, 3))
values: st.SearchStrategy[Said] = st.tuples(st.integers(0, 9), st.sampled_from(["", "b1:damaged"]))
tables = st.lists(st.dictionaries(keys, values, min_size=1, max_size=12), min_size=2, max_size=2)
filters = st.builds(
    Filter, st.just("") | names, st.sampled_from(["", "logs"]), st.sampled_from(["", "live"]),
    st.sampled_from(["", "west"]), st.booleans(),
)  # fmt: skip


def view() -> MeshView:
    """Topics t and u are channels; group a is registered, and b is another's."""
    channels = {}
    for cluster in CLUSTERS:
        for topic, lane in (("t", "live"), ("u", "bulk")):
            name = f"logs/{lane}/{cluster}"
            channels[name] = Channel("logs", lane, cluster, topic, 2, Presence.OPEN, name)
    return MeshView(channels=channels, groups={"a": GroupSubscription(frozenset({"logs"}))})


def columns_of(said: list[dict[Key, Said]]) -> list[LagColumns]:
    looked = {TopicPartition(topic, number): 7 for topic in "tux" for number in range(4)}
    models = [model_of(found, [(1.0, looked)], name=name) for name, found in zip(CLUSTERS, said, strict=True)]
    return [lag_of(model, view(), NOW) for model in models]


@given(tables, filters, st.sampled_from(list(Detail)), st.integers(1, 5))
def test_pages_hold_what_sorting_all_rows_gives(
    said: list[dict[Key, Said]], wanted: Filter, detail: Detail, size: int
) -> None:
    parts = columns_of(said)
    every = summed((row for row in LagRows(parts) if wanted.matches(row)), detail)
    assert walk(lambda last: page_of(parts, wanted, detail, last, size)) == walk(
        lambda last: page_and_next(every, last, size)
    )


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
