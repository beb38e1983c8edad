"""Operators' rules for a group, tested on the rules alone. A rule is an event, can be undone, and never strands
work."""

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from braid.kernel.errors import BraidError
from braid.kernel.ids import LeaseId
from services.assigner.codec.events import GroupCodec
from services.assigner.domain import operator_rules
from services.assigner.domain.explain import explain
from services.assigner.model.channels import CloseChannel
from services.assigner.model.commands import (
    Balance,
    DeleteGroup,
    JoinMember,
    Loads,
    RemoveMember,
)
from services.assigner.model.events import (
    GoneReason,
    LeasesGranted,
    RevokesStarted,
)
from services.assigner.model.group import Group, LeaseState
from services.assigner.model.rules import (
    NO_RULES,
    Ban,
    BanMember,
    CapacitySet,
    DrainMember,
    FreezeGroup,
    GroupFrozen,
    LeasePinned,
    MemberBanned,
    MemberDrained,
    MemberDrainStarted,
    PinLease,
    RuleCommand,
    RuleEvent,
    SetCapacity,
    SetSpreading,
    UnbanMember,
    UnpinLease,
    Zones,
)
from tests.support.examples import examples
from tests.unit.assigner.groups import SPEC, History, check_single_holder, context, hello, joined, member, seen

LEASE = "logs/live/1/0"


def holder(history: History, lease: str = LEASE) -> str:
    """The client id of a lease's holder; empty while it is free."""
    found = history.holders().get(lease, "")
    return history.state.members[found].client_id if found else ""


def other(history: History, lease: str = LEASE) -> str:
    """The client id of somebody who does not hold it."""
    names = sorted(each.client_id for each in history.state.members.values())
    return next(name for name in names if name != holder(history, lease))


def leave(history: History, name: str) -> None:
    """A member is gone, and its leases are granted anew."""
    (id,) = (each.id for each in history.state.members.values() if each.client_id == name)
    history.do(RemoveMember(id, GoneReason.DISCONNECTED))
    history.settle()


def back(history: History, name: str) -> None:
    """A new process joins under an old client id."""
    history.do(JoinMember(hello(member(int(name[-1]) + 50), client_id=name), SPEC))
    history.settle()


def held(history: History, name: str) -> list[str]:
    """The leases of a member."""
    return [lease for lease in history.holders() if holder(history, lease) == name]


# --- pins


def test_a_pin_moves_a_lease_and_says_so() -> None:
    history = joined(3, seen(partitions=6))
    wanted = other(history)
    assert history.do(PinLease(LEASE, wanted)) == [LeasePinned(LEASE, wanted)]
    asked = [each for each in history.do(Balance(tuple(history.state.members))) if isinstance(each, RevokesStarted)]
    assert asked[0].reason == f"it is pinned to {wanted}"
    assert [each.lease for each in asked[0].leases] == [LEASE]
    history.settle()
    assert holder(history) == wanted
    check_single_holder(history.events)


def test_a_pinned_lease_leaves_and_returns_with_its_member() -> None:
    history = joined(3, seen(partitions=6))
    history.do(PinLease(LEASE, "web-1"))
    history.settle()
    leave(history, "web-1")
    assert holder(history) in ("web-2", "web-3")
    assert operator_rules.warnings(history.state) == ["rules wait for members that are away: web-1"]
    back(history, "web-1")
    assert holder(history) == "web-1"
    history.do(UnpinLease(LEASE))
    assert history.do(UnpinLease(LEASE)) == []
    assert not history.state.rules.pins


def test_a_strict_pin_waits_for_its_member() -> None:
    history = joined(3, seen(partitions=6))
    history.do(PinLease(LEASE, "web-1", strict=True))
    history.settle()
    leave(history, "web-1")
    assert holder(history) == ""
    assert len(history.holders()) == 5
    assert f"1 leases may be held by no member that is there: {LEASE}" in operator_rules.warnings(history.state)
    back(history, "web-1")
    assert holder(history) == "web-1"


# --- bans


@pytest.mark.parametrize("path", ["logs/bulk", "logs/bulk/1", "logs/bulk/1/0"])
def test_a_banned_member_is_never_given_that_part(path: str) -> None:
    history = joined(2, seen(partitions=4), seen("logs/bulk/1", partitions=4))
    history.do(BanMember(Ban("web-1", path)))
    history.settle()
    assert not [lease for lease in held(history, "web-1") if lease == path or lease.startswith(f"{path}/")]
    assert len(history.holders()) == 8
    history.do(UnbanMember(Ban("web-1", path)))
    assert history.do(UnbanMember(Ban("web-1", path))) == []
    assert not history.state.rules.bans


def test_a_ban_from_a_cluster() -> None:
    history = joined(2, seen(partitions=4), seen("logs/live/2", partitions=4, cluster="west"))
    history.do(BanMember(Ban("web-2", cluster="west")))
    history.settle()
    assert all(lease.startswith("logs/live/1/") for lease in held(history, "web-2"))


