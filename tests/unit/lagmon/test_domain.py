"""The domain of lagmon: which commits of a cluster it accepts."""

from typing import NamedTuple

from braid.kernel.ids import ASIDE_GROUP
from services.lagmon.codec import lag_message
from services.lagmon.domain import ClusterModel
from services.lagmon.model.lag import Detail, summed
from services.lagmon.model.mesh_view import Channel, GroupSubscription, MeshView, Presence
from services.lagmon.policy import Now


class Read(NamedTuple):
    """A commit as the offset log states it."""

    offset: int = 5
    metadata: str = ""
    commit_time_ms: int = 1_000


def test_progress_that_is_set_aside_is_nobodys_lag() -> None:
    known, aside = ClusterModel("east"), f"{ASIDE_GROUP}indexer"
    known.take(0, {("indexer", "logs", 0): Read(), (aside, "logs", 0): Read()}, heard_at=1.0)
    assert {key.group for key in known.progress} == {"indexer"}
    known.take(0, {(aside, "logs", 0): None}, heard_at=2.0)
    assert {key.group for key in known.progress} == {"indexer"}


def test_a_memberless_registered_group_is_unattended_in_each_row() -> None:
    known = ClusterModel("east")
    known.take(0, {(group, "t", part): Read() for group in ("gone", "here", "legacy") for part in (0, 1)}, 1.0)
    channel = Channel("logs", "live", "east", "t", 2, Presence.OPEN, "logs/live/1")
    streams = frozenset({"logs"})
    groups = {"gone": GroupSubscription(streams, attended=False), "here": GroupSubscription(streams)}
    view = MeshView(channels={channel.name: channel}, groups=groups)
    for detail in Detail:
        rows = summed(known.rows(known.progress, view, Now(2.0, 2_000)), detail)
        assert {row.key.group: lag_message(row).unattended for row in rows} == {
            **{"gone": True, "here": False},
            "legacy": False,  # another's: lagmon cannot know its members
        }
