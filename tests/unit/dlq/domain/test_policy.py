"""Pace, destinations, reasons to leave a letter out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from braid.kernel.errors import Invalid
from braid.kernel.limits.dlq import REPLAY_BATCH_LETTERS_MAX, REPLAYS_OF_ONE_RECORD_MAX, REPLAYS_SHOWN_MAX
from services.dlq.domain import policy
from services.dlq.domain.policy import (
    LetterState,
    TokenBucket,
    batch_letters,
    destination_of,
    lane_for,
    sent_by,
    state_of,
    why_skip,
)
from services.dlq.domain.replay import Replay, State
from services.dlq.model.events import Position, ReplaySpec
from services.dlq.model.letters import Cursor
from tests.unit.dlq.letters import letter

LANES = frozenset({"live", "bulk", "dlq"})


def test_where_a_job_sends() -> None:
    assert destination_of(ReplaySpec("logs")) == ("logs", "", True)
    assert destination_of(ReplaySpec("logs", destination="logs")) == ("logs", "", False)
    assert destination_of(ReplaySpec("logs", destination="other/bulk")) == ("other", "bulk", False)
    for destination in ("LOGS", "logs/", "/x", "logs/dlq", "a/b/c", "logs/B"):
        with pytest.raises(Invalid) as refused:
            destination_of(ReplaySpec("logs", destination=destination))
        assert refused.value.field == "spec.destination"


def test_which_lane_a_letter_goes_to() -> None:
    origin, other = destination_of(ReplaySpec("logs")), destination_of(ReplaySpec("logs", destination="other"))
    slow = letter(lane="slow")
    assert lane_for(letter(lane="bulk"), origin, LANES) == "bulk"
    assert lane_for(slow, origin, LANES) == ""
    assert lane_for(slow, other, LANES) == "live"
    assert lane_for(slow, other, frozenset({"a", "dlq"})) == ""
    assert lane_for(slow, destination_of(ReplaySpec("logs", destination="other/bulk")), LANES) == "bulk"
    assert lane_for(letter(lane="dlq"), origin, LANES) == ""


def test_what_is_left_out_and_why() -> None:
    spec = ReplaySpec("logs")
    assert why_skip(letter(), spec, "live") == ""
    assert why_skip(letter(replays=REPLAYS_OF_ONE_RECORD_MAX - 1), spec, "live") == ""
    assert why_skip(letter(replays=REPLAYS_OF_ONE_RECORD_MAX), spec, "live") == policy.REPLAYED_TOO_OFTEN
    assert why_skip(letter(quarantine="bomb"), spec, "live") == policy.QUARANTINED
    assert why_skip(letter(), spec, "") == policy.NO_LANE
    assert why_skip(letter(group=""), spec, "live") == policy.NO_GROUP
    assert why_skip(letter(group=""), ReplaySpec("logs", broadcast=True), "live") == ""
    assert why_skip(letter(group=""), ReplaySpec("logs", destination="logs"), "live") == ""


def test_jobs_that_sent_a_letter_are_told_newest_first() -> None:
    def job(id: str, filter: str = "", through: int = 100, cursor: int | None = 50) -> Replay:
        at = None if cursor is None else Cursor(1, 0, cursor)
        return Replay(id, ReplaySpec("logs", filter), through=(Position(1, 0, through),), cursor=at)

    jobs = [job("A"), job("B"), job("C", "lane=bulk"), job("D", through=7), job("E", cursor=None), job("F", cursor=6)]
    assert sent_by(letter(7), jobs) == ["B", "A"]
    assert sent_by(letter(7, quarantine="bomb"), jobs) == []
    assert sent_by(letter(7, stream="bills"), jobs) == []
    assert len(sent_by(letter(7), [job(str(n)) for n in range(20)])) == REPLAYS_SHOWN_MAX


def test_a_letter_s_state_follows_from_the_jobs_that_take_it() -> None:
    def job(cursor: int | None, state: State = State.RUNNING, filter: str = "", through: int = 100) -> Replay:
        at = None if cursor is None else Cursor(1, 0, cursor)
        return Replay("J", ReplaySpec("logs", filter), state, through=(Position(1, 0, through),), cursor=at)

    waiting, sent, paused = job(6), job(7), job(None, State.PAUSED)
    cancelled, done = job(6, State.CANCELLED), job(9, State.DONE)
    for jobs, state in (
        ([], LetterState.PARKED),
        ([waiting], LetterState.REPLAYING),
        ([paused], LetterState.REPLAYING),
        ([sent], LetterState.REPLAYED),
        ([done], LetterState.REPLAYED),
        ([cancelled], LetterState.PARKED),
        ([done, waiting], LetterState.REPLAYING),
        ([cancelled, done], LetterState.REPLAYED),
        ([job(6, filter="lane=bulk"), job(9, through=7)], LetterState.PARKED),
    ):
        assert state_of(letter(7), jobs) is state, jobs
    assert state_of(letter(7, replays=1), []) is LetterState.PARKED_AGAIN
    assert state_of(letter(7, replays=1), [done]) is LetterState.REPLAYED
    assert state_of(letter(7, quarantine="bomb"), [waiting]) is LetterState.PARKED
    assert state_of(letter(7, stream="bills"), [done]) is LetterState.PARKED


@pytest.mark.parametrize(("rate", "letters"), [(0, 500), (0.1, 1), (10, 5), (500, 250), (1e6, 500)])
def test_batches_are_small_enough_to_pause_soon(rate: float, letters: int) -> None:
    assert batch_letters(rate) == letters


@given(st.floats(1, 1e5), st.lists(st.floats(0, 3), max_size=60))
def test_a_bucket_keeps_its_rate_whatever_the_stalls(rate: float, stalls: list[float]) -> None:
    """Never above the cap plus two batches; without stalls, exactly at it."""
    batch = batch_letters(rate)
    now = sent = 0.0
    bucket = TokenBucket(rate, 2.0 * batch, at=now)
    for stall in stalls:
        now += bucket.wait_seconds(batch, now) + 1e-9
        bucket.take(batch, now)
        sent += batch
        assert sent <= rate * now + 2 * batch + 1
        now += stall
    steady = TokenBucket(rate, 2.0 * batch, at=0.0)
    at = 0.0
    for _ in range(20):
        at += steady.wait_seconds(batch, at)
        steady.take(batch, at)
    assert 20 * batch / at == pytest.approx(rate, rel=0.001)


@given(st.floats(1, 1e5), st.lists(st.tuples(st.floats(0, 3), st.floats(0, 3)), min_size=1, max_size=40))
def test_a_stretch_of_batches_exceeds_the_cap_by_at_most_three(rate: float, stalls: list[tuple[float, float]]) -> None:
    """A sender may stall between its turn and the sending, too: the batch that begins a stretch was paid for before."""
    batch, now = batch_letters(rate), 0.0
    bucket = TokenBucket(rate, 2.0 * batch, at=now)
    sent: list[float] = []
    for before, behind in stalls:
        now += bucket.wait_seconds(batch, now) + 1e-9
        bucket.take(batch, now)
        now += before
        sent.append(now)
        now += behind
    for first, begin in enumerate(sent):
        for last, end in enumerate(sent[first:], first):
            assert (last - first + 1) * batch <= rate * (end - begin) + 3 * batch + 1


def test_without_a_cap_nothing_waits() -> None:
    bucket = TokenBucket(0, 0, at=0.0)
    bucket.take(REPLAY_BATCH_LETTERS_MAX, 0.0)
    assert bucket.wait_seconds(REPLAY_BATCH_LETTERS_MAX, 0.0) == 0.0


@given(st.floats(1, 1e5), st.floats(0, 1e7))
def test_a_wait_that_was_waited_is_over(rate: float, at: float) -> None:
    """Rounding must not leave a wait so short that the clock cannot tell its end from its beginning."""
    batch = batch_letters(rate)
    bucket = TokenBucket(rate, 2.0 * batch, at=at)
    later = at + bucket.wait_seconds(batch, at)
    again = bucket.wait_seconds(batch, later)
    assert again == 0.0 or later + again > later