# --- freeze


def test_a_frozen_group_moves_nothing_and_replaces_the_dead() -> None:
    history = joined(3, seen(partitions=9))
    assert history.do(FreezeGroup(True, "release")) == [GroupFrozen("release")]
    before = history.holders()
    history.do(JoinMember(hello(member(4)), SPEC))
    history.do(PinLease(LEASE, other(history)))
    history.do(DrainMember("web-2", True))
    history.settle()
    assert history.holders() == before
    assert "the group is frozen, so web-2 keeps what it holds" in operator_rules.warnings(history.state)
    leave(history, "web-3")
    assert len(history.holders()) == 9
    assert all(history.holders()[lease] == id for lease, id in before.items() if id != member(3))
    history.do(FreezeGroup(False))
    history.now_ms += 60_000
    history.settle()
    assert held(history, "web-2") == [] and held(history, "web-4")


# --- drains


def test_a_drained_member_loses_all_in_budget_and_is_reported() -> None:
    history = joined(3, seen(partitions=30))
    history.do(DrainMember("web-1", True, "host update"))
    first = [each for each in history.do(Balance(tuple(history.state.members))) if isinstance(each, RevokesStarted)]
    assert [(len(each.leases), each.reason) for each in first] == [(10, "web-1 is being drained")]
    assert not any(isinstance(each, MemberDrained) for each in history.events)
    history.settle()
    assert held(history, "web-1") == [] and len(history.holders()) == 30
    assert [each for each in history.events if isinstance(each, MemberDrained)] == [MemberDrained("web-1")]
    assert history.state.rules.drains["web-1"].drained_at_ms == history.now_ms
    counts = sorted(len(held(history, name)) for name in ("web-2", "web-3"))
    assert counts == [15, 15]


def test_a_drain_keeps_to_the_budget_of_the_minute() -> None:
    history = joined(3, seen(partitions=30))
    history.do(DrainMember("web-1", True))
    spent = Loads(moved=11, ruled=8)  # of the eleven a minute
    events = history.do(Balance(tuple(history.state.members), spent))
    assert [len(each.leases) for each in events if isinstance(each, RevokesStarted)] == [3]
    assert history.do(Balance(tuple(history.state.members), Loads(ruled=11))) == []


def test_a_drained_member_gets_nothing_until_that_is_undone() -> None:
    history = joined(2, seen(partitions=4))
    history.do(DrainMember("web-1", True))
    history.settle()
    history.do(JoinMember(hello(member(3)), SPEC))
    history.settle()
    assert held(history, "web-1") == []
    assert [type(each).__name__ for each in history.do(DrainMember("web-1", False))] == ["MemberDrainEnded"]
    assert history.do(DrainMember("web-1", False)) == []
    history.settle()
    assert held(history, "web-1")


# --- capacity


def test_a_capacity_set_is_gone_by_and_unset() -> None:
    history = joined(2, seen(partitions=12))
    history.do(SetCapacity("web-1", 6.0))  # both declared 2
    history.settle()
    assert len(held(history, "web-1")) == pytest.approx(9, abs=1)
    history.do(SetCapacity("web-1", None))
    history.settle()
    assert len(held(history, "web-1")) == 6
    assert history.do(SetCapacity("web-1", None)) == []


# --- histories and snapshots


def test_rules_survive_a_snapshot_and_an_older_one_has_none() -> None:
    history = joined(3)
    asked: list[RuleCommand] = [
        PinLease(LEASE, "web-1", strict=True),
        BanMember(Ban("web-2", "logs/live/1/1")),
        FreezeGroup(True, "x"),
        DrainMember("web-3", True, "y"),
        SetCapacity("web-1", 2.5),
        SetSpreading(Zones.PREFER, True),
    ]
    history.do(*asked)
    codec = GroupCodec()
    data = codec.encode_state(history.state)
    assert codec.decode_state(data) == history.state
    older = json.loads(data)
    del older["rules"]
    assert codec.decode_state(json.dumps(older).encode()) == replace(history.state, rules=NO_RULES)


def test_rules_of_a_channel_end_with_it() -> None:
    history = joined(3, seen(), seen("logs/live/2"))
    history.do(PinLease(LEASE, "web-1"), PinLease("logs/live/2/0", "web-1"))
    history.do(BanMember(Ban("web-2", "logs/live/1")), BanMember(Ban("web-2", "logs/live/1/3")))
    history.do(BanMember(Ban("web-3", "logs/live", "")))
    history.do(CloseChannel("logs/live/1", 99))
    assert history.state.rules.pins.keys() == {"logs/live/2/0"}
    assert history.state.rules.bans == (Ban("web-3", "logs/live"),)


