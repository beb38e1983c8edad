"""A new reader of a cluster goes on from the ages of the one before."""

import pytest

from braid.kernel.ports import TopicPartition
from services.lagmon.columns.ends import EndColumns
from services.lagmon.domain import ClusterModel, lag_of
from services.lagmon.model.lag import LagRow, Source
from services.lagmon.model.mesh_view import MeshView
from services.lagmon.policy import Now
from tests.unit.lagmon.columns.rows import Key, Said, model_of

LOG = TopicPartition("t", 0)
GROUPS: dict[Key, Said] = {("behind", "t", 0): (40, ""), ("far", "t", 0): (0, ""), ("there", "t", 0): (100, "")}
OURS = 1_000.0  # the new reader's clock, as the old one's shows 100


def at(elapsed: float) -> Now:
    return Now(elapsed, 5_000_000)


def rows(model: ClusterModel, now: Now) -> dict[str, LagRow]:
    return {row.key.group: row for row in lag_of(model, MeshView(), now).rows(slice(None))}


def test_ages_go_on_where_the_reader_before_had_them() -> None:
    old = model_of(GROUPS, [(float(second), {LOG: 10 + second}) for second in range(91)])
    before = rows(old, at(90.0))
    assert before["behind"].source == Source.ESTIMATE and before["far"].source == Source.UNKNOWN
    new = model_of(GROUPS, [(OURS, {LOG: 100})])
    assert rows(new, at(OURS))["behind"].lag_seconds == 0.0
    new.recall(lag_of(old, MeshView(), at(90.0)), at(OURS))
    for _ in range(2):  # a second time changes nothing
        after = rows(new, at(OURS + 5.0))
        for group in ("behind", "far"):
            assert after[group].lag_seconds == pytest.approx(before[group].lag_seconds + 5.0, abs=0.01), group
            assert after[group].source == before[group].source, group
        assert after["there"].lag_records == 0
        new.recall(lag_of(old, MeshView(), at(90.0)), at(OURS))


def test_a_group_that_goes_on_is_estimated_between() -> None:
    old = model_of(GROUPS, [(float(second), {LOG: 10 + second}) for second in range(91)])
    new = model_of({**GROUPS, ("behind", "t", 0): (70, "")}, [(OURS, {LOG: 100})])
    new.recall(lag_of(old, MeshView(), at(90.0)), at(OURS))
    row = rows(new, at(OURS))["behind"]
    assert row.source == Source.ESTIMATE and row.lag_seconds == pytest.approx(30.0, abs=2.0)


def test_what_one_saw_itself_stands() -> None:
    ends = EndColumns()
    (number,) = ends.numbers("t", [0])
    ends.recall(number, [(1, 1.0)])
    assert ends.log_ends(number).end == -1
    ends.observe({LOG: 10}, 5.0)
    ends.recall(number, [(3, 2.0), (10, 3.0), (4, 7.0)])
    assert ends.log_ends(number).written(3).after == 2.0
    assert ends.log_ends(number).written(9).by == 5.0
    assert ends.unseen == 0


def test_a_full_log_takes_no_more() -> None:
    ends = EndColumns()
    (number,) = ends.numbers("t", [0])
    for look in range(200):
        ends.observe({LOG: 1_000 + look}, 500.0 + look)
    for earlier in range(200):
        ends.recall(number, [(900 - earlier, 400.0 - earlier)])
    ends.observe({LOG: 2_000}, 900.0)
    assert ends.log_ends(number).end == 2_000
