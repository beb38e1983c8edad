"""Checkers of leases turn red over the smallest journal with two holders, a silent grant or a restless lease."""

from braid.kernel.ports import HistoryId
from testbed.checkers import check, facts
from testbed.checkers.facts import Fact
from testbed.checkers.holders import ExclusiveHolders
from testbed.checkers.leases import NothingMoves, OneGrant, OneHolder, RecordedGrants, Restful

LOG = facts.LogId("east", "braid.logs.live.1", 0)
TOPIC = facts.Topic("east", "braid.logs.live.1")
HISTORY = HistoryId("assigner", "group", "g")


def test_overlapping_holders_are_seen_unless_one_was_frozen() -> None:
    def begin(process: str) -> Fact:
        return facts.HandlerStarted("g", process, LOG, 1)

    assert check([ExclusiveHolders("g")], [begin("a"), begin("b")])
    assert not check([ExclusiveHolders("h")], [begin("a"), begin("b")])
    for between in (facts.HandlerEnded("a", 1), facts.Killed("a"), facts.Paused("a")):
        assert not check([ExclusiveHolders("g")], [begin("a"), between, begin("b")])


def granted(member: str, epoch: int, at_ms: int = 0) -> Fact:
    return facts.LeaseGranted("g", "l", member, epoch, at_ms)


def told(process: str, epoch: int, member: str = "m") -> Fact:
    return facts.LeaseTold(process, "g", "l", member, epoch)


def test_a_lease_granted_while_it_is_anothers_is_seen() -> None:
    freed = facts.LeaseFreed("g", "l", 1)
    assert check([OneGrant()], [granted("m", 1), granted("n", 2)])
    assert check([OneGrant()], [granted("m", 1), freed, granted("m", 2), freed, granted("n", 3)])
    assert not check([OneGrant()], [granted("m", 1), freed, granted("n", 2)])


def test_two_holders_of_a_lease_are_seen_unless_one_was_unaware() -> None:
    assert check([OneHolder()], [told("a", 1), told("b", 2)])
    assert check([OneHolder()], [told("a", 1), facts.LeaseDropped("a", "g", "l", 0), told("b", 2)])
    assert check([OneHolder()], [facts.CutOff("a"), told("a", 1), told("b", 2)])
    for between in (facts.LeaseDropped("a", "g", "l", 1), facts.Killed("a"), facts.Paused("a"), facts.CutOff("a")):
        assert not check([OneHolder()], [told("a", 1), between, told("b", 2)])
    assert check([OneHolder()], [told("a", 2), facts.Paused("a"), told("b", 2)])


def test_a_lease_told_of_before_its_event_is_seen() -> None:
    assert not check([RecordedGrants()], [granted("m", 1), told("a", 1)])
    assert check([RecordedGrants()], [told("a", 1), granted("m", 1)])
    for other in (granted("n", 1), granted("m", 2)):
        assert check([RecordedGrants()], [other, told("a", 1)])


def test_leases_that_move_while_a_group_is_steady_are_seen() -> None:
    steady, not_steady, elsewhere = facts.Steady("g", True), facts.Steady("g", False), facts.Steady("h", True)
    for moved in (granted("m", 1), facts.LeaseFreed("g", "l", 1), facts.LeaseDropped("a", "g", "l", 1)):
        assert check([NothingMoves()], [steady, moved])
        assert not check([NothingMoves()], [steady, not_steady, elsewhere, moved])


def test_a_lease_that_goes_to_and_fro_is_seen() -> None:
    assert check([Restful()], [granted("mn"[n % 2], n, 10 * n) for n in range(1, 20)])
    assert not check([Restful()], [granted("mn"[n % 2], n, 1_000 * n) for n in range(1, 20)])
    assert not check([Restful()], [facts.LeaseGranted("g", f"l{n % 4}", "m", n, 10 * n) for n in range(1, 40)])


def test_a_leaders_clock_put_back_makes_no_lease_look_restless() -> None:
    slow = [granted("mn"[n % 2], n, 100_000 + 1_000 * n) for n in range(1, 12)]
    assert not check([Restful()], [*slow, granted("m", 12, 20_000), granted("n", 13, 21_000)])
    fast = [granted("mn"[n % 2], n, 20_000 + 10 * n) for n in range(12, 26)]
    assert check([Restful()], [*slow, *fast]), "what is told by the clock after its step still counts"
