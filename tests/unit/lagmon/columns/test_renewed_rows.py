"""Rows of some groups computed anew are those that a whole new table has of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from braid.kernel.envelope import encode
from braid.kernel.limits.lagmon.division import LAG_SHARED_STALE_SECONDS
from braid.kernel.ports import TopicPartition
from braid.kernel.progress.fields import Cursor, EnvelopeFields
from braid.kernel.timing.slices import finished
from services.lagmon.columns.lags import LagColumns
from services.lagmon.columns.pairs import pairs_of
from services.lagmon.domain import lag_of
from services.lagmon.model.lag import LagRow, RowKey, aged
from services.lagmon.policy import Now
from tests.unit.lagmon.columns.rows import Key, Said, commits, model_of
from tests.unit.lagmon.columns.tables import NOW, columns_of, keys, names, tables, values, view

LATER = Now(11.0, 11_000)
changed = st.dictionaries(keys, values | st.none(), min_size=1, max_size=8)
wanted = st.frozensets(names | st.just("none"))


def looked(end: int) -> dict[TopicPartition, int]:
    return {TopicPartition(topic, number): end for topic in "tux" for number in range(4)}


def by_key(columns: LagColumns) -> dict[RowKey, LagRow]:
    return {row.key: row for row in columns.rows(slice(None))}


@given(st.dictionaries(keys, values, min_size=1, max_size=12), changed, wanted, st.integers(1, 3))
def test_rows_anew_are_those_of_a_new_table(
    before: dict[Key, Said], then: dict[Key, Said], groups: frozenset[str], most: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("services.lagmon.domain.LAG_COLUMN_ROWS", 2 * most)
        patch.setattr("services.lagmon.domain.LAG_COSTLY_ROWS", 1)
        model = model_of(dict(sorted(before.items())[1::2]))  # rows have not the order of their keys
        model.take(0, commits(before), 1.0)
        model.wanted()
        model.observe(looked(7), 1.0)
        shown = lag_of(model, view(), NOW)
        model.take(0, commits(then), 10.0)
        model.wanted()
        model.observe(looked(9), 10.5)
        found = by_key(finished(model.renewing(shown, groups, view(), LATER)))
    table = by_key(lag_of(model, view(), LATER))
    known = {key for key in by_key(shown) if key.group in groups}
    assert found == {key: row for key, row in table.items() if key in known}
    assert list(found) == sorted(found)


def test_rows_that_are_not_in_order_come_once_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.lagmon.domain.LAG_COLUMN_ROWS", 2)
    monkeypatch.setattr("services.lagmon.domain.LAG_COSTLY_ROWS", 1)
    envelope = encode(EnvelopeFields(1, oldest_ingested_at_ms=900)).metadata
    first, second = ({(group, "t", number): (1, envelope) for number in range(4)} for group in "ba")
    model = model_of(first)
    model.take(0, commits(second), 1.0)
    model.wanted()
    model.observe(looked(7), 8.5)
    shown = lag_of(model, view(), NOW)
    model.take(0, commits({**first, **second}), 10.0)  # envelopes that are not decoded yet
    found = finished(model.renewing(shown, {"a", "b"}, view(), LATER))
    assert found.rows(slice(None)) == lag_of(model, view(), LATER).rows(slice(None))


def test_a_table_of_other_groups_costs_no_turn() -> None:
    model = model_of({("a", "t", number): (1, "") for number in range(4)}, [(1.0, looked(7))])
    shown = lag_of(model, view(), NOW)
    assert list(model.renewing(shown, {"a"}, view(), LATER)) == [], "a few rows are one part"
    assert by_key(finished(model.renewing(shown, {"none"}, view(), LATER))) == {}


@given(tables, wanted, st.floats(0.0, 9.0))
def test_older_rows_are_those_of_the_table_grown_older(
    said: list[dict[Key, Said]], groups: frozenset[str], seconds: float
) -> None:
    for part in columns_of(said):
        grown_older(part, groups, seconds)


def grown_older(part: LagColumns, groups: frozenset[str], seconds: float) -> list[LagRow]:
    then = NOW.later(seconds)
    older = part.older(pairs_of(part.keys, groups), seconds, then.wall_ms).rows(slice(None))
    assert older == [aged(row, seconds, then.wall_ms) for row in part.rows(slice(None)) if row.key.group in groups]
    return older


def test_a_split_partition_grows_older_and_stale() -> None:
    live = Cursor(4, 5, oldest_ingested_at_ms=NOW.wall_ms - 7_000, backlog_permille=200)
    split = EnvelopeFields(0, until=4, cursors=(live,), oldest_ingested_at_ms=NOW.wall_ms - 60_000)
    model = model_of({("a", "t", 0): (0, encode(split).metadata), ("a", "t", 1): (9, "")}, [(8.5, looked(8))])
    (row, done) = grown_older(lag_of(model, view(), NOW), frozenset({"a"}), 2.0)
    assert row.lag_seconds == pytest.approx(62.0) and row.live_lag_seconds == pytest.approx(9.0) and not row.stale
    assert (done.lag_seconds, done.stale) == (0.0, False)
    late = grown_older(lag_of(model, view(), NOW), frozenset({"a"}), LAG_SHARED_STALE_SECONDS)
    assert [each.stale for each in late] == [True, True], "a table that is old looks old"


@given(tables, wanted)
def test_pairs_of_groups_are_those_that_a_look_at_all_finds(
    said: list[dict[Key, Said]], groups: frozenset[str]
) -> None:
    for part in columns_of(said):
        every = [place for place, key in enumerate(part.keys) if key.group in groups]
        assert pairs_of(part.keys, groups).tolist() == every
