"""Traffic in trouble among three clusters, whatever ails the others: it moves, a way is under way, or it is told so."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Final

import pytest

from braid.kernel.limits.registry.resources import FAILOVERS_MAX
from braid.kernel.limits.registry.traffic import PASSED_OVER_NAMED_MAX, SPARE_LATE_SECONDS
from services.registry.model.channels import Channel, ChannelState
from services.registry.model.clusters.cluster import Cluster
from services.registry.model.clusters.health import Health
from services.registry.model.clusters.loads import MeasuredLoad
from services.registry.model.clusters.specs import ClusterSpec
from services.registry.model.stream_commands import MoveTraffic, PlanChannel, StreamCommand
from services.registry.model.stream_events import FailoverBlocked, StreamEvent, TrafficMoved
from services.registry.model.streams import FailoverMode, Stream, StreamSpec
from services.registry.policy import plan as planning
from services.registry.policy import spares
from services.registry.policy.channel_work import Work
from services.registry.policy.moves import MoveOrder, as_command, plan_move
from services.registry.policy.plan import plan
from services.registry.policy.world import Room, World
from tests.unit.registry.histories import StreamHistory, cluster, down
from tests.unit.registry.house import House

SPEC: Final = StreamSpec({"live": 4, "dlq": 4}, clusters=("east", "west", "north"))
BROKEN: Final = "3 of 4 partitions have no leader"


@dataclass(frozen=True, slots=True)
class Target:
    """A cluster that traffic might go to."""

    health: Health
    full: bool

    @property
    def well(self) -> bool:
        """Whether traffic may go there."""
        return self.health is Health.HEALTHY and not self.full

    @property
    def mostly_works(self) -> bool:
        """Whether what is dead may go there."""
        return self.health in (Health.HALF_DEAD, Health.FLAPPING) and not self.full

    def named(self, name: str) -> Cluster:
        """The cluster."""
        return cluster(name, health=self.health, spec=ClusterSpec(f"{name}:9092", capacity=3 if self.full else 0))


TARGETS: Final = [Target(health, full) for health in Health for full in (False, True)]
TROUBLES: Final[Mapping[str, Cluster]] = {
    "dead": down("east"),
    "slow": cluster("east", health=Health.SLOW, health_reason="400 ms"),
    "replaced": cluster("east", kafka_cluster_id="other"),
}


def at_rest(spec: StreamSpec = SPEC) -> House:
    """A stream on east with its spares on west, the third cluster idle."""
    found = House({}).set(cluster("east"), cluster("west"), cluster("north"))
    found.add("logs", spec)
    return found.settle()


def lanes_on_east(found: House) -> list[Channel]:
    state = found.streams["logs"].state
    return [each for each in state.channels if each.cluster == "east" and each.state is ChannelState.ACTIVE]


def unanswered(found: House, named: Mapping[str, Target]) -> Iterator[str]:
    """Lanes that must leave, and neither have a way under way nor are told to have none."""
    stream = found.streams["logs"].state
    for channel in lanes_on_east(found):
        coming = [each for each in stream.channels if each.ref.lane == channel.ref.lane and each.spare]
        coming = [each for each in coming if each.cluster in named and named[each.cluster].well]
        if not coming and "east" not in stream.blocked:
            yield f"lane {channel.ref.lane} stays, and nothing is done or said about it"


def played(trouble: str, west: Target, north: Target) -> tuple[House, list[str]]:
    """The trouble from its beginning until nothing changes any more; and what was wrong at any look."""
    found, named = at_rest(), {"west": west, "north": north}
    found.set(TROUBLES[trouble], *(each.named(name) for name, each in named.items()))
    wrong: list[str] = []
    for _ in range(20):
        busy = found.look()
        wrong += unanswered(found, named)
        if not busy:
            return found, wrong
    raise AssertionError("it never settles")


def expected(trouble: str, west: Target, north: Target) -> str:
    """Where the traffic ends: the promise, in other words than the code's."""
    if west.well:
        return "west"
    if north.well:
        return "north"
    return "west" if trouble != "slow" and west.mostly_works else "east"


@pytest.mark.parametrize("trouble", TROUBLES)
def test_traffic_in_trouble_moves_or_is_told_to_have_no_way(trouble: str) -> None:
    for west, north in product(TARGETS, TARGETS):
        found, wrong = played(trouble, west, north)
        case = f"{trouble}; west {west}, north {north}"
        assert not wrong, f"{case}: {wrong[0]}"
        ended = expected(trouble, west, north)
        assert {*found.where(ChannelState.ACTIVE)} == {ended}, case
        blocked = found.streams["logs"].state.blocked
        assert ("east" in blocked) == (ended == "east"), case
        if blocked:
            assert all(f"{name} " in blocked["east"] for name in ("west", "north")), f"{case}: {blocked}"


