"""Orphans on a cluster, and whether it is empty after a restore of the store."""

from dataclasses import replace

from services.registry.model.belonging import Belonging
from services.registry.model.clusters.commands import (
    CancelDecommission,
    Decommission,
    RecordEmptied,
    RepeatDecommission,
)
from services.registry.policy.decommission import plan_emptied
from services.registry.policy.world import World
from tests.unit.registry.histories import cluster, run_cluster


def test_a_topic_may_be_an_orphan_if_it_is_named_or_not_all_are() -> None:
    named = Belonging(orphan_topics=("braid.logs.live.1",), orphan_groups=("indexer",), orphans=2)
    assert named.may_be_orphan("braid.logs.live.1") and not named.may_be_orphan("braid.logs.live.2")
    more = Belonging(orphan_topics=("braid.logs.live.1",), orphans=1_000)
    assert more.may_be_orphan("braid.logs.live.2")
    assert not Belonging().may_be_orphan("braid.logs.live.1")


def test_a_cluster_counts_as_empty_only_once_compared() -> None:
    state, _ = run_cluster(cluster("east"), Decommission("it leaks", discard_drained=True))
    state, _ = run_cluster(state, RecordEmptied())
    again, events = run_cluster(state, RepeatDecommission())
    assert len(events) == 1 and not again.emptied
    assert (again.decommissioning, again.decommission_reason, again.discard_drained) == (True, "it leaks", True)
    assert run_cluster(again, RepeatDecommission())[1] == []
    back, _ = run_cluster(state, CancelDecommission())
    assert run_cluster(back, RepeatDecommission())[1] == []


def test_a_channel_not_compared_since_a_restore_is_not_empty() -> None:
    state, _ = run_cluster(cluster("east"), Decommission("it leaks"))
    compared = World(0, {"east": state}, {})
    assert [each.cluster for each in plan_emptied(compared)] == ["east"]
    uncompared = replace(state, belonging=Belonging(uncompared=True))
    assert not plan_emptied(World(0, {"east": uncompared}, {}))
