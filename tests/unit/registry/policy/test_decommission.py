"""Emptying a cluster, from the world alone: who leaves when and where to, what is left, when it is called empty."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from braid.kernel.errors import BraidError, NotFound, Refused
from braid.kernel.limits.registry.traffic import DECOMMISSION_STREAMS_AT_ONCE
from services.registry.model.channels import ChannelState
from services.registry.model.clusters.cluster import Cluster
from services.registry.model.clusters.commands import (
    CancelDecommission,
    ClusterCommand,
    Cordon,
    Decommission,
    DeleteCluster,
    RecordEmptied,
)
from services.registry.model.clusters.events import (
    ClusterEmptied,
    DecommissionCancelled,
    DecommissionIntended,
)
from services.registry.model.clusters.health import Health
from services.registry.model.clusters.specs import ClusterSpec
from services.registry.model.stream_commands import DeleteStream, MoveTraffic
from services.registry.model.streams import FailoverMode
from services.registry.model.topics import HOUR_MS
from services.registry.policy import decommission
from services.registry.policy.channel_work import Work
from services.registry.policy.decommission import Left, Stage, departures, left_on, plan_emptied, progress
from services.registry.policy.plan import plan
from services.registry.policy.world import World
from tests.unit.registry.histories import LOGS, cluster, created, down, run_cluster
from tests.unit.registry.house import WEST, House, house

LEAVING = cluster("east", decommissioning=True)


# --- the cluster's own history


def test_it_is_told_once_and_again_only_for_more() -> None:
    state, events = run_cluster(cluster("east"), Decommission("disks"))
    assert events == [DecommissionIntended("disks", False)] and not state.takes_traffic
    assert state.closed == "being decommissioned" and not state.cordoned
    assert run_cluster(state, Decommission("again"))[1] == []
    more, events = run_cluster(state, Decommission(discard_drained=True), now_ms=1)
    assert events == [DecommissionIntended("", True)]
    assert (more.decommission_reason, more.decommission_since_ms) == ("disks", state.decommission_since_ms)
    assert run_cluster(more, Decommission())[1] == [], "what was discarded is not taken back by asking for less"


@pytest.mark.parametrize("cordoned", [False, True])
def test_taken_back_it_is_what_it_was(cordoned: bool) -> None:
    before = cluster("east", cordoned=cordoned)
    state, _ = run_cluster(before, Decommission("disks", True))
    state, _ = run_cluster(state, RecordEmptied())
    state, events = run_cluster(state, CancelDecommission())
    assert events == [DecommissionCancelled()] and replace(state, changes=before.changes) == before
    assert run_cluster(state, CancelDecommission())[1] == []


def test_it_is_called_empty_once_and_only_when_asked_to_empty() -> None:
    state, _ = run_cluster(cluster("east"), Decommission())
    state, events = run_cluster(state, RecordEmptied())
    assert events == [ClusterEmptied()] and state.emptied
    assert run_cluster(state, RecordEmptied())[1] == []
    assert run_cluster(cluster("east"), RecordEmptied())[1] == []


@pytest.mark.parametrize(
    ("state", "command", "error", "remedy"),
    [
        (LEAVING, DeleteCluster(), Refused, "braid describe cluster east"),
        (LEAVING, Cordon(False), Refused, "--cancel"),
        (Cluster("east"), Decommission(), NotFound, "braid get clusters"),
    ],
)
def test_what_cannot_be_names_what_to_do(
    state: Cluster, command: ClusterCommand, error: type[BraidError], remedy: str
) -> None:
    with pytest.raises(error) as refused:
        run_cluster(state, command)
    assert refused.value.field and remedy in refused.value.remedy


def test_a_cluster_registered_again_by_name_is_not_leaving() -> None:
    state, _ = run_cluster(cluster("east"), Decommission())
    state, _ = run_cluster(state, RecordEmptied())
    state, _ = run_cluster(state, DeleteCluster())
    assert not state.decommissioning and not state.emptied


# --- leaving


def test_a_streams_lanes_leave_in_one_append_and_none_returns() -> None:
    found = house("logs", clusters=(WEST, cluster("north"))).set(LEAVING).settle()
    moves = [event for event in found.streams["logs"].events if type(event).__name__ == "TrafficMoved"]
    assert [len(each.draining) for each in moves[1:]] == [2]  # type: ignore[union-attr]
    assert "east" not in [*found.where(ChannelState.ACTIVE), *found.where(ChannelState.STANDBY)]
    assert found.where(ChannelState.DRAINED) == ["east"] and found.stage is Stage.KEEPING


def test_a_move_off_a_healthy_cluster_is_planned_and_says_why() -> None:
    leaving = replace(LEAVING, decommission_reason="disks")
    found = house("logs").set(leaving).settle()
    moved = next(e for e in reversed(found.streams["logs"].events) if type(e).__name__ == "TrafficMoved")
    why = "cluster east is being decommissioned: disks; to west: standby"
    assert moved.planned and moved.reason == why  # type: ignore[union-attr]


def test_streams_leave_in_waves_no_larger_than_the_limit() -> None:
    names = [f"s{number:03}" for number in range(3 * DECOMMISSION_STREAMS_AT_ONCE)]
    found = house(*names)
    found.set(LEAVING)
    found.held = {Work.AWAIT_PRODUCERS}
    for _ in range(5):
        found.look()
    assert len(found.moves[0]) == DECOMMISSION_STREAMS_AT_ONCE and not any(found.moves[1:])
    found.held.clear()
    found.settle()
    assert max(len(each) for each in found.moves) == DECOMMISSION_STREAMS_AT_ONCE
    assert found.where(ChannelState.ACTIVE) == ["west"] * len(names)


def test_streams_spread_over_targets_by_what_these_carry_already() -> None:
    names = [f"s{number}" for number in range(8)]
    found = house(*names)  # all spares are on west
    found.set(LEAVING, cluster("north")).settle()
    active = found.where(ChannelState.ACTIVE)
    assert sorted(set(active)) == ["north", "west"] and abs(active.count("west") - active.count("north")) <= 2


def test_a_stream_goes_where_its_declaration_says_first() -> None:
    spec = replace(LOGS, clusters=("east", "north", "west"))
    found = house("logs", spec=spec, clusters=(WEST, cluster("north"))).set(LEAVING).settle()
    assert found.where(ChannelState.ACTIVE) == ["north"]


def test_nothing_of_a_stream_moves_while_one_lane_has_no_target() -> None:
    full = cluster("west", spec=ClusterSpec("west:9092", capacity=3))
    found = house("logs", clusters=(full,)).set(LEAVING).settle()
    assert set(found.where(ChannelState.ACTIVE)) == {"east"} and not any(found.moves)
    assert found.stage is Stage.BLOCKED
    blocked = progress(found.world, LEAVING).blocked
    why = "no cluster can take the traffic: west has no headroom for 4 partitions"
    assert [(each.stream, each.blocked) for each in blocked] == [("logs", why)]
    found.set(WEST).settle()
    assert found.where(ChannelState.ACTIVE) == ["west"]


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (cluster("west", health=Health.SUSPECT), "west is SUSPECT"),
        (cluster("west", cordoned=True), "west is cordoned"),
        (cluster("west", decommissioning=True), "west is being decommissioned"),
        (cluster("west", exists=False), "there is no other cluster"),
    ],
)
def test_without_a_target_the_reason_is_named(other: Cluster, why: str) -> None:
    found = house("logs").set(LEAVING, other).settle()
    assert not any(found.moves) and found.stage is Stage.BLOCKED
    assert progress(found.world, LEAVING).blocked[0].blocked == f"no cluster can take the traffic: {why}"


def test_a_blocked_stream_keeps_no_other_from_leaving() -> None:
    found = house("b-free")
    found.add("a-tied", replace(LOGS, clusters=("east",)))
    found.settle().set(LEAVING).settle()
    assert found.where(ChannelState.ACTIVE) == ["west", "east"]


def test_a_lane_also_elsewhere_goes_on_there_with_the_left_share() -> None:
    found = house("logs")
    history = found.streams["logs"]
    standby = next(each.ref for each in history.state.channels if each.ref.lane == "live" and each.cluster == "west")
    history.run(MoveTraffic(((standby, 0.25),), (), True, "spread"))  # type: ignore[arg-type]
    found.set(LEAVING, cluster("north")).settle()
    assert found.where(ChannelState.ACTIVE) == ["west"]
    assert history.state.channel(standby).weight == 1.25


def test_taken_back_midway_everything_stays_where_it_is_by_then() -> None:
    names = [f"s{number:03}" for number in range(2 * DECOMMISSION_STREAMS_AT_ONCE)]
    found = house(*names).set(LEAVING)
    found.held = {Work.AWAIT_PRODUCERS}
    found.look()
    found.held.clear()
    found.set(cluster("east")).settle()
    active = found.where(ChannelState.ACTIVE)
    assert active.count("west") == active.count("east") == DECOMMISSION_STREAMS_AT_ONCE
    assert not found.where(ChannelState.DRAINING)


# --- a cluster that dies meanwhile


def test_when_it_dies_traffic_fails_over_and_the_rest_is_named() -> None:
    found = house("logs").set(LEAVING)
    found.held = {Work.SEAL}
    found.settle()
    found.add("late")
    found.set(replace(down("east"), decommissioning=True))
    found.held.clear()
    found.settle()
    late = [event for event in found.streams["late"].events if type(event).__name__ == "TrafficMoved"]
    assert not late[-1].planned and found.where(ChannelState.ACTIVE) == ["west", "west"]  # type: ignore[union-attr]
    left = progress(found.world, found.clusters["east"])
    assert left.stage is Stage.STRANDED and not left.blocked
    assert left.stranded == ("logs/dlq/1", "logs/live/1", "late/dlq/1", "late/live/1")
    assert not plan_emptied(found.world)
    found.set(LEAVING).settle()
    assert found.stage is Stage.KEEPING


def test_a_dead_cluster_holds_a_manual_stream_and_says_so() -> None:
    dead = replace(down("east"), decommissioning=True)
    asked = house("logs", spec=replace(LOGS, failover=FailoverMode.PROPOSE)).set(dead).settle()
    assert "a person is asked to move" in progress(asked.world, dead).blocked[0].blocked
    off = house("logs", spec=replace(LOGS, failover=FailoverMode.OFF)).set(dead).settle()
    assert progress(off.world, dead).blocked[0].blocked == "failover is off"
    off.set(LEAVING).settle()
    assert off.where(ChannelState.ACTIVE) == ["west"], "a person's word counts for a move that loses nothing"


def test_when_a_target_dies_the_stream_awaits_a_failover_first() -> None:
    found = house("logs")
    history = found.streams["logs"]
    standby = next(each.ref for each in history.state.channels if each.ref.lane == "live" and each.cluster == "west")
    history.run(MoveTraffic(((standby, 1.0),), (), True, "spread"))  # type: ignore[arg-type]
    found.set(LEAVING, down("west"))
    found.look()
    assert [type(each.command) for each in plan(found.world) if isinstance(each.command, MoveTraffic)] == []
    found.settle()
    assert set(found.where(ChannelState.ACTIVE)) == {"east"} and found.stage is Stage.BLOCKED


# --- empty


def test_drained_topics_stay_for_retention_unless_discarded() -> None:
    found = house("logs").set(LEAVING).settle()
    kept = progress(found.world, LEAVING)
    assert (kept.stage, kept.streams, kept.drained) == (Stage.KEEPING, 1, 2)
    hours = found.streams["logs"].state.spec.retention_hours
    assert found.world.now_ms < kept.kept_until_ms <= found.world.now_ms + hours * HOUR_MS
    assert not plan_emptied(found.world)
    found.set(replace(LEAVING, discard_drained=True)).settle()
    assert [each.command for each in plan_emptied(found.world)] == [RecordEmptied()]


def test_retention_that_has_passed_empties_it_too() -> None:
    found = house("logs").set(LEAVING).settle()
    found.streams["logs"].now_ms += found.streams["logs"].state.spec.retention_hours * HOUR_MS
    found.settle()
    assert [each.cluster for each in plan_emptied(found.world)] == ["east"]


_STUCK = [Work.LIFT_RETENTION, Work.AWAIT_PRODUCERS, Work.SEAL, Work.READ_END_OFFSETS, Work.AWAIT_GROUPS, Work.RETIRE]


def never_called_empty_too_early(held: Work) -> None:
    """While a step is not done, a channel is there, and the cluster is not empty."""
    found = house("logs").set(replace(LEAVING, discard_drained=True))
    found.held = {held}
    found.settle()
    assert left_on(found.world, "east") and not plan_emptied(found.world)
    assert found.stage in (Stage.DRAINING, Stage.CLEARING)
    found.held.clear()
    found.settle()
    assert plan_emptied(found.world)


@pytest.mark.parametrize("held", _STUCK)
def test_it_is_not_empty_before_every_channels_last_step(held: Work) -> None:
    never_called_empty_too_early(held)


def _without(*states: ChannelState) -> Callable[[World, str], list[Left]]:
    """A look at what is left that overlooks some of it."""
    real = decommission.left_on
    return lambda world, cluster: [each for each in real(world, cluster) if each.channel.state not in states]


@pytest.mark.parametrize(
    ("overlooked", "held"),
    [(ChannelState.DRAINING, Work.AWAIT_GROUPS), (ChannelState.DRAINED, Work.RETIRE)],
    ids=["draining", "drained"],
)
def test_a_decommission_that_overlooks_a_channel_is_noticed(
    overlooked: ChannelState, held: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decommission, "left_on", _without(overlooked))
    with pytest.raises(AssertionError):
        never_called_empty_too_early(held)


def test_topics_of_a_deleted_stream_and_spares_count_too() -> None:
    found = house("logs").set(LEAVING)
    found.held = {Work.RETIRE}
    found.streams["logs"].run(DeleteStream())
    found.settle()
    assert progress(found.world, LEAVING).streams == 1 and found.stage is Stage.CLEARING
    assert not plan_emptied(found.world)
    spare = house("logs", spec=replace(LOGS, clusters=("west", "east")))
    spare.streams["logs"] = created(replace(LOGS, clusters=("west", "east")))
    spare.settle().set(LEAVING)
    spare.held = {Work.RETIRE}
    spare.settle()
    assert spare.stage is Stage.CLEARING and not plan_emptied(spare.world)


def test_an_empty_cluster_is_called_so_only_when_it_is_leaving() -> None:
    found = House({}).set(LEAVING, WEST)
    assert [each.cluster for each in plan_emptied(found.world)] == ["east"]
    assert found.set(replace(LEAVING, emptied=True)).stage is Stage.EMPTY
    assert not plan_emptied(found.world)


def test_what_would_leave_is_told_one_stream_after_another() -> None:
    narrow = cluster("west", spec=ClusterSpec("west:9092", capacity=7))
    found = house("one", "two", clusters=(narrow,))
    told = departures(found.world, found.clusters["east"])
    assert [(each.stream, [move.cluster for move in each.moves], bool(each.blocked)) for each in told] == [
        ("one", ["west", "west"], False),
        ("two", [], True),
    ]
