"""A lane on several clusters at once: spreads and trials, from the world alone and by a whole registry."""

from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest

from braid.api.registry.v1 import registry_service_pb2 as api
from braid.api.registry.v1 import stream_pb2
from braid.kernel.errors import BraidError, FailoverBlocked, Invalid, NotFound, Refused
from services.registry.model.channels import ChannelState
from services.registry.model.clusters.cluster import Cluster
from services.registry.model.clusters.specs import ClusterSpec
from services.registry.model.streams import StreamSpec
from services.registry.policy.moves import MoveOrder, as_command
from services.registry.policy.plan import plan
from services.registry.policy.shares import plan_shares, shares_traffic
from services.registry.policy.world import World
from tests.support.virtual_time import run_virtual
from tests.unit.registry.histories import LOGS, StreamHistory, cluster, created, down, provision
from tests.unit.registry.mesh import DRAINED, Mesh, open_producer, two_clusters

BOTH = (cluster("east"), cluster("west"))
LIVE = ("live",)
Weights = dict[str, float]


def trial(percent: float, to: str = "west") -> MoveOrder:
    return MoveOrder(LIVE, to, percent=percent)


def spread(**weights: float) -> MoveOrder:
    return MoveOrder(LIVE, spread=tuple(weights.items()))


def world(history: StreamHistory, *clusters: Cluster) -> World:
    return World(history.now_ms, {each.name: each for each in clusters or BOTH}, {"logs": history.state})


def ready(*standbys: str, spec: StreamSpec = LOGS) -> StreamHistory:
    """Stream `logs` on east, with standbys of its lane `live`."""
    history = created(spec)
    for name in standbys:
        provision(history, "live", name, 4)
    return history


def carry_out(history: StreamHistory, order: MoveOrder, *clusters: Cluster) -> Weights:
    """Plans and folds; the lane's weights by cluster afterwards."""
    now = world(history, *clusters)
    history.run(as_command(now, history.state, plan_shares(now, history.state, order), ""))
    return {each.cluster: each.weight for each in history.state.active("live")}


def test_a_trial_grows_is_taken_back_and_is_completed() -> None:
    history = ready("west")
    assert carry_out(history, trial(10)) == {"east": 90, "west": 10}
    assert carry_out(history, trial(25)) == {"east": 75, "west": 25}
    assert not [each for each in history.state.channels if each.state is ChannelState.DRAINING]
    assert carry_out(history, trial(0)) == {"east": 100}
    assert history.channel("live", 2).state is ChannelState.DRAINING
    provision(history, "live", "west", 4)
    assert carry_out(history, trial(10)) == {"east": 90, "west": 10}
    assert carry_out(history, trial(100)) == {"west": 100}
    assert history.channel("live", 1).state is ChannelState.DRAINING


def test_the_others_keep_their_proportions() -> None:
    clusters = (*BOTH, cluster("north"))
    history = ready("west", "north", spec=replace(LOGS, clusters=("east", "west", "north")))
    assert carry_out(history, spread(east=3, west=1), *clusters) == {"east": 3, "west": 1}
    assert carry_out(history, trial(20, "north"), *clusters) == {"east": 60, "west": 20, "north": 20}
    assert carry_out(history, spread(north=1, east=1), *clusters) == {"east": 1, "north": 1}


@pytest.mark.parametrize(
    ("order", "shares"), [(trial(25), {"east": 75, "west": 25}), (spread(east=3, west=1), {"east": 3, "west": 1})]
)
@pytest.mark.parametrize("partitions", [8, 2], ids=["grows", "shrinks"])
def test_a_lane_gets_a_new_partition_count_and_shares_at_once(
    order: MoveOrder, shares: Weights, partitions: int
) -> None:
    order = replace(order, partitions=partitions)
    history = ready("west")
    carry_out(history, trial(10))
    moves = plan_shares(world(history), history.state, order)
    assert [(move.cluster, move.to, move.partitions) for move in moves] == [
        ("east", None, partitions),
        ("west", None, partitions),
    ]
    assert [channel.cluster for move in moves for channel in move.drain] == ["east", "west"]
    for name in ("east", "west"):
        provision(history, "live", name, partitions)
    assert carry_out(history, order) == shares
    assert {each.partitions for each in history.state.active("live")} == {partitions}
    assert history.state.spec.lanes["live"] == partitions
    assert plan_shares(world(history), history.state, order) == []