def test_a_lease_tells_of_its_rules() -> None:
    history = joined(2, seen(partitions=2))
    name = holder(history)
    started = len(history.events)
    history.do(PinLease(LEASE, other(history)), BanMember(Ban(name, LEASE)), DrainMember(name, True))
    history.do(FreezeGroup(True, "release"), FreezeGroup(False), SetCapacity(name, 3.0))
    history.do(UnpinLease(LEASE), UnbanMember(Ban(name, LEASE)), PinLease("logs/live/1/1", "web-1"))
    told = explain(
        LeaseId.parse(LEASE), [(n, event, context()) for n, event in enumerate(history.events)], Group("indexer")
    )
    texts = [step.text.partition(" (decided by")[0] for step in told if step.sequence >= started]
    assert texts == [
        f"Pinned to {other(history)}",
        f"{name} was banned from {LEASE}",
        f"{name} is to be drained",
        "The group was frozen: no held lease moves (release)",
        "The group was unfrozen: leases move again",
        f"{name} was given the capacity 3",
        "Its pin was taken away",
        f"The ban of {name} from {LEASE} was lifted",
    ]


# --- properties


NAMES = ["web-1", "web-2", "web-3", "web-4"]


PATHS = ["logs/live", "logs/bulk", "logs/live/1", "logs/live/1/2", "logs/bulk/1/0"]


COMMANDS = st.one_of(
    st.builds(
        PinLease, st.sampled_from([LEASE, "logs/live/1/3", "logs/bulk/1/1"]), st.sampled_from(NAMES), st.booleans()
    ),
    st.builds(UnpinLease, st.sampled_from([LEASE, "logs/live/1/3"])),
    st.builds(lambda name, path: BanMember(Ban(name, path)), st.sampled_from(NAMES), st.sampled_from(PATHS)),
    st.builds(lambda name, path: UnbanMember(Ban(name, path)), st.sampled_from(NAMES), st.sampled_from(PATHS)),
    st.builds(DrainMember, st.sampled_from(NAMES), st.booleans()),
    st.builds(FreezeGroup, st.booleans()),
    st.builds(SetCapacity, st.sampled_from(NAMES), st.sampled_from([0.5, 4.0, None])),
    st.sampled_from(NAMES),  # goes, or comes back
)


def forbidden(history: History, lease: str, id: str) -> bool:
    """Whether the rules keep a lease from a member; written anew, without masks."""
    rules, who = history.state.rules, history.state.members[id]
    names = {who.id, who.client_id}
    cluster = history.state.channels[lease.rpartition("/")[0]].cluster
    if names & rules.drains.keys() or any(ban.member in names and ban.covers(lease, cluster) for ban in rules.bans):
        return True
    pin = rules.pins.get(lease)
    return pin is not None and pin.strict and pin.member not in names


@settings(max_examples=examples(40))
@given(st.lists(COMMANDS, max_size=12), st.dictionaries(st.sampled_from([LEASE, "logs/bulk/1/2"]), st.floats(0.1, 2.0)))
def test_nobody_gets_what_rules_forbid_and_the_rest_is_held(
    asked: list[RuleCommand | str], costs: dict[str, float]
) -> None:
    history = joined(4, seen(partitions=5), seen("logs/bulk/1", partitions=3))
    for command in asked:
        if isinstance(command, str):
            present = {each.client_id: each.id for each in history.state.members.values()}
            if command not in present:
                history.do(JoinMember(hello(member(int(command[-1])), client_id=command), SPEC))
            elif len(present) > 1:
                history.do(RemoveMember(present[command], GoneReason.DISCONNECTED))
        else:
            try:
                history.do(command)
            except BraidError:
                continue
        for _ in range(3):
            before = history.state
            frozen = before.rules.freeze is not None
            for event in history.do(Balance(tuple(before.members), Loads(costs))):
                for grant in event.grants if isinstance(event, LeasesGranted) else ():
                    assert not forbidden(history, grant.lease, grant.member)
                assert not (frozen and isinstance(event, RevokesStarted))
            history.settle()
        for lease in (f"logs/live/1/{n}" for n in range(5)):
            found = history.state.leases[lease]
            could = [id for id in history.state.members if not forbidden(history, lease, id)]
            assert found.state is LeaseState.HELD or not could, (lease, found, history.state.rules)
    check_single_holder(history.events)


def _events() -> list[RuleEvent]:
    return [MemberDrainStarted("web-1"), MemberBanned("web-1", "logs"), CapacitySet("web-1", 1.0)]


@pytest.mark.parametrize("event", _events())
def test_rules_of_a_group_end_with_it(event: RuleEvent) -> None:
    history = joined(1)
    history.state = history.decider.evolve(history.state, event, context())
    assert history.state.rules != NO_RULES
    leave(history, "web-1")
    history.do(DeleteGroup())
    assert history.state.rules == NO_RULES