def _any_spare(world: World, stream: Stream, lane: str, room: Room) -> bool:
    """An earlier rule, as a mutant: any spare on a reachable cluster counts."""
    return any(
        world.cluster(each.cluster).reachable for each in stream.channels if each.spare and each.ref.lane == lane
    )


def test_a_spare_counted_though_it_can_take_nothing_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "covered", _any_spare)
    for health in (Health.SUSPECT, Health.SLOW):
        assert played("dead", Target(health, False), Target(Health.HEALTHY, False))[1]
    assert played("slow", Target(Health.HEALTHY, True), Target(Health.HEALTHY, False))[1]


def waiting_for_a_topic() -> House:
    """East is slow, west a suspect, and north never makes the topics it was asked for."""
    found = at_rest().set(TROUBLES["slow"], cluster("west", health=Health.SUSPECT))
    found.held = {Work.CREATE_TOPIC}
    found.settle()
    assert {*found.where(ChannelState.PROVISIONING)} == {"north"} and not found.streams["logs"].state.blocked
    return found.wait(SPARE_LATE_SECONDS).settle()


def test_a_cluster_that_makes_no_topic_is_awaited_only_so_long() -> None:
    found = waiting_for_a_topic()
    history = found.streams["logs"]
    assert "west is SUSPECT, north has not made topic braid.logs.live.3 yet" in history.state.blocked["east"]
    found.set(cluster("south"))
    history.state = replace(history.state, spec=replace(SPEC, clusters=(*SPEC.clusters, "south")))
    found.settle()
    assert {*found.where(ChannelState.PROVISIONING)} == {"north", "south"} and not history.state.blocked
    found.held.clear()
    found.settle()
    assert {*found.where(ChannelState.ACTIVE)} == {"north"}


def _never(world: World, spare: Channel) -> bool:
    return False


def test_a_wait_without_end_for_a_topic_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spares, "_late", _never)
    assert not waiting_for_a_topic().streams["logs"].state.blocked


def test_dead_traffic_waits_briefly_for_a_healthy_cluster() -> None:
    found = at_rest().set(down("east"), cluster("west", health=Health.HALF_DEAD))
    found.held = {Work.CREATE_TOPIC}
    found.settle()
    assert {*found.where(ChannelState.ACTIVE)} == {"east"}
    found.wait(SPARE_LATE_SECONDS).settle()
    assert {*found.where(ChannelState.ACTIVE)} == {"west"}
    assert "to west: standby, HALF_DEAD" in moved(found).reason


def test_a_spare_without_room_is_replaced_before_it_is_needed() -> None:
    found = at_rest().set(Target(Health.HEALTHY, True).named("west")).settle()
    assert {*found.where(ChannelState.STANDBY)} == {"west", "north"}
    found.set(cluster("west", health=Health.SUSPECT)).settle()
    assert len(found.where(ChannelState.STANDBY)) == 2, "what may pass makes nothing"


def test_leaving_traffic_avoids_clusters_with_nearly_full_disks() -> None:
    found = at_rest().set(down("east"))
    found.loads = {"west": MeasuredLoad(0, 3, 1, 100, 0.0)}
    found.settle()
    assert {*found.where(ChannelState.ACTIVE)} == {"north"}
    assert moved(found).reason.endswith("to north: standby; west has less than 5 % of a disk free")


# --- what is told


def moved(found: House) -> TrafficMoved:
    """The newest move."""
    return next(each for each in reversed(found.streams["logs"].events) if isinstance(each, TrafficMoved))


def blocks(found: House) -> list[str]:
    events: list[StreamEvent] = found.streams["logs"].events
    return [each.reason for each in events if isinstance(each, FailoverBlocked)]


def test_a_move_says_why_there_and_who_was_passed_over() -> None:
    found = at_rest().set(down("east"), cluster("west", cordoned=True)).settle()
    assert moved(found).reason == "cluster east is DOWN: no answer; to north: standby; west is cordoned"


def test_of_many_clusters_that_cannot_take_it_some_are_named() -> None:
    found = House({}).set(cluster("east"), cluster("west"))
    found.add("logs")
    found.settle().set(down("east"), *(cluster(f"c{number}", cordoned=True) for number in range(9))).settle()
    told = moved(found).reason
    assert told.count("is cordoned") == PASSED_OVER_NAMED_MAX and told.endswith("; c4 is cordoned; 4 more cannot")


def test_lanes_that_part_are_told_apart() -> None:
    found = at_rest(StreamSpec({"live": 4, "dlq": 1}, clusters=("east", "west", "north")))
    found.set(down("east"), cluster("west", spec=ClusterSpec("west:9092", capacity=1))).settle()
    told = [each.reason for each in found.streams["logs"].events if isinstance(each, TrafficMoved)][-2:]
    assert [each.partition("; ")[2] for each in told] == [
        "to west: standby",
        "to north: standby; west has no headroom for 4 partitions",
    ]


