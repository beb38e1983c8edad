"""Zones and hosts: where members run decides what they are given, as far as it can be had."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from braid.kernel.errors import NotFound, Refused
from services.assigner.domain import operator_rules
from services.assigner.model.channels import SeenChannel
from services.assigner.model.commands import (
    Balance,
    JoinMember,
    Loads,
    RemoveMember,
)
from services.assigner.model.events import (
    GoneReason,
    RevokesStarted,
)
from services.assigner.model.rules import Ban, BanMember, PinLease, SetSpreading, Zones
from services.assigner.policy.layout import layout
from tests.support.examples import examples
from tests.unit.assigner.groups import SPEC, History, check_single_holder, hello, member, registered, seen


def at(name: str, cluster: str, zone: str, partitions: int = 4) -> SeenChannel:
    """A channel on a cluster in a zone."""
    told = seen(name, partitions, cluster=cluster)
    return SeenChannel(told.name, told.cluster, told.topic, told.partitions, told.presence, zone)


def fleet(places: list[tuple[str, str]], *channels: SeenChannel) -> History:
    """A settled group of a member for each (zone, host)."""
    history = registered(*channels)
    for number, (zone, host) in enumerate(places, 1):
        history.do(JoinMember(hello(member(number), zone=zone, peer=f"ipv4:{host}:{5000 + number}"), SPEC))
    history.settle()
    return history


def settle(history: History) -> None:
    """Until nothing moves, with a new budget each time."""
    for _ in range(20):
        history.settle()


def strangers(history: History) -> list[str]:
    """Leases held by members of another zone than their cluster's."""
    channels, members = history.state.channels, history.state.members
    return [
        lease for lease, id in history.holders().items() if members[id].zone != channels[lease.rpartition("/")[0]].zone
    ]


def crowds(history: History, channel: str) -> Counter[str]:
    """How many partitions of a channel each host holds."""
    members = history.state.members
    held = [id for lease, id in history.holders().items() if lease.startswith(f"{channel}/")]
    return Counter(members[id].peer.split(":")[1] for id in held)


TWO_ZONES = (at("logs/live/1", "east", "a", 6), at("logs/live/2", "west", "b", 6))


def test_members_keep_to_their_zone_where_they_can() -> None:
    history = fleet([("a", "h1"), ("a", "h2"), ("b", "h3"), ("b", "h4")], *TWO_ZONES)
    assert strangers(history)
    history.do(SetSpreading(zones=Zones.PREFER))
    settle(history)
    assert not strangers(history) and len(history.holders()) == 12
    history.do(*(RemoveMember(member(number), GoneReason.DISCONNECTED) for number in (3, 4)))
    settle(history)
    assert len(history.holders()) == 12  # nobody is in b: others stand in
    history.do(*(JoinMember(hello(member(number), zone="b"), SPEC) for number in (5, 6)))
    settle(history)
    assert not strangers(history)


def test_strict_zones_wait_and_are_refused_where_nobody_is() -> None:
    history = fleet([("a", "h1"), ("b", "h2")], *TWO_ZONES)
    history.do(SetSpreading(zones=Zones.STRICT))
    settle(history)
    assert not strangers(history)
    history.do(RemoveMember(member(2), GoneReason.DISCONNECTED))
    settle(history)
    assert len(history.holders()) == 6
    (warning,) = operator_rules.warnings(history.state)
    assert warning.startswith("6 leases may be held by no member that is there: logs/live/2")
    history.do(SetSpreading(zones=Zones.ANY))
    settle(history)
    assert len(history.holders()) == 12
    with pytest.raises(Refused, match="logs/live/2/0"):
        history.do(SetSpreading(zones=Zones.STRICT))


def test_a_pin_precedes_a_preferred_zone_and_reasons_name_zones() -> None:
    history = fleet([("a", "h1"), ("b", "h2")], *TWO_ZONES)
    history.do(PinLease("logs/live/2/0", "web-1"), SetSpreading(zones=Zones.PREFER))
    made = history.do(Balance(tuple(history.state.members)))
    reasons = {event.reason for event in made if isinstance(event, RevokesStarted)}
    assert any("is in zone" in reason and "cluster" in reason for reason in reasons)
    settle(history)
    assert strangers(history) == ["logs/live/2/0"]


