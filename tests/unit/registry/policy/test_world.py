"""Which cluster is best: the one order of targets, rule by rule, each with all later ones against it."""

from dataclasses import replace

import pytest

from services.registry.model.clusters.cluster import Cluster
from services.registry.model.clusters.health import Health
from services.registry.model.clusters.loads import MeasuredLoad
from services.registry.model.clusters.specs import ClusterSpec
from services.registry.model.streams import Stream
from services.registry.policy.world import Room, Wanted, World, find_target, refusals
from tests.unit.registry.histories import LOGS, cluster, created, provision

EAST = cluster("east", spec=ClusterSpec("east:9092", zone="a"))


def zoned(name: str, zone: str, capacity: int = 0) -> Cluster:
    return cluster(name, spec=ClusterSpec(f"{name}:9092", zone=zone, capacity=capacity))


def stream(*clusters: str) -> Stream:
    """One on east that may go to these, in this order; to all where none is named."""
    state = created().state
    return replace(state, spec=replace(state.spec, clusters=clusters))


def best(world: World, wanted: Wanted, *clusters: str) -> str:
    return find_target(world, stream(*clusters), wanted, Room(world))


def world(*clusters: Cluster, **others: Stream) -> World:
    return World(0, {each.name: each for each in (EAST, *clusters)}, others)


SPARE = Wanted(4, {"east"}, spare=True)


def busy(on: str, *, spare: bool = False) -> Stream:
    """Another stream that uses a cluster, or has its spares there."""
    history = created(replace(LOGS, clusters=("east", on) if spare else (on,)))
    if spare:
        provision(history, "live", on, 4)
    return history.state


@pytest.mark.parametrize("health", [each for each in Health if each is not Health.HEALTHY])
def test_health_before_everything(health: Health) -> None:
    found = world(cluster("west", health=health), zoned("north", "a", capacity=4), other=busy("north", spare=True))
    assert best(found, SPARE, "west", "north") == "north"
    assert best(world(cluster("west", health=health)), SPARE) == ""


def test_room_before_what_the_stream_declares() -> None:
    found = world(zoned("west", "b", capacity=3), zoned("north", "a"), other=busy("north"))
    assert best(found, SPARE, "west", "north") == "north"


def test_what_the_stream_declares_before_the_zone() -> None:
    found = world(zoned("west", "a"), zoned("north", "b"), other=busy("west"))
    assert best(found, SPARE, "west", "north") == "west"


def test_a_zone_unlike_the_replaced_clusters_goes_before_load() -> None:
    found = world(zoned("north", "a"), zoned("west", "b"), other=busy("west"))
    assert best(found, SPARE) == "west"
    assert best(found, replace(SPARE, spare=False)) == "north", "a planned move leaves no ill zone"
    unknown = world(cluster("north"), zoned("west", "a"), other=busy("north"))
    assert best(unknown, SPARE) == "north", "no zone is nobody's neighbour"


def test_room_for_promises_goes_before_the_streams_other_lanes() -> None:
    found = world(zoned("north", "b", capacity=7), cluster("west"), other=busy("north", spare=True))
    assert best(found, replace(SPARE, together={"north"})) == "west"


def test_the_streams_other_lanes_before_load() -> None:
    found = world(cluster("north"), cluster("west"), other=busy("west"))
    assert best(found, SPARE) == "north" and best(found, replace(SPARE, together={"west"})) == "west"


def test_spares_mind_spares_first_and_active_ones_the_active() -> None:
    found = world(cluster("north"), cluster("west"), other=busy("north", spare=True))
    assert best(found, SPARE) == "west" and best(found, replace(SPARE, spare=False)) == "west"
    both = world(cluster("north"), cluster("west"), one=busy("north", spare=True), two=busy("west"))
    assert best(both, replace(SPARE, spare=False)) == "north"
    assert best(both, SPARE) == "north", "four promised are fewer than five in use"


def test_between_equals_the_emptier_disk_then_the_name() -> None:
    found = world(cluster("north"), cluster("west"))
    assert best(found, SPARE) == "north"
    full, empty = (MeasuredLoad(0, 1, free, 100, 0.0) for free in (20, 80))
    assert best(replace(found, loads={"north": full, "west": empty}), SPARE) == "west"
    assert best(replace(found, loads={"west": full}), SPARE) == "west", "measured before unknown"
    alike = {name: MeasuredLoad(0, 1, free, 1_000, 0.0) for name, free in (("north", 250), ("west", 251))}
    assert best(replace(found, loads=alike), SPARE) == "north", "they were not measured at the same moment"


@pytest.mark.parametrize(
    ("declared", "free", "goes"), [({}, 4, ""), ({}, 6, "north"), ({"disk_free_share": 0.3}, 20, "")]
)
def test_a_cluster_whose_fullest_disk_is_nearly_full_has_no_room(
    declared: dict[str, float], free: int, goes: str
) -> None:
    north = cluster("north", spec=ClusterSpec("north:9092", health=declared))
    found = replace(world(north), loads={"north": MeasuredLoad(0, 1, free, 100, 0.0)})
    assert best(found, SPARE) == goes
    told = refusals(found, stream(), SPARE, Room(found)).get("north", "")
    assert told == (goes == "") * f"has less than {30 if declared else 5} % of a disk free"


def test_refusals_are_in_an_order_that_lasts() -> None:
    found = world(cluster("north", cordoned=True), cluster("west", cordoned=True), other=busy("north"))
    anywhere = refusals(found, stream(), SPARE, Room(found))
    assert [*anywhere] == ["north", "west"]
    assert [*refusals(found, stream("west", "north"), SPARE, Room(found))] == ["west", "north"]
