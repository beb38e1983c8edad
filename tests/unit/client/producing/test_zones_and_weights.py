"""Weights come before zones: what a producer with a zone sends where, with and without keys."""

from collections import Counter
from collections.abc import Sequence

import pytest

from braid.api.registry.v1.route_pb2 import Route, RouteLane
from braid.client.producing import routes
from braid.client.producing.routes import ActiveChannel, Placement, RouteTable, StickyChoice
from braid.client.records.outgoing import Outgoing
from braid.host.system import SystemRandomness
from braid.kernel.ids import ChannelId
from tests.support.scripted_control import Control, until, virtual

ZONES = ("", "a", "b", "c")
TURNS = 4_000
SLACK = 0.03


def channels(*declared: tuple[str, float]) -> Sequence[ActiveChannel]:
    """A lane on clusters of these zones, with these weights."""
    return [
        ActiveChannel(ChannelId("logs", "live", at), f"cluster-{at}", f"t{at}", 4, weight, zone)
        for at, (zone, weight) in enumerate(declared)
    ]


def shares(there: Sequence[ActiveChannel], zone: str) -> list[float]:
    """Each channel's share of a keyless producer's records."""
    choice = StickyChoice(7, zone)
    found: Counter[ChannelId] = Counter()
    for _ in range(TURNS):
        found[choice.choose(there)[0].id] += 1
        choice.went(routes.STICKY_BYTES)
    return [found[each.id] / TURNS for each in there]


def check_a_trial_gets_its_share() -> None:
    """One record of a hundred, wherever its producer stands."""
    for zone in ZONES:
        [_, trial] = shares(channels(("a", 99.0), ("b", 1.0)), zone)
        assert 0.004 < trial < 0.02, zone


def test_a_trial_gets_its_share_wherever_its_producer_stands() -> None:
    check_a_trial_gets_its_share()


def test_zones_before_weights_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def any_near(there: Sequence[ActiveChannel], chosen: ActiveChannel, zone: str) -> Sequence[ActiveChannel]:
        return [each for each in there if each.zone == zone] or [chosen]

    monkeypatch.setattr(routes, "near", any_near)
    with pytest.raises(AssertionError):
        check_a_trial_gets_its_share()


@pytest.mark.parametrize("zone", ZONES)
def test_weights_that_differ_are_kept_in_every_zone(zone: str) -> None:
    assert shares(channels(("a", 3.0), ("b", 1.0)), zone) == pytest.approx([0.75, 0.25], abs=SLACK)


@pytest.mark.parametrize(
    ("zone", "expected"), [("", [0.5, 0.5]), ("a", [1.0, 0.0]), ("b", [0.0, 1.0]), ("c", [0.5, 0.5])]
)
def test_among_equals_the_producers_zone_is_preferred(zone: str, expected: list[float]) -> None:
    assert shares(channels(("a", 1.0), ("b", 1.0)), zone) == pytest.approx(expected, abs=SLACK)


@pytest.mark.parametrize(
    ("zone", "expected"),
    [("", [0.4, 0.4, 0.2]), ("a", [0.8, 0.0, 0.2]), ("b", [0.0, 0.8, 0.2]), ("c", [0.4, 0.4, 0.2])],
)
def test_a_trial_keeps_its_share_and_equals_keep_their_zones(zone: str, expected: list[float]) -> None:
    weights = (0.1 + 0.2, 0.3)  # shares of a hundred are computed: equal but for the last bit
    assert shares(channels(("a", weights[0]), ("b", weights[1]), ("b", 0.15)), zone) == pytest.approx(
        expected, abs=SLACK
    )


def test_a_zone_with_its_channel_lost_leaves_records_to_others() -> None:
    there = channels(("a", 1.0), ("b", 1.0))
    choice = StickyChoice(0, "a")
    assert choice.choose(there)[0].zone == "a"
    assert choice.choose(there, {there[0].id: [0, 1, 2, 3]})[0].zone == "b"
    assert choice.choose(there)[0].zone == "a"


def keyed_routes(there: Sequence[ActiveChannel], zone: str, *, by_zone: bool = True) -> list[str]:
    """The zones that a producer's keys go to, in a lane that is keyed by zone or is not."""
    lanes = frozenset({"live"} if by_zone else set())
    route = RouteTable("logs", 1, {"live": there}, {}, 1_000, {}, lanes)
    placement = Placement(SystemRandomness(), zone)
    return [placement.choose(route, "live", b"%d" % number)[0].zone for number in range(200)]