def test_a_lane_that_is_elsewhere_too_goes_on_there() -> None:
    found = at_rest()
    history = found.streams["logs"]
    standby = tuple(each for each in history.state.channels if each.state is ChannelState.STANDBY)
    history.run(MoveTraffic(tuple((each.ref, 1.0) for each in standby), (), True, "spread"))  # type: ignore[misc]
    found.settle().set(down("east")).settle()
    assert "to west: carries the lane too" in moved(found).reason


def test_a_block_tells_its_reason_again_when_it_is_another() -> None:
    found = at_rest().set(down("east"), down("west"), down("north")).settle()
    found.set(cluster("west", cordoned=True)).settle()
    none = "no cluster can take the traffic: west {}, north is DOWN"
    assert blocks(found) == [none.format("is DOWN"), none.format("is cordoned")]
    found.settle()
    assert len(blocks(found)) == 2, "once each"
    assert dict(found.streams["logs"].state.blocked) == {"east": none.format("is cordoned")}


def test_a_block_does_not_change_with_what_others_carry() -> None:
    spec = replace(SPEC, clusters=())
    found = at_rest(spec)
    found.set(down("east"), cluster("west", cordoned=True), cluster("north", cordoned=True)).settle()
    for name in ("a", "b", "c"):
        found.add(name, replace(SPEC, clusters=("north",)))
        found.settle()
    assert len(blocks(found)) == 1


def test_each_lane_has_its_reason() -> None:
    spec = StreamSpec({"live": 4, "bulk": 3, "dlq": 1}, clusters=("east", "west"))
    found = at_rest(spec).set(down("east"), cluster("west", spec=ClusterSpec("west:9092", capacity=2))).settle()
    why = "no cluster can take the traffic: west has no headroom for {} partitions"
    assert blocks(found)[-1] == f"lane bulk: {why.format(3)}; lane live: {why.format(4)}"


def test_a_block_ends_as_soon_as_there_is_a_way() -> None:
    found = at_rest().set(down("east"), cluster("west", cordoned=True), cluster("north", cordoned=True)).settle()
    assert found.streams["logs"].state.blocked
    found.set(cluster("north"))
    found.held = {Work.CREATE_TOPIC}
    found.settle()
    assert not found.streams["logs"].state.blocked and {*found.where(ChannelState.ACTIVE)} == {"east"}


def test_a_stream_that_asks_now_says_so_although_it_was_blocked() -> None:
    found = at_rest(replace(SPEC, failover=FailoverMode.OFF)).set(down("east")).settle()
    history = found.streams["logs"]
    assert dict(history.state.blocked) == {"east": "failover is off"}
    history.state = replace(history.state, spec=replace(SPEC, failover=FailoverMode.PROPOSE))
    found.settle()
    assert not history.state.blocked and history.state.proposed == ("east",)


# --- what counts as a failover


def by_hand(found: House, history: StreamHistory, to: str) -> StreamCommand:
    moves = plan_move(found.world, history.state, MoveOrder(to_cluster=to))
    return as_command(found.world, history.state, moves, "I know better")


def test_what_a_person_moves_off_a_dead_cluster_is_no_failover() -> None:
    found = at_rest(replace(SPEC, failover=FailoverMode.PROPOSE))
    history, sides = found.streams["logs"], ("east", "west")
    for turn in range(FAILOVERS_MAX + 1):
        here, there = sides[turn % 2], sides[1 - turn % 2]
        found.set(down(here), cluster(there)).settle()
        history.run(by_hand(found, history, there))
        assert not moved(found).planned and moved(found).asked_for
        found.set(cluster(here)).settle()
    assert not history.state.failovers_ms
    history.state = replace(history.state, spec=SPEC)
    found.set(down(sides[(FAILOVERS_MAX + 1) % 2])).settle()
    assert len(history.state.failovers_ms) == 1 and not moved(found).asked_for


def test_failovers_in_older_histories_go_on_counting() -> None:
    found = at_rest().set(down("east")).settle()
    assert TrafficMoved(1, (), (), False, "").asked_for is False
    assert len(found.streams["logs"].state.failovers_ms) == 1
    found.set(cluster("east"), down("west")).settle()
    assert len(found.streams["logs"].state.failovers_ms) == 2, "once is not too often"


def test_a_spare_is_planned_in_the_look_that_finds_others_unfit() -> None:
    found = at_rest().set(down("east"), cluster("west", health=Health.SUSPECT))
    planned = [each.command for each in plan(found.world) if isinstance(each.command, PlanChannel)]
    assert [(each.lane, each.cluster) for each in planned] == [("dlq", "north"), ("live", "north")]
