"""The rules of a replay: what is told twice, told late, told by a ghost; and that its history only moves forward."""

from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from braid.kernel.decider import Context
from braid.kernel.errors import AlreadyExists, BraidError, Conflict, Invalid, NotFound, Refused
from services.dlq.codec.events import ReplayCodec
from services.dlq.domain.replay import Replay, ReplayDecider, State
from services.dlq.model.events import (
    Advance,
    BeginBatch,
    CancelReplay,
    Command,
    CreateReplay,
    Event,
    FailReplay,
    FinishReplay,
    PauseReplay,
    Position,
    ReplayPaused,
    ReplaySpec,
    ResumeReplay,
    Skips,
)
from services.dlq.model.letters import Cursor
from tests.support.examples import examples

DECIDER = ReplayDecider()
CREATE = CreateReplay(ReplaySpec("logs"), 30, [Position(1, 0, 30)])


def context(now_ms: int = 1_000) -> Context:
    return Context(now_ms, "web", "default", "r-1")


def told(*commands: Command, state: Replay | None = None) -> Replay:
    """The state after commands."""
    now = state or DECIDER.initial("J1")
    for command in commands:
        for event in DECIDER.decide(now, command, context()):
            now = DECIDER.evolve(now, event, context())
    return now


def end(offset: int) -> Cursor:
    return Cursor(1, 0, offset)


def test_a_job_goes_its_way() -> None:
    begun = told(CREATE, BeginBatch(end(9), 10))
    assert (begun.open, begun.cursor, begun.sent) is not None
    done = told(Advance(8, 0, [Skips("too large", 2)]), BeginBatch(end(29), 20), Advance(20, 3, []), state=begun)
    assert (done.cursor, done.sent, done.skipped_letters, done.repeated) == (end(29), 28, 2, 3)
    finished = told(FinishReplay(), state=done)
    assert (finished.state, finished.ended_at_ms, finished.matched) == (State.DONE, 1_000, 30)
    assert (finished.tenant, finished.request_id) == ("default", "r-1")


def test_a_batch_killed_midway_is_resent_and_counts_as_repeated() -> None:
    killed = told(CREATE, BeginBatch(end(9), 10))
    again = told(BeginBatch(end(9), 10), Advance(10, 0, []), state=killed)
    assert (again.sent, again.repeated, again.open) == (10, 10, None)
    after = told(BeginBatch(end(19), 10), Advance(10, 0, []), state=again)
    assert (after.sent, after.repeated) == (20, 10)


def test_a_batch_that_is_open_cannot_be_replaced_by_another() -> None:
    with pytest.raises(Conflict):
        told(CREATE, BeginBatch(end(9), 10), BeginBatch(end(19), 20))
    with pytest.raises(Conflict):
        told(CREATE, BeginBatch(end(9), 10), BeginBatch(end(9), 11))


def test_a_result_told_twice_or_without_a_batch_changes_nothing() -> None:
    with pytest.raises(Conflict):
        told(CREATE, Advance(10, 0, []))
    with pytest.raises(Conflict):
        told(CREATE, BeginBatch(end(9), 10), Advance(10, 0, []), Advance(10, 0, []))


def test_counts_must_add_up() -> None:
    with pytest.raises(Invalid):
        told(CREATE, BeginBatch(end(9), 10), Advance(9, 0, []))


def test_a_cursor_never_goes_back() -> None:
    with pytest.raises(Invalid):
        told(CREATE, BeginBatch(end(9), 10), Advance(10, 0, []), BeginBatch(end(9), 1))


def test_pause_and_resume_are_told_twice() -> None:
    paused = told(CREATE, PauseReplay(), PauseReplay())
    assert paused.state is State.PAUSED
    with pytest.raises(Refused, match="paused"):
        told(BeginBatch(end(9), 10), state=paused)
    assert told(ResumeReplay(), ResumeReplay(), state=paused).state is State.RUNNING


