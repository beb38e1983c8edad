"""A person's move: what it changes, and every reason to refuse it."""

from dataclasses import replace

import pytest

from braid.kernel.errors import BraidError, FailoverBlocked, Invalid, NotFound, Refused
from services.registry.model.channels import ChannelRef, ChannelState
from services.registry.model.clusters.cluster import Cluster
from services.registry.model.clusters.health import Health
from services.registry.policy.moves import MoveOrder, as_command, plan_move
from services.registry.policy.world import World
from tests.unit.registry.histories import LOGS, StreamHistory, cluster, created, down, provision


def world(history: StreamHistory, *clusters: Cluster) -> World:
    return World(history.now_ms, {each.name: each for each in clusters}, {"logs": history.state})


BOTH = (cluster("east"), cluster("west"))


@pytest.mark.parametrize(
    ("order", "clusters", "error", "field"),
    [
        (MoveOrder(), BOTH, Invalid, "to_cluster"),
        (MoveOrder(to_cluster="west", away_from_cluster="east"), BOTH, Invalid, "to_cluster"),
        (MoveOrder(lanes=("nightly",), to_cluster="west"), BOTH, Invalid, "lanes"),
        (MoveOrder(to_cluster="west", partitions=-1), BOTH, Invalid, "partitions"),
        (MoveOrder(to_cluster="west", partitions=20_000), BOTH, Invalid, "partitions"),
        (MoveOrder(to_cluster="north"), BOTH, NotFound, "to_cluster"),
        (MoveOrder(away_from_cluster="north"), BOTH, NotFound, "away_from_cluster"),
        (MoveOrder(to_cluster="north"), (*BOTH, cluster("north")), Refused, "to_cluster"),
        (MoveOrder(to_cluster="west"), (BOTH[0], down("west")), Refused, "to_cluster"),
        (MoveOrder(to_cluster="west"), (BOTH[0], cluster("west", cordoned=True)), Refused, "to_cluster"),
        (MoveOrder(away_from_cluster="east"), (BOTH[0], down("west")), FailoverBlocked, "lanes"),
    ],
)
def test_a_move_that_cannot_be_names_why(
    order: MoveOrder, clusters: tuple[Cluster, ...], error: type[BraidError], field: str
) -> None:
    history = created()
    with pytest.raises(error) as refused:
        plan_move(world(history, *clusters), history.state, order)
    assert refused.value.field == field


def test_a_move_beyond_the_bound_of_partitions_is_refused() -> None:
    history = created(replace(LOGS, lanes={"live": 4, "bulk": 10_000}))
    now = world(history, *BOTH)
    for lanes in (("live",), ()):
        with pytest.raises(Invalid) as refused:
            plan_move(now, history.state, MoveOrder(lanes, to_cluster="west", partitions=10_000))
        assert refused.value.field == "partitions" and refused.value.remedy
    assert plan_move(now, history.state, MoveOrder(("live",), to_cluster="west", partitions=9_999))
    large = replace(history.state, spec=replace(history.state.spec, lanes={"dlq": 1, "live": 10_000, "bulk": 10_000}))
    assert plan_move(now, large, MoveOrder(("live",), to_cluster="west", partitions=9_000))
    assert plan_move(now, large, MoveOrder(to_cluster="west"))


def test_a_move_takes_the_standby_that_waits() -> None:
    history = created()
    ref = provision(history, "live", "west", 4)
    now = world(history, *BOTH)
    moves = plan_move(now, history.state, MoveOrder(to_cluster="west"))
    assert [(move.lane, move.to, move.cluster) for move in moves] == [("dlq", None, "west"), ("live", ref, "west")]
    history.run(as_command(now, history.state, [move for move in moves if move.to], ""))
    assert history.channel("live", 1).state is ChannelState.DRAINING and history.channel("live", 1).planned


def test_a_move_to_where_all_is_already_is_no_move() -> None:
    history = created()
    assert plan_move(world(history, *BOTH), history.state, MoveOrder(to_cluster="east")) == []
    assert plan_move(world(history, *BOTH), history.state, MoveOrder(away_from_cluster="west")) == []


def test_growing_is_a_move_onto_the_same_cluster() -> None:
    history = created()
    order = MoveOrder(lanes=("live",), to_cluster="east", partitions=8)
    moves = plan_move(world(history, *BOTH), history.state, order)
    assert [(move.cluster, move.partitions, move.to) for move in moves] == [("east", 8, None)]
    assert moves[0].drain[0].ref == ChannelRef("live", 1)


def test_a_move_off_a_dead_cluster_is_not_planned() -> None:
    history = created()
    provision(history, "live", "west", 4)
    provision(history, "dlq", "west", 1)
    now = world(history, down("east"), cluster("west"))
    moves = plan_move(now, history.state, MoveOrder(away_from_cluster="east"))
    assert not as_command(now, history.state, moves, "").planned


def test_only_a_move_that_chose_its_target_says_why_it_is_there() -> None:
    history = created()
    for lane, partitions in history.state.spec.lanes.items():
        provision(history, lane, "west", partitions)
    state = replace(history.state, spec=replace(history.state.spec, clusters=()))
    now = world(history, *BOTH, cluster("north", cordoned=True))
    away, told = (
        plan_move(now, state, order) for order in (MoveOrder(away_from_cluster="east"), MoveOrder(to_cluster="west"))
    )
    assert as_command(now, state, away, "disks").reason == "disks; to west: standby; north is cordoned"
    assert as_command(now, state, told, "disks").reason == "disks"


def test_a_suspect_source_is_still_worth_waiting_for() -> None:
    history = created()
    provision(history, "live", "west", 4)
    now = world(history, cluster("east", health=Health.SUSPECT), cluster("west"))
    moves = plan_move(now, history.state, MoveOrder(lanes=("live",), to_cluster="west"))
    assert as_command(now, history.state, moves, "").planned


def test_several_active_channels_become_one() -> None:
    history = created()
    provision(history, "live", "west", 4)
    state = history.state.with_channel(replace(history.channel("live", 2), state=ChannelState.ACTIVE, weight=0.5))
    moves = plan_move(world(history, *BOTH), state, MoveOrder(lanes=("live",), to_cluster="west"))
    assert moves[0].to == ChannelRef("live", 2)
    command = as_command(world(history, *BOTH), state, moves, "")
    assert command.activate[0].weight == 1.5
