"""Lanes with an active channel in each zone: how they come to be, change and lose a zone."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import pytest

from braid.api.registry.v1 import stream_pb2
from braid.kernel.errors import Invalid, Refused
from braid.kernel.limits.registry.resources import FAILOVERS_MAX
from braid.kernel.limits.registry.traffic import ZONE_RETURN_SECONDS, ZONES_MAX
from services.registry.codec.specs import read_stream_spec, stream_spec_message
from services.registry.codec.views import NOTHING_KNOWN, route_message, stream_message
from services.registry.model.channels import ChannelState
from services.registry.model.clusters.cluster import Cluster
from services.registry.model.clusters.specs import ClusterSpec
from services.registry.model.stream_commands import UpdateStream
from services.registry.model.stream_events import StreamUpdated, TrafficMoved
from services.registry.model.streams import StreamSpec, check_stream_spec
from services.registry.policy.moves import MoveOrder, as_command, plan_move
from services.registry.policy.shares import plan_shares
from services.registry.policy.zone_spread import missing_zones
from tests.unit.registry.histories import cluster, down, provision
from tests.unit.registry.house import House

ZONED: Final = StreamSpec({"live": 4}, zone_lanes=("live",))
KEYED: Final = replace(ZONED, lanes_keyed_by_zone=("live",))


def standing(name: str, zone: str, **changes: Any) -> Cluster:
    """A healthy cluster in a zone."""
    return cluster(name, spec=ClusterSpec(f"{name}:9092", zone=zone, capacity=changes.pop("capacity", 0)), **changes)


def three_zones(spec: StreamSpec = ZONED, *more: Cluster) -> House:
    """A stream at rest over three zones; its first channel is on east."""
    found = House({}).set(standing("east", "a"), standing("west", "b"), standing("north", "c"), *more)
    found.add("logs", spec)
    return found.settle()


def weights(found: House) -> Mapping[str, float]:
    """The weights of the lane's active channels, by cluster."""
    return {each.cluster: each.weight for each in found.streams["logs"].state.active("live")}


def missing(found: House) -> list[tuple[str, str]]:
    """Zones without a channel, and why."""
    return [(each.zone, each.reason) for each in missing_zones(found.world, found.streams["logs"].state)]


def move(found: House, order: MoveOrder) -> None:
    """Carries an order out, once its channels are made."""
    history, planned = found.streams["logs"], plan_shares if order.spread else plan_move
    for each in planned(found.world, history.state, order):
        if each.to is None:
            provision(history, each.lane, each.cluster, each.partitions)
    moves = planned(found.world, history.state, order)
    history.run(as_command(found.world, history.state, moves, ""))


def test_a_lane_gets_a_channel_in_each_zone_with_equal_weights() -> None:
    found = three_zones()
    assert weights(found) == {"east": 1.0, "west": 1.0, "north": 1.0}
    assert missing(found) == []
    dlq = found.streams["logs"].state.active("dlq")
    assert [each.cluster for each in dlq] == ["east"]  # it does not declare it


def test_a_stream_in_use_is_spread_once_it_declares_so() -> None:
    found = three_zones(StreamSpec({"live": 4}))
    assert weights(found) == {"east": 1.0}
    assert missing(found) == []
    history = found.streams["logs"]
    history.run(UpdateStream(replace(history.state.spec, zone_lanes=("live",))))
    assert [zone for zone, _ in missing(found)] == ["b", "c"]
    assert set(weights(found.settle())) == {"east", "west", "north"}


def test_a_zone_needs_one_channel_however_many_clusters() -> None:
    found = three_zones(ZONED, standing("east-2", "a"), cluster("nowhere"))
    assert set(weights(found)) == {"east", "west", "north"}


