"""The domain of lagmon: which commits of a cluster it accepts."""

import pytest

from braid.kernel.ids import ASIDE_GROUP
from braid.kernel.ports import TopicPartition
from services.lagmon.codec import lag_message
from services.lagmon.columns.lags import LagRows
from services.lagmon.domain import ClusterModel, lag_of
from services.lagmon.model.lag import Detail, summed
from services.lagmon.model.mesh_view import Channel, GroupSubscription, MeshView, Presence
from services.lagmon.policy import Now
from tests.unit.lagmon.columns.rows import Key, Said, commits

READ = (5, "")  # offset and metadata of a commit


def groups_of(known: ClusterModel) -> list[str]:
    """The groups that have rows, once a row."""
    return [row.key.group for row in LagRows([lag_of(known, MeshView(), Now(2.0, 2_000))])]


def test_progress_that_is_set_aside_is_nobodys_lag() -> None:
    known, aside = ClusterModel("east"), f"{ASIDE_GROUP}indexer"
    known.take(0, commits({("indexer", "logs", 0): READ, (aside, "logs", 0): READ}), heard_at=1.0)
    assert groups_of(known) == ["indexer"]
    known.take(0, commits({(aside, "logs", 0): None}), heard_at=2.0)
    assert groups_of(known) == ["indexer"]


def test_a_memberless_registered_group_is_unattended_in_each_row() -> None:
    known = ClusterModel("east")
    found: dict[Key, Said] = {(group, "t", part): READ for group in ("gone", "here", "legacy") for part in (0, 1)}
    known.take(0, commits(found), 1.0)
    channel = Channel("logs", "live", "east", "t", 2, Presence.OPEN, "logs/live/1")
    streams = frozenset({"logs"})
    groups = {"gone": GroupSubscription(streams, attended=False), "here": GroupSubscription(streams)}
    view = MeshView(channels={channel.name: channel}, groups=groups)
    for detail in Detail:
        rows = summed(LagRows([lag_of(known, view, Now(2.0, 2_000))]), detail)
        assert {row.key.group: lag_message(row).unattended for row in rows} == {
            **{"gone": True, "here": False},
            "legacy": False,  # another's: lagmon cannot know its members
        }


def test_a_group_that_takes_anothers_number_is_not_shown_as_it() -> None:
    known, view, now = ClusterModel("east"), MeshView(), Now(2.0, 2_000)
    known.take(0, commits({("before", "t", 0): READ}), 1.0)
    facts = known.facts(view)
    known.take(0, commits({("before", "t", 0): None}), 1.0)
    known.take(0, commits({("later", "u", 0): READ, ("last", "u", 0): READ}), 1.0)
    assert len(known.lags(known.progress.rows(), facts, now).pair) == 0
    assert sorted(groups_of(known)) == ["last", "later"]


def test_rows_beyond_the_bound_are_counted_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.lagmon.domain.LAG_PROGRESS_MAX", 3)
    known = ClusterModel("east")
    found: dict[Key, Said] = {("g", "t", partition): READ for partition in range(5)}
    known.take(0, commits(found), 1.0)
    assert (len(known.progress), known.left_out) == (3, 2)
    known.take(0, commits({("g", "t", 0): (9, "")}), 2.0)
    assert (len(known.progress), known.left_out) == (3, 2)
    known.take(0, commits({("g", "t", 0): None}), 3.0)
    known.take(0, commits({("h", "t", 0): READ}), 4.0)
    assert sorted(groups_of(known)) == ["g", "g", "h"]


def test_forgetting_a_partition_drops_what_came_from_it() -> None:
    known = ClusterModel("east")
    known.take(0, commits({("a", "t", 0): READ}), 1.0)
    known.take(1, commits({("b", "t", 0): READ}), 1.0)
    known.forget(0)
    assert groups_of(known) == ["b"]
    assert known.wanted() == (TopicPartition("t", 0),)