@pytest.mark.parametrize("zone", ["a", "B"])
def test_keys_of_a_lane_keyed_by_zone_stay_in_it(zone: str) -> None:
    there = channels(("a", 1.0), ("b", 1.0), ("c", 1.0), ("b", 1.0))
    assert set(keyed_routes(there, zone)) == {zone.lower()}
    assert set(keyed_routes(there, zone, by_zone=False)) == {"a", "b", "c"}


def test_producers_of_one_zone_place_a_key_alike() -> None:
    there = channels(("a", 1.0), ("b", 1.0), ("b", 1.0))
    route = RouteTable("logs", 1, {"live": there}, {}, 1_000, {}, frozenset({"live"}))
    for number in range(200):
        placed = {Placement(SystemRandomness(), "b").choose(route, "live", b"%d" % number) for _ in range(3)}
        assert len(placed) == 1


@pytest.mark.parametrize("zone", ["", "d"])
def test_keys_from_a_zone_without_a_channel_go_to_all_others(zone: str) -> None:
    there = channels(("a", 1.0), ("b", 1.0), ("c", 1.0))
    found = keyed_routes(there, zone)
    assert found == keyed_routes(there, zone, by_zone=False) and set(found) == {"a", "b", "c"}


def test_weights_come_before_zones_for_keys_too() -> None:
    assert set(keyed_routes(channels(("a", 9.0), ("b", 1.0)), "a")) == {"a", "b"}


def test_a_route_says_which_lanes_are_keyed_by_zone() -> None:
    message = Route(
        stream="logs", revision=3, lanes=[RouteLane(lane="live", keys_by_zone=True), RouteLane(lane="bulk")]
    )
    assert RouteTable.of(message).keyed_by_zone == {"live"}


async def lane_on_both(first: float, second: float) -> Control:
    """A lane on east (zone a) and west (zone b), with these weights."""
    control = await Control().start()
    control.add_channel("logs/live/1", "east", weight=first)
    control.add_channel("logs/live/2", "west", weight=second)
    await control.move("logs/live/1", "logs/live/2")
    return control


@virtual
async def test_producers_of_two_zones_keep_a_trial_small_without_keys() -> None:
    control = await lane_on_both(95.0, 5.0)
    for zone in ("a", "b"):
        async with control.client(f"web-{zone}", zone).mesh as mesh, mesh.producer("logs") as producer:
            receipts = await producer.send_many(Outgoing(bytes(routes.STICKY_BYTES)) for _ in range(600))
            west = sum(each.cluster == "west" for each in receipts) / len(receipts)
            assert 0.02 < west < 0.09, zone


@virtual
async def test_a_key_goes_to_one_channel_whatever_its_producers_zone() -> None:
    control = await lane_on_both(3.0, 1.0)
    placed: list[list[str]] = []
    for zone in ("", "a", "b"):
        async with control.client(f"web-{zone}", zone).mesh as mesh, mesh.producer("logs") as producer:
            receipts = await producer.send_many(Outgoing(b"x", key=b"%d" % number) for number in range(400))
            placed.append([each.cluster for each in receipts])
    assert placed[0] == placed[1] == placed[2]
    assert placed[0].count("west") / 400 == pytest.approx(0.25, abs=0.08)


@virtual
async def test_a_changed_weight_reaches_a_producer_that_kept_its_zone() -> None:
    control = await lane_on_both(1.0, 1.0)
    async with control.client("web", "b").mesh as mesh, mesh.producer("logs") as producer:
        before = await producer.send_many(Outgoing(bytes(routes.STICKY_BYTES)) for _ in range(50))
        assert {each.cluster for each in before} == {"west"}
        control.channels["logs/live/1"].weight = 9.0
        revision = await control.move("logs/live/1", "logs/live/2")
        await until(lambda: (producer.id, revision) in control.acknowledged, 5.0)
        after = await producer.send_many(Outgoing(bytes(routes.STICKY_BYTES)) for _ in range(300))
        assert sum(each.cluster == "east" for each in after) / 300 == pytest.approx(0.9, abs=0.07)