def test_unequal_weights_are_made_equal() -> None:
    found = three_zones(StreamSpec({"live": 4}))
    history = found.streams["logs"]
    move(found, MoveOrder(("live",), spread=(("east", 90.0), ("west", 10.0))))
    assert weights(found) == {"east": 90.0, "west": 10.0}
    history.run(UpdateStream(replace(history.state.spec, zone_lanes=("live",))))
    assert weights(found.settle()) == {"east": 90.0, "west": 90.0, "north": 90.0}


@pytest.mark.parametrize(
    ("north", "why"),
    [
        (down("north"), "north is DOWN"),
        (standing("north", "c", cordoned=True), "north is cordoned"),
        (standing("north", "c", capacity=3), "north has no headroom for 4 partitions"),
    ],
)
def test_a_zone_without_a_channel_is_listed_with_why(north: Cluster, why: str) -> None:
    north = replace(north, spec=replace(north.spec, zone="c"))
    found = House({}).set(standing("east", "a"), standing("west", "b"), north)
    found.add("logs", ZONED)
    assert set(weights(found.settle())) == {"east", "west"}
    assert missing(found) == [("c", why)]
    state = found.streams["logs"].state
    told = stream_message(state, NOTHING_KNOWN, {}, missing_zones(found.world, state)).status.missing_zones
    assert [(each.lane, each.zone, each.reason) for each in told] == [("live", "c", why)]


def test_a_lost_zone_leaves_traffic_to_others_and_returns_late() -> None:
    found = three_zones()
    found.set(replace(down("east"), spec=standing("east", "a").spec)).settle()
    assert weights(found) == {"west": 1.0, "north": 1.0}
    assert missing(found) == [("a", f"traffic left a cluster less than {ZONE_RETURN_SECONDS:g} s ago")]
    found.set(standing("east", "a")).settle()
    assert set(weights(found)) == {"west", "north"}, "a cluster that flaps carries nothing to and fro"
    assert weights(found.wait(ZONE_RETURN_SECONDS + 1).settle()) == {"west": 1.0, "north": 1.0, "east": 1.0}
    assert len(found.streams["logs"].state.failovers_ms) == 1


def test_a_cluster_that_flaps_moves_the_stream_seldom() -> None:
    found = three_zones()
    for _ in range(50):
        found.set(replace(down("east"), spec=standing("east", "a").spec)).settle().wait(1.0)
        found.set(standing("east", "a")).settle().wait(1.0)
    moved = sum(isinstance(each, TrafficMoved) for each in found.streams["logs"].events)
    assert moved <= 3 + 2 * (100 / ZONE_RETURN_SECONDS + 1) and FAILOVERS_MAX > 1


def test_a_zone_with_a_standby_keeps_its_traffic_in_a_failover() -> None:
    found = three_zones(ZONED, standing("east-2", "a"))
    assert "east-2" in found.where(ChannelState.STANDBY)  # the only cluster without the lane has its spare
    found.set(replace(down("east"), spec=standing("east", "a").spec)).settle()
    assert weights(found) == {"west": 1.0, "north": 1.0, "east-2": 1.0}


def test_a_move_changes_only_the_zone_it_names() -> None:
    found = three_zones(ZONED, standing("east-2", "a"))
    move(found, MoveOrder(("live",), to_cluster="east-2"))
    assert weights(found.settle()) == {"east-2": 1.0, "west": 1.0, "north": 1.0}
    move(found, MoveOrder(("live",), away_from_cluster="east-2"))
    assert weights(found.settle()) == {"east": 1.0, "west": 1.0, "north": 1.0}
    assert plan_move(found.world, found.streams["logs"].state, MoveOrder(("live",), to_cluster="west")) == []


def test_an_emptied_zone_joins_another_with_its_weight_unchanged() -> None:
    found = three_zones()
    found.set(standing("east", "a", decommissioning=True)).settle()
    assert weights(found) == {"west": 1.0, "north": 1.0}
    assert missing(found) == [("a", "east is being decommissioned")]


