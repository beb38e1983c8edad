"""A restart gives back what it took: a fleet restarted one by one moves each partition at most twice."""

import asyncio
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from braid.kernel.ids import LeaseId
from braid.kernel.limits.assigner.leases import HOME_SECONDS
from services.assigner.model.commands import (
    Balance,
    JoinMember,
    Loads,
    Release,
    ReleaseLeases,
    RemoveMember,
)
from services.assigner.model.events import (
    Event,
    GoneReason,
    LeasesGranted,
    RevokesStarted,
)
from services.assigner.model.leases.table import Leases
from services.assigner.model.rules import Ban, BanMember, FreezeGroup
from services.assigner.policy import homing
from services.assigner.policy.layout import Layout
from tests.support.examples import examples
from tests.support.virtual_time import run_virtual
from tests.unit.assigner.groups import SPEC, History, check_epochs, check_single_holder, hello, joined, member, seen
from tests.unit.assigner.mesh import Mesh, Participant

LEASE = "logs/live/1/0"
ROUNDS = 12
NAMES = st.sampled_from([f"web-{number}" for number in range(1, 7)])


def ids(history: History) -> dict[str, str]:
    """Ids by client id."""
    return {each.client_id: each.id for each in history.state.members.values()}


def grants(events: list[Event]) -> Counter[str]:
    """How often each lease was granted."""
    return Counter(grant.lease for event in events if isinstance(event, LeasesGranted) for grant in event.grants)


def stop(history: History, name: str, *, clean: bool) -> None:
    """A process ends: killed, or closing as the SDK does, one lease after the other while decisions go on."""
    id = ids(history)[name]
    if clean:
        for lease, held in sorted(history.state.held_by(id).items()):
            history.do(ReleaseLeases(id, (Release(lease, held.epoch),)))
            history.do(Balance(staying(history, id)))
    history.do(RemoveMember(id, GoneReason.LEFT if clean else GoneReason.DISCONNECTED))
    history.settle()


def staying(history: History, leaver: str) -> tuple[str, ...]:
    """Everybody but who said that it is leaving."""
    return tuple(id for id in history.state.members if id != leaver)


def start(history: History, name: str, process: int) -> None:
    """A process starts under a name."""
    history.do(JoinMember(hello(member(process), client_id=name), SPEC))
    history.settle()


def restart_all(history: History, *, clean: bool, seconds: float) -> Counter[str]:
    """Restarts the fleet one by one; returns how often each partition moved."""
    began = len(history.events)
    for process, name in enumerate(sorted(ids(history)), 100):
        history.now_ms += round(seconds * 1000)
        stop(history, name, clean=clean)
        history.now_ms += round(seconds * 1000)
        start(history, name, process)
    return grants(history.events[began:])


@settings(max_examples=examples(30))
@given(st.integers(2, 9), st.integers(1, 40), st.booleans(), st.sampled_from([1.0, 20.0, 200.0]))
def test_a_rolling_restart_moves_each_partition_at_most_twice(
    members: int, partitions: int, clean: bool, seconds: float
) -> None:
    history = joined(members, seen(partitions=partitions))
    before = {lease: history.state.members[id].client_id for lease, id in history.holders().items()}
    moved = restart_all(history, clean=clean, seconds=seconds)
    assert max(moved.values(), default=0) <= 2
    after = {lease: history.state.members[id].client_id for lease, id in history.holders().items()}
    assert after == before
    check_epochs(history.events)
    check_single_holder(history.events)


def test_a_closing_member_gets_nothing_and_others_keep_theirs() -> None:
    history = joined(3, seen(partitions=9))
    id = ids(history)["web-1"]
    lease, held = sorted(history.state.held_by(id).items())[0]
    history.do(ReleaseLeases(id, (Release(lease, held.epoch),)))
    made = history.do(Balance(staying(history, id)))
    assert [grant.lease for event in made if isinstance(event, LeasesGranted) for grant in event.grants] == [lease]
    assert history.state.leases[lease].holder != id
    assert not any(isinstance(event, RevokesStarted) for event in made)


def test_who_is_alone_is_given_back_what_it_gave() -> None:
    history = joined(1)
    held = history.state.leases[LEASE]
    history.do(ReleaseLeases(member(1), (Release(LEASE, held.epoch),)))
    history.settle()
    assert history.state.leases[LEASE].holder == member(1)


def test_a_home_is_forgotten_after_a_while() -> None:
    history = joined(3, seen(partitions=9))
    mine = set(history.state.held_by(ids(history)["web-3"]))
    stop(history, "web-3", clean=False)
    history.now_ms += round(HOME_SECONDS * 1000)
    start(history, "web-3", 100)
    assert len(history.state.held_by(member(100))) == 3
    assert set(history.state.held_by(member(100))) != mine