@pytest.mark.parametrize("order", [trial(25), spread(east=3, west=1), spread(west=10, east=30)])
def test_what_is_so_already_is_no_move(order: MoveOrder) -> None:
    history = ready("west")
    carry_out(history, trial(25))
    assert plan_shares(world(history), history.state, order) == []


def test_nothing_to_take_back_is_no_move() -> None:
    history = ready("west")
    assert plan_shares(world(history), history.state, trial(0)) == []


def test_a_missing_channel_is_made_first_and_traffic_awaits_it() -> None:
    history = created()
    moves = plan_shares(world(history), history.state, trial(10))
    assert [(move.cluster, move.to is None, move.share) for move in moves] == [("east", False, 90), ("west", True, 10)]


def test_the_other_lanes_stay_as_they_are() -> None:
    history = ready("west")
    carry_out(history, trial(10))
    assert [(each.cluster, each.weight) for each in history.state.active("dlq")] == [("east", 1.0)]


def test_a_trial_is_taken_back_however_unwell_its_cluster_is() -> None:
    history = ready("west")
    carry_out(history, trial(10))
    assert carry_out(history, trial(0), cluster("east"), down("west")) == {"east": 100}
    assert not history.channel("live", 2).planned


def test_a_cluster_that_dies_leaves_its_share_to_the_others() -> None:
    history = ready("west")
    carry_out(history, trial(10))
    now = world(history, cluster("east"), down("west"))
    for each in plan(now):
        history.run(each.command)
    assert [each.cluster for each in history.state.active("live")] == ["east"]


@pytest.mark.parametrize(
    ("order", "clusters", "error", "field"),
    [
        (trial(-1), BOTH, Invalid, "percent"),
        (trial(101), BOTH, Invalid, "percent"),
        (trial(float("nan")), BOTH, Invalid, "percent"),
        (trial(10, "east"), BOTH, Refused, "percent"),
        (trial(0, "east"), BOTH, Refused, "percent"),
        (trial(10, "north"), BOTH, NotFound, "to_cluster"),
        (trial(10), (BOTH[0], down("west")), Refused, "to_cluster"),
        (trial(10), (BOTH[0], cluster("west", decommissioning=True)), Refused, "to_cluster"),
        (MoveOrder(percent=10.0), BOTH, Invalid, "to_cluster"),
        (MoveOrder(away_from_cluster="east", percent=10.0), BOTH, Invalid, "to_cluster"),
        (replace(trial(10), lanes=("nope",)), BOTH, Invalid, "lanes"),
        (replace(trial(10), partitions=-1), BOTH, Invalid, "partitions"),
        (replace(spread(east=1, west=1), partitions=10**6), BOTH, Invalid, "partitions"),
        (replace(spread(east=1), to_cluster="west"), BOTH, Invalid, "spread"),
        (spread(**{f"c{number}": 1 for number in range(65)}), BOTH, Invalid, "spread"),
        (replace(spread(**{f"c{number}": 1 for number in range(11)}), partitions=10_000), BOTH, Invalid, "spread"),
        (replace(spread(east=1), lanes=LIVE * 9), BOTH, Invalid, "lanes"),
        (spread(east=1, west=0), BOTH, Invalid, "spread[1]"),
        (spread(east=1, west=float("inf")), BOTH, Invalid, "spread[1]"),
        (MoveOrder(LIVE, spread=(("east", 1.0), ("east", 2.0))), BOTH, Invalid, "spread[1]"),
        (spread(east=1, north=1), BOTH, NotFound, "spread[1]"),
        (spread(east=1, north=1), (*BOTH, cluster("north")), Refused, "spread[1]"),
        (spread(east=1, west=1), (BOTH[0], cluster("west", cordoned=True)), Refused, "spread[1]"),
        (
            spread(east=1, west=1),
            (BOTH[0], cluster("west", spec=ClusterSpec("west:9092", capacity=3))),
            FailoverBlocked,
            "lanes",
        ),
    ],
)
def test_what_cannot_be_names_why(
    order: MoveOrder, clusters: tuple[Cluster, ...], error: type[BraidError], field: str
) -> None:
    history = created()
    assert shares_traffic(order)
    with pytest.raises(error) as refused:
        plan_shares(world(history, *clusters), history.state, order)
    assert refused.value.field == field