def test_a_renamed_zone_moves_no_channel() -> None:
    found = three_zones()
    events = len(found.streams["logs"].events)
    found.set(standing("east", "d")).settle()
    assert len(found.streams["logs"].events) == events
    assert missing(found) == []
    found.set(standing("east", "b")).settle()  # two channels in one zone are no harm
    assert set(weights(found)) == {"east", "west", "north"}


def test_a_lane_is_in_no_more_zones_than_the_bound() -> None:
    more = [standing(f"more-{number}", f"z{number}") for number in range(ZONES_MAX)]
    found = three_zones(ZONED, *more)
    assert len(weights(found)) == ZONES_MAX
    assert len(missing(found)) == 3 and all(str(ZONES_MAX) in why for _, why in missing(found))


def test_a_zone_without_a_healthy_lane_waits_for_the_failover() -> None:
    found = three_zones(replace(ZONED, clusters=("east",)))
    assert set(weights(found)) == {"east"}
    assert missing(found) == []  # zones of clusters that it may not use do not count


@pytest.mark.parametrize(
    ("order", "field"),
    [
        (MoveOrder(("live",), to_cluster="west", percent=10.0), "percent"),
        (MoveOrder(("live",), spread=(("east", 2.0), ("west", 1.0))), "spread"),
        (MoveOrder(("live",), to_cluster="west", partitions=8), "partitions"),
        (MoveOrder(("live",), to_cluster="nowhere"), "to_cluster"),
    ],
)
def test_moves_that_would_undo_the_spread_are_refused(order: MoveOrder, field: str) -> None:
    found = three_zones(ZONED, cluster("nowhere"))
    planned = plan_shares if order.percent is not None or order.spread else plan_move
    with pytest.raises(Refused) as refused:
        planned(found.world, found.streams["logs"].state, order)
    assert refused.value.field == field and refused.value.remedy


def test_all_zones_are_resized_by_one_spread() -> None:
    found = three_zones()
    history = found.streams["logs"]
    order = MoveOrder(("live",), spread=tuple((name, 1.0) for name in ("east", "west", "north")), partitions=8)
    move(found, order)
    found.settle()
    assert {each.partitions for each in history.state.active("live")} == {8}
    assert set(weights(found)) == {"east", "west", "north"}


def test_producers_are_told_when_keys_begin_to_keep_to_zones() -> None:
    found = three_zones()
    history = found.streams["logs"]
    before, revision = weights(found), history.state.route_revision
    assert not any(each.keys_by_zone for each in route_message(history.state, found.world).lanes)
    made = history.run(UpdateStream(replace(history.state.spec, lanes_keyed_by_zone=("live",))))
    assert [type(each) for each in made] == [StreamUpdated, TrafficMoved]
    assert history.state.route_revision == revision + 1 and weights(found) == before
    assert [each.lane for each in route_message(history.state, found.world).lanes if each.keys_by_zone] == ["live"]
    assert history.run(UpdateStream(history.state.spec)) == []


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        (replace(ZONED, ordered=True), "spec.lanes.live.spread"),
        (replace(ZONED, zone_lanes=(), lanes_keyed_by_zone=("live",)), "spec.lanes.live.keys_by_zone"),
    ],
)
def test_what_order_or_keys_cannot_keep_is_refused(spec: StreamSpec, field: str) -> None:
    with pytest.raises(Invalid) as refused:
        check_stream_spec(spec)
    assert refused.value.field == field and refused.value.remedy


def test_the_declaration_survives_its_message() -> None:
    spec = check_stream_spec(KEYED)
    assert read_stream_spec(stream_spec_message(spec)) == spec
    plain = stream_spec_message(check_stream_spec(StreamSpec({"live": 4})))
    assert not plain.lanes["live"].HasField("spread") and not plain.lanes["live"].HasField("keys_by_zone")
    unknown = stream_pb2.StreamSpec(lanes={"live": stream_pb2.LaneSpec(partitions=4, spread=9)})  # type: ignore[arg-type]
    with pytest.raises(Invalid) as refused:
        read_stream_spec(unknown)
    assert refused.value.field == "spec.lanes.live.spread"
