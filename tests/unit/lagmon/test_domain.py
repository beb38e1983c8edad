"""The domain of lagmon: which commits of a cluster it accepts."""

from braid.kernel.ids import ASIDE_GROUP
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