def test_an_unknown_zone_shuts_nobody_out() -> None:
    history = fleet([("", "h1"), ("b", "h2")], seen(partitions=4))
    history.do(SetSpreading(zones=Zones.STRICT))
    settle(history)
    assert len(history.holders()) == 4


def test_a_lane_is_kept_apart_over_hosts() -> None:
    history = fleet([("a", "h1"), ("a", "h1"), ("a", "h1"), ("a", "h2"), ("a", "h3")], seen(partitions=6))
    assert crowds(history, "logs/live/1")["h1"] > 2
    history.do(SetSpreading(hosts=True))
    made = history.do(Balance(tuple(history.state.members)))
    assert "its lane is kept apart over hosts" in {e.reason for e in made if isinstance(e, RevokesStarted)}
    settle(history)
    assert crowds(history, "logs/live/1") == {"h1": 2, "h2": 2, "h3": 2}
    history.do(RemoveMember(member(5), GoneReason.DISCONNECTED))
    settle(history)
    assert crowds(history, "logs/live/1") == {"h1": 3, "h2": 3}


def test_leases_that_cannot_be_apart_are_held_and_stay_put() -> None:
    history = fleet([("a", "h1"), ("a", "h1"), ("a", "h2")], seen(partitions=6))
    history.do(SetSpreading(hosts=True), *(BanMember(Ban("web-3", f"logs/live/1/{n}")) for n in range(4)))
    settle(history)
    assert len(history.holders()) == 6
    assert crowds(history, "logs/live/1") == {"h1": 4, "h2": 2}
    for _ in range(5):
        assert history.do(Balance(tuple(history.state.members))) == []


def test_where_all_are_on_one_host_nothing_is_kept_apart() -> None:
    history = fleet([("a", "h1"), ("a", "h1")], seen(partitions=6))
    history.do(SetSpreading(hosts=True))
    assert history.do(Balance(tuple(history.state.members))) == []


@settings(max_examples=examples(40))
@given(
    st.lists(st.sampled_from(["h1", "h2", "h3", "h4"]), min_size=1, max_size=8),
    st.integers(1, 12),
    st.integers(1, 5),
    st.dictionaries(st.integers(0, 11), st.floats(0.05, 2.0), max_size=6),
    st.lists(st.tuples(st.integers(1, 8), st.integers(0, 11)), max_size=4),
)
def test_all_is_placed_and_apart_unless_bans_forbid(
    hosts: list[str], live: int, bulk: int, costs: dict[int, float], bans: list[tuple[int, int]]
) -> None:
    history = fleet([("a", host) for host in hosts], seen(partitions=live), seen("logs/bulk/1", partitions=bulk))
    history.do(SetSpreading(hosts=True))
    for who, partition in bans:
        try:
            history.do(BanMember(Ban(f"web-{who}", f"logs/live/1/{partition}")))
        except (NotFound, Refused):
            continue
    loads = Loads({f"logs/live/1/{n}": cost for n, cost in costs.items()})
    for _ in range(live + bulk):
        history.do(Balance(tuple(history.state.members), loads))
        history.settle()
    assert len(history.holders()) == live + bulk
    if not history.state.rules.bans:
        for channel, count in (("logs/live/1", live), ("logs/bulk/1", bulk)):
            assert max(crowds(history, channel).values()) <= -(-count // len(set(hosts)))
    check_single_holder(history.events)
    quiet = history.do(Balance(tuple(history.state.members)))
    assert not any(isinstance(event, RevokesStarted) for event in quiet)


def test_masks_of_large_groups_share_rows() -> None:
    history = fleet([("a", f"h{n}") for n in range(8)], *(seen(f"logs/live/{n}", 50) for n in range(1, 9)))
    history.do(BanMember(Ban("web-1", "logs/live/3")), PinLease("logs/live/1/7", "web-2"))
    rules = layout(history.state, sorted(history.state.members), Loads(), 0).measured.rules
    assert rules is not None
    assert rules.allowed.shape == (3, 8)
    assert len(rules.kinds) == 400
