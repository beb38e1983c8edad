"""Deadlines of members and revokes in one term: where they come from, what moves them, who must wait."""

from collections.abc import Sequence

from braid.kernel.limits.assigner.leases import CLOCK_RATE_SLACK, DEADLINE_BEAT_SECONDS, REVOKE_DEADLINE_SECONDS
from services.assigner.liveness.member_deadlines import MemberDeadlines, RevokeKey
from services.assigner.liveness.member_streams import MemberKey
from services.assigner.model.commands import Balance, JoinMember
from services.assigner.model.events import GoneReason, MemberGone, RevokesStarted
from tests.unit.assigner.groups import SPEC, History, hello, joined, member

FIRST, SECOND = MemberKey("indexer", member(1)), MemberKey("indexer", member(2))
SLACK = 1 + CLOCK_RATE_SLACK
LEASE_SECONDS = SPEC.lease_ms / 1_000 * SLACK
ELECTED_AT = 100.0


def with_a_revoke() -> tuple[History, RevokesStarted]:
    """The first member holds everything, and is asked for half of it when the second one joins."""
    history = joined(1)
    history.do(JoinMember(hello(SECOND.member), SPEC), Balance((FIRST.member, SECOND.member)))
    (revoke,) = [event for event in history.events if isinstance(event, RevokesStarted)]
    return history, revoke


def keys(revoke: RevokesStarted) -> Sequence[RevokeKey]:
    return [RevokeKey("indexer", each.lease, each.epoch) for each in revoke.leases]


def seconds_until_missed(deadlines: MemberDeadlines, key: object, most: float = 60.0) -> float | None:
    """Looks at every beat from the election on; returns after how long the key is missed, if it is."""
    for beat in range(1, round(most / DEADLINE_BEAT_SECONDS)):
        now = ELECTED_AT + beat * DEADLINE_BEAT_SECONDS
        if key in [*deadlines.missed_members(now), *deadlines.missed_revokes(now)]:
            return now - ELECTED_AT
    return None


def about(seconds: float) -> tuple[float, float]:
    """From a deadline to the second look after it."""
    return seconds, seconds + 2.1 * DEADLINE_BEAT_SECONDS


def missed_about(deadlines: MemberDeadlines, key: object, seconds: float) -> bool:
    found = seconds_until_missed(deadlines, key)
    least, most = about(seconds)
    return found is not None and least <= found <= most


def test_a_new_term_gives_members_their_lease_time_or_the_least() -> None:
    state = joined(1).state
    for least, expected in ((1.0, LEASE_SECONDS), (20.0, 20.0 * SLACK)):
        deadlines = MemberDeadlines(ELECTED_AT)
        deadlines.take_over(state, ELECTED_AT, 0, least)
        assert missed_about(deadlines, FIRST, expected)


def test_a_new_term_gives_revokes_the_rest_of_their_time() -> None:
    history, revoke = with_a_revoke()
    for left, expected in ((25.0, 25.0), (1_000.0, REVOKE_DEADLINE_SECONDS), (-5.0, LEASE_SECONDS)):
        deadlines = MemberDeadlines(ELECTED_AT)
        deadlines.take_over(history.state, ELECTED_AT, revoke.deadline_ms - round(left * 1_000), 1.0)
        assert missed_about(deadlines, keys(revoke)[0], expected), left


def test_a_sign_of_life_counts_with_the_slack_of_two_clocks() -> None:
    deadlines = MemberDeadlines(ELECTED_AT)
    deadlines.heard(FIRST, ELECTED_AT, 5.0)
    assert missed_about(deadlines, FIRST, 5.0 * SLACK)


def test_only_members_of_the_history_are_expected() -> None:
    state, deadlines = joined(1).state, MemberDeadlines(ELECTED_AT)
    deadlines.expect(state, FIRST.member, ELECTED_AT)
    deadlines.expect(state, SECOND.member, ELECTED_AT)
    assert seconds_until_missed(deadlines, SECOND) is None
    deadlines = MemberDeadlines(ELECTED_AT)
    deadlines.expect(state, FIRST.member, ELECTED_AT)
    assert missed_about(deadlines, FIRST, LEASE_SECONDS)


def test_a_revoke_counts_from_its_event_until_the_lease_is_back() -> None:
    history, revoke = with_a_revoke()
    deadlines = MemberDeadlines(ELECTED_AT)
    deadlines.follow(history.state, revoke, ELECTED_AT)
    assert missed_about(deadlines, keys(revoke)[0], REVOKE_DEADLINE_SECONDS)

    deadlines = MemberDeadlines(ELECTED_AT)
    deadlines.follow(history.state, revoke, ELECTED_AT)
    before = len(history.events)
    assert history.settle_revokes()
    for event in history.events[before:]:
        deadlines.follow(history.state, event, ELECTED_AT + 1)
    assert all(seconds_until_missed(deadlines, key) is None for key in keys(revoke))


def test_a_gone_member_has_no_deadline_and_may_join_again() -> None:
    history, deadlines = joined(1), MemberDeadlines(ELECTED_AT)
    deadlines.take_over(history.state, ELECTED_AT, 0, 1.0)
    deadlines.expel(FIRST)
    assert deadlines.expelled(FIRST) and not deadlines.expelled(SECOND)
    deadlines.follow(history.state, MemberGone(FIRST.member, GoneReason.EXPIRED), ELECTED_AT)
    assert not deadlines.expelled(FIRST)
    assert seconds_until_missed(deadlines, FIRST) is None


def test_a_group_that_waited_for_its_turn_keeps_what_is_known() -> None:
    """Its member was heard and asked for a lease by then: neither a later nor an earlier deadline takes their place."""
    history, revoke = with_a_revoke()
    deadlines = MemberDeadlines(ELECTED_AT)
    deadlines.heard(FIRST, ELECTED_AT, 5.0)
    deadlines.follow(history.state, revoke, ELECTED_AT)
    deadlines.take_over(history.state, ELECTED_AT, revoke.deadline_ms, 45.0)
    assert missed_about(deadlines, FIRST, 5.0 * SLACK)
    deadlines = MemberDeadlines(ELECTED_AT)
    deadlines.follow(history.state, revoke, ELECTED_AT)
    deadlines.take_over(history.state, ELECTED_AT, revoke.deadline_ms, 45.0)
    assert missed_about(deadlines, keys(revoke)[0], REVOKE_DEADLINE_SECONDS)


def test_other_histories_leave_only_deadlines_of_the_expelled() -> None:
    history, revoke = with_a_revoke()
    deadlines = MemberDeadlines(ELECTED_AT)
    for each in (FIRST, SECOND):
        deadlines.heard(each, ELECTED_AT, 5.0)
    deadlines.follow(history.state, revoke, ELECTED_AT)
    deadlines.expel(SECOND)
    deadlines.begin_anew()
    missed = [missed_about(deadlines, SECOND, 5.0 * SLACK)]
    assert missed == [True] and deadlines.expelled(SECOND), "else it could never join again"
    assert seconds_until_missed(deadlines, FIRST) is None
    assert seconds_until_missed(deadlines, keys(revoke)[0]) is None