def test_a_spread_over_the_bound_of_partitions_is_refused() -> None:
    history = created(replace(LOGS, lanes={"live": 4, "bulk": 10_000}))
    with pytest.raises(Invalid) as refused:
        plan_shares(world(history, *BOTH), history.state, replace(spread(east=1, west=1), partitions=10_000))
    assert refused.value.field == "partitions" and refused.value.remedy


# --- by a whole registry


def play(scene: Callable[[Mesh], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        await scene(Mesh())

    run_virtual(run())


async def weights(mesh: Mesh) -> Weights:
    channels = (await mesh.stream()).status.channels
    active = [each for each in channels if each.lane == "live" and each.state == stream_pb2.CHANNEL_STATE_ACTIVE]
    return {each.cluster: each.weight for each in active}


def test_producers_are_told_shares_and_withdrawn_ones_drain() -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        producer = await open_producer(mesh)
        await mesh.until(lambda: bool(producer.routes), 2, "no route")
        dry = await mesh.move(to_cluster="west", percent=10, lanes=["live"], dry_run=True)
        assert [(each.to_cluster, each.weight) for each in dry.moves] == [("east", 90), ("west", 10)]
        assert await weights(mesh) == {"east": 1}
        await mesh.move(to_cluster="west", percent=10)
        await mesh.until(lambda: len(producer.routes) > 1, 2, "no new route")
        lanes = {lane.lane: {each.cluster: each.weight for each in lane.channels} for lane in producer.routes[-1].lanes}
        assert lanes == {"live": {"east": 90, "west": 10}, "dlq": {"east": 90, "west": 10}}
        assert not producer.routes[-1].dropped
        again = await mesh.move(to_cluster="west", percent=10)
        assert not again.moves and again.stream.status.route_revision == producer.routes[-1].revision
        await mesh.move(to_cluster="west", percent=0)
        await mesh.until(lambda: bool(producer.routes[-1].dropped), 2, "no new route")
        assert {each.channel for each in producer.routes[-1].dropped} == {"logs/live/2", "logs/dlq/2"}
        await producer.acknowledge(producer.routes[-1].revision)
        await mesh.until_channel("logs/live/2", lambda channel: channel.state == DRAINED, 10)
        assert await weights(mesh) == {"east": 100}

    play(scene)


def test_a_spread_with_another_number_of_partitions_is_one_move() -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        shares = [api.ClusterShare(cluster="east", weight=3), api.ClusterShare(cluster="west", weight=1)]
        await mesh.move(spread=shares, lanes=["live"], partitions=5)
        assert await weights(mesh) == {"east": 3, "west": 1}
        channels = (await mesh.stream()).status.channels
        active = [each for each in channels if each.lane == "live" and each.state == stream_pb2.CHANNEL_STATE_ACTIVE]
        assert [each.partitions for each in active] == [5, 5]
        await mesh.until_channel("logs/live/1", lambda channel: channel.state == DRAINED, 10)

    play(scene)


def test_a_spread_clusters_decommission_gives_its_share_away() -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        shares = [api.ClusterShare(cluster="east", weight=3), api.ClusterShare(cluster="west", weight=1)]
        await mesh.move(spread=shares)
        assert await weights(mesh) == {"east": 3, "west": 1}
        request = api.DecommissionClusterRequest(name="west")
        await mesh.client.unary("DecommissionCluster", request, api.DecommissionClusterResponse)
        await mesh.until_channel("logs/live/2", lambda channel: channel.state == DRAINED, 10)
        assert await weights(mesh) == {"east": 4}

    play(scene)
