"""Many streams on one cluster: their spares are spread over the others, and not all of them arrive there at once."""

from collections import Counter
from typing import Final

import pytest

from braid.kernel.limits.registry.traffic import CHANGE_OVER_SECONDS
from services.registry.model.channels import ChannelState, DrainStep
from services.registry.model.clusters.specs import ClusterSpec
from services.registry.policy import arrivals
from services.registry.policy.arrivals import Arrivals
from services.registry.policy.channel_work import Work
from services.registry.policy.world import Room
from tests.unit.registry.histories import cluster, down
from tests.unit.registry.house import House

STREAMS: Final = 60
AT_ONCE: Final = 8
OTHERS: Final = ("north", "south", "west")


@pytest.fixture(autouse=True)
def few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrivals, "ARRIVALS_AT_ONCE", AT_ONCE)


def many() -> House:
    """Streams at rest, all on east."""
    found = House({}).set(cluster("east"))
    for number in range(STREAMS):
        found.add(f"s{number:02}")
    found.set(*(cluster(name) for name in OTHERS)).settle()
    found.moves.clear()
    return found


def spread(found: House) -> Counter[str]:
    """How many streams have their spares where."""
    return Counter(found.where(ChannelState.STANDBY))


def arriving(found: House) -> Counter[str]:
    """How many streams on each cluster have producers that have not let go of what they left, and left it lately."""
    now_ms, coming = found.world.now_ms, Counter[str]()
    for history in found.streams.values():
        left = [each for each in history.state.channels if each.drain_step is DrainStep.PRODUCERS]
        if any(now_ms - each.state_since_ms < CHANGE_OVER_SECONDS * 1_000 for each in left):
            coming.update({each.cluster for each in history.state.channels if each.state is ChannelState.ACTIVE})
    return coming


def peaks(found: House) -> Counter[str]:
    """East dies, and its producers let go of nothing: the most streams that ever arrived on each cluster together."""
    found.set(down("east"))
    found.held = {Work.AWAIT_PRODUCERS}
    most: Counter[str] = Counter()
    for _ in range(STREAMS):
        found.look()
        most |= arriving(found)
        found.wait(CHANGE_OVER_SECONDS / 4)
    assert "east" not in found.where(ChannelState.ACTIVE), "somebody waits for ever"
    return most


def test_spares_of_a_clusters_streams_are_spread_over_all_others() -> None:
    found = many()
    assert spread(found) == dict.fromkeys(OTHERS, STREAMS // 3)
    for history in found.streams.values():
        assert len({each.cluster for each in history.state.channels if each.spare}) == 1, "a stream stays together"
    found.set(down("east")).wait(CHANGE_OVER_SECONDS)
    peaks(found)
    assert Counter(found.where(ChannelState.ACTIVE)) == dict.fromkeys(OTHERS, STREAMS // 3)


def _forget(self: Room, cluster: str, partitions: int) -> None:
    """Spares take no room, as it was."""


def test_spares_that_do_not_count_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Room, "promise", _forget)
    assert spread(many()) == {"north": STREAMS}


def test_a_small_cluster_gets_only_spares_that_it_could_carry() -> None:
    found = House({}).set(cluster("east"))
    for number in range(9):
        found.add(f"s{number}")
    found.set(cluster("west"), cluster("north", spec=ClusterSpec("north:9092", capacity=10))).settle()
    assert spread(found) == {"north": 2, "west": 7}


def test_streams_arrive_in_turns_and_a_hanging_one_delays_none() -> None:
    most = peaks(many())
    assert most == dict.fromkeys(OTHERS, AT_ONCE)


def _always(self: Arrivals, clusters: object) -> bool:
    return True


def test_streams_that_arrive_all_at_once_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Arrivals, "join", _always)
    assert max(peaks(many()).values()) > AT_ONCE


def test_who_has_let_go_makes_room_at_once() -> None:
    found = many().set(down("east"))
    looks = 0
    while "east" in found.where(ChannelState.ACTIVE):
        found.look()
        looks += 1
    assert looks <= 2 * (STREAMS // 3 // AT_ONCE + 1), "no time passed but what the events took"