@pytest.mark.parametrize("order", [PauseReplay(), CancelReplay()])
def test_a_batch_under_way_ends_after_the_order_came(order: Command) -> None:
    state = told(CREATE, BeginBatch(end(9), 10), order, Advance(10, 0, []))
    assert (state.sent, state.cursor, state.open) == (10, end(9), None)
    with pytest.raises(Refused):
        told(BeginBatch(end(19), 10), state=state)


@pytest.mark.parametrize("last", [FinishReplay(), FailReplay("the stream is gone"), CancelReplay()])
def test_what_is_over_stays_over(last: Command) -> None:
    over = told(CREATE, last)
    assert over.ended
    for command in (PauseReplay(), ResumeReplay(), FinishReplay(), FailReplay("x"), BeginBatch(end(9), 1)):
        with pytest.raises(Refused, match=over.state.name.lower()):
            told(command, state=over)
    if last != CancelReplay():
        with pytest.raises(Refused):
            told(CancelReplay(), state=over)


def test_a_job_is_not_finished_while_a_batch_is_open() -> None:
    with pytest.raises(Conflict):
        told(CREATE, BeginBatch(end(9), 10), FinishReplay())


def test_an_uncreated_job_is_absent_and_none_is_created_twice() -> None:
    with pytest.raises(NotFound):
        told(PauseReplay())
    with pytest.raises(AlreadyExists):
        told(CREATE, CREATE)
    for rate in (-1.0, float("nan"), float("inf")):
        with pytest.raises(Invalid) as refused:
            told(replace(CREATE, spec=ReplaySpec("logs", rate_per_s=rate)))
        assert refused.value.field == "spec.rate_per_s"


class Histories(RuleBasedStateMachine):
    """Any commands in any order: every prefix folds from bytes, the cursor moves forward, numbers add up."""

    def __init__(self) -> None:
        super().__init__()
        self.state = told(CREATE)
        self.codec = ReplayCodec()
        self.batches: dict[Cursor, int] = {}

    def tell(self, command: Command) -> None:
        before = self.state
        try:
            events = DECIDER.decide(before, command, context())
        except BraidError:
            return
        for event in events:
            decoded: tuple[Event, Context] = self.codec.decode(self.codec.encode(event, context()))
            self.state = DECIDER.evolve(self.state, *decoded)
        assert before.cursor is None or (self.state.cursor is not None and self.state.cursor >= before.cursor)
        assert self.state.sent >= before.sent
        if before.ended:
            assert self.state.state is before.state

    @rule(offset=st.integers(0, 40), letters=st.integers(1, 10))
    def begin(self, offset: int, letters: int) -> None:
        self.tell(BeginBatch(end(offset), letters))

    @rule()
    @precondition(lambda self: self.state.open is not None)
    def begin_again(self) -> None:
        assert self.state.open is not None
        self.tell(BeginBatch(self.state.open.end, self.state.open.letters))

    @rule(skipped=st.integers(0, 10), again=st.integers(0, 10))
    @precondition(lambda self: self.state.open is not None)
    def advance(self, skipped: int, again: int) -> None:
        assert self.state.open is not None
        left_out = min(skipped, self.state.open.letters)
        self.batches[self.state.open.end] = self.state.open.letters
        self.tell(Advance(self.state.open.letters - left_out, again, [Skips("s", left_out)] if left_out else []))

    @rule(command=st.sampled_from([PauseReplay(), ResumeReplay(), ResumeReplay(), Advance(1, 0, [])]))
    def order(self, command: Command) -> None:
        if not isinstance(command, Advance):
            self.tell(command)

    @rule(command=st.sampled_from([CancelReplay(), FinishReplay(), FailReplay("x")]))
    @precondition(lambda self: self.state.sent > 15)
    def end(self, command: Command) -> None:
        self.tell(command)

    @invariant()
    def adds_up(self) -> None:
        state = self.state
        assert state.repeated <= state.sent
        assert state.sent + state.skipped_letters == sum(self.batches.values())
        assert self.codec.decode_state(self.codec.encode_state(state)) == state


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=examples(60), stateful_step_count=30)


def test_an_event_of_the_wrong_order_still_folds() -> None:
    assert DECIDER.evolve(Replay("J"), ReplayPaused(), context()).state is State.PAUSED
