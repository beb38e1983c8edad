"""Conditions before a drill begins, and when its old channels count as drained."""

import pytest

from braid.api.registry.v1 import cluster_pb2, stream_pb2
from braid.drill.control import drained, misplaced, untrusted
from braid.drill.plan import DrillKind
from tests.unit.drill.plans import ACTIVE, CLUSTERS, channel, cluster, plan

STANDBY = stream_pb2.CHANNEL_STATE_STANDBY
DRAINING = stream_pb2.CHANNEL_STATE_DRAINING
DRAINED = stream_pb2.CHANNEL_STATE_DRAINED
SUSPECT = cluster_pb2.CLUSTER_HEALTH_SUSPECT
PLACED = [channel(lane, "east") for lane in ("live", "bulk")]
SPARES = [channel(lane, "west", STANDBY) for lane in ("live", "bulk")]


def test_a_drill_waits_for_clusters_that_are_doubted_or_closed() -> None:
    assert untrusted(plan(), CLUSTERS) == ""
    assert untrusted(plan(), [cluster("east", health=SUSPECT), cluster("west")]) == "cluster east is SUSPECT"
    assert untrusted(plan(), [cluster("east"), cluster("west", cordoned=True)]) == "cluster west is cordoned"
    assert untrusted(plan(), [cluster("west")]) == "cluster east is not there"
    assert untrusted(plan(DrillKind.MEMBER_LOSS), [cluster("east"), cluster("west", health=SUSPECT)]) == ""


def test_one_other_cluster_that_is_well_is_enough() -> None:
    three = plan()
    three.spec.clusters.append("north")
    assert untrusted(three, [*CLUSTERS[:1], cluster("west", health=SUSPECT), cluster("north")]) == ""


def test_a_drills_stream_must_share_the_cluster_and_have_a_spare() -> None:
    assert misplaced(plan(), [*PLACED, *SPARES]) == ""
    assert "not on east" in misplaced(plan(), [channel("live", "west"), channel("bulk", "east"), *SPARES])
    assert "no spare" in misplaced(plan(), [*PLACED, SPARES[0]])
    assert misplaced(plan(DrillKind.MOVE), PLACED) == ""
    assert "no cluster" in misplaced(plan(DrillKind.MOVE), [])


@pytest.mark.parametrize(
    ("states", "done"),
    [((DRAINED, DRAINED), True), ((DRAINED, DRAINING), False), ((ACTIVE, DRAINED), False), ((), False)],
)
def test_it_is_drained_when_all_that_left_is(states: tuple[int, ...], done: bool) -> None:
    left = [channel(lane, "east", state) for lane, state in zip(("live", "bulk"), states, strict=False)]
    elsewhere = [channel("live", "west"), channel("live", "east", STANDBY), channel("dlq", "east", DRAINING)]
    assert drained(plan(), [*left, *elsewhere]) is done