def test_a_return_says_why_and_keeps_to_rules_and_freezes() -> None:
    history = joined(3, seen(partitions=9))
    mine = sorted(history.state.held_by(ids(history)["web-3"]))
    stop(history, "web-3", clean=False)
    history.do(BanMember(Ban("web-3", mine[0]), absent=True), FreezeGroup(True))
    start(history, "web-3", 100)
    assert not history.state.held_by(member(100))
    history.do(FreezeGroup(False))
    made = history.do(Balance(tuple(history.state.members)))
    reasons = {event.reason for event in made if isinstance(event, RevokesStarted)}
    assert "web-3 is back, and held it before" in reasons
    history.settle()
    assert mine[0] not in history.state.held_by(member(100))
    assert set(mine[1:]) <= set(history.state.held_by(member(100)))


@pytest.mark.parametrize("clean", [False, True])
def test_a_rolling_restart_with_the_sdks_sessions(clean: bool) -> None:
    async def scenario() -> None:
        mesh = await Mesh().start(channels=[])
        mesh.channel("logs/live/1", 10)
        fleet = await mesh.joined(4)
        await mesh.host.clock.sleep(30)
        began = len(await mesh.events())
        for number, each in enumerate(fleet):
            if clean:
                await close(each)
            each.kill()
            await mesh.settled(3)
            await mesh.host.clock.sleep(3)
            Participant(mesh, f"web-{number + 1}")
            await mesh.settled(4)
            await mesh.host.clock.sleep(3)
        moved = grants((await mesh.events())[began:])
        assert sum(moved.values()) == 20
        assert set(moved.values()) == {2}

    run_virtual(scenario())


async def close(each: Participant) -> None:
    """Closes a member as the SDK's consumer does: it announces that, releases leases when done, then leaves the
    group."""

    async def give_back(lease: LeaseId, seconds: float) -> None:
        await each.process.host.clock.sleep(seconds)
        held = each.holds.pop(lease)
        await each.session.release(held.id, held.epoch)

    await each.session.leaving()
    await asyncio.gather(*(give_back(lease, 0.05 * at) for at, lease in enumerate(sorted(each.holds))))
    await each.session.leave("closed")


def come_to_rest(history: History, loads: Loads) -> None:
    """Decides, with every member giving back at once what is asked of it, until nothing is left to decide."""
    for _ in range(ROUNDS):
        if not history.do(Balance(tuple(history.state.members), loads)):
            return
        history.settle_revokes()
    raise AssertionError("it goes on and on")


def come_and_go(history: History, names: list[str], loads: Loads) -> None:
    """Each process named ends, or starts where none of its name runs; a leader that has not measured decides."""
    for process, name in enumerate(names, 100):
        history.now_ms += 2_000
        if name in ids(history):
            if len(ids(history)) > 1:
                history.do(RemoveMember(ids(history)[name], GoneReason.DISCONNECTED))
        else:
            history.do(JoinMember(hello(member(process), client_id=name), SPEC))
        come_to_rest(history, loads)


@settings(max_examples=examples(60))
@given(st.integers(2, 5), st.integers(1, 12), st.lists(NAMES, max_size=8), st.booleans(), st.data())
def test_whoever_comes_and_goes_all_is_still_afterwards(
    members: int, partitions: int, names: list[str], settled: bool, data: st.DataObject
) -> None:
    history = joined(members, seen(partitions=partitions))
    cost = st.sampled_from([0.0, 0.0, 0.1, 0.1, 1.0])
    come_and_go(history, names, Loads({lease: data.draw(cost) for lease in sorted(history.state.leases)}, settled))


def a_newcomer_stands_in() -> History:
    """Five partitions of four members; one of them joined lately, and holds one that was another's."""
    history = joined(4, seen("logs/bulk/1", 2), seen("logs/live/1", 3))
    holders = {"logs/bulk/1/0": 4, "logs/bulk/1/1": 2, LEASE: 3, "logs/live/1/1": 2, "logs/live/1/2": 1}
    leases = {name: replace(lease, holder=member(holders[name])) for name, lease in history.state.leases.items()}
    stood_in = replace(leases["logs/bulk/1/0"], home="web-1", home_since_ms=history.now_ms)
    history.state = replace(history.state, leases=Leases({**leases, "logs/bulk/1/0": stood_in}))
    return history


def greedy(placed: Layout, *, still: bool) -> Layout:
    """A mutant that returns former leases to a member below its share, even those that another member holds."""
    holders = placed.holders.copy()
    counts = Counter(holders.tolist())
    for at, home in enumerate(placed.homes.tolist()):
        if home >= 0 and counts[home] * len(placed.members) < len(holders) and not (still and holders[at] >= 0):
            counts[home] += 1
            holders[at] = home
    return replace(placed, holders=holders)


def test_a_newcomer_is_not_asked_back_what_it_was_just_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader that has not measured gives newcomers something, and would ask for it and give it again for ever."""
    history = a_newcomer_stands_in()
    holders = history.holders()
    come_to_rest(history, Loads(settled=False))
    assert history.holders() == holders
    monkeypatch.setattr(homing, "homeward", greedy)
    with pytest.raises(AssertionError, match="on and on"):
        come_to_rest(a_newcomer_stands_in(), Loads(settled=False))
