"""The timing wheel agrees with a sorted list of due times."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from braid.kernel.errors import Exhausted, Invalid
from braid.kernel.timing.timer_wheel import TimerWheel


def test_keys_come_due_in_order_and_once() -> None:
    wheel: TimerWheel[str] = TimerWheel(1_000)
    for key, due_ms in (("c", 1_500), ("a", 1_200), ("b", 1_200), ("late", 999), ("far", 9_000_000)):
        wheel.schedule(key, due_ms)
    assert wheel.next_due_ms() == 999
    assert wheel.advance(1_000) == ["late"]
    assert wheel.advance(1_199) == []
    assert wheel.next_due_ms() == 1_200
    assert wheel.advance(1_500) == ["a", "b", "c"]
    assert wheel.advance(1_500) == []
    assert (len(wheel), wheel.next_due_ms()) == (1, 9_000_000)
    assert wheel.advance(8_999_999) == []
    assert wheel.advance(9_000_000) == ["far"]
    assert wheel.next_due_ms() is None


def test_time_never_turns_back() -> None:
    wheel: TimerWheel[int] = TimerWheel(500)
    wheel.schedule(1, 510)
    assert wheel.advance(100) == []
    assert wheel.advance(510) == [1]


def test_scheduling_again_moves_and_cancelling_forgets() -> None:
    wheel: TimerWheel[int] = TimerWheel(0)
    wheel.schedule(1, 10)
    wheel.schedule(1, 30)
    wheel.schedule(2, 20)
    assert wheel.cancel(2)
    assert not wheel.cancel(2)
    assert (1 in wheel, 2 in wheel) == (True, False)
    assert wheel.advance(20) == []
    assert wheel.advance(30) == [1]


def test_a_full_wheel_refuses_new_keys_but_moves_old_ones() -> None:
    wheel: TimerWheel[int] = TimerWheel(0, timers_max=2)
    wheel.schedule(1, 10)
    wheel.schedule(2, 10)
    with pytest.raises(Exhausted):
        wheel.schedule(3, 10)
    wheel.schedule(1, 20)
    assert wheel.advance(100) == [2, 1]


@pytest.mark.parametrize(("tick_ms", "timers_max"), [(0, 1), (1, 0)])
def test_nonsense_is_refused(tick_ms: int, timers_max: int) -> None:
    with pytest.raises(Invalid):
        TimerWheel(0, tick_ms=tick_ms, timers_max=timers_max)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("schedule"), st.integers(0, 9), st.integers(-50, 20_000)),
        st.tuples(st.just("cancel"), st.integers(0, 9), st.just(0)),
        st.tuples(st.just("advance"), st.just(0), st.integers(-10, 9_000)),
    ),
    max_size=40,
)


@given(STEPS, st.integers(-100, 10_000), st.sampled_from([1, 7, 10]))
def test_agrees_with_a_sorted_list(steps: list[tuple[str, int, int]], start_ms: int, tick_ms: int) -> None:
    wheel: TimerWheel[int] = TimerWheel(start_ms, tick_ms=tick_ms)
    model: dict[int, tuple[int, int]] = {}
    now_ms = start_ms
    for order, (step, key, amount) in enumerate(steps):
        if step == "schedule":
            wheel.schedule(key, now_ms + amount)
            model[key] = (now_ms + amount, order)
        elif step == "cancel":
            assert wheel.cancel(key) == (model.pop(key, None) is not None)
        else:
            now_ms = max(now_ms, now_ms + amount)
            due = sorted((timer, key) for key, timer in model.items() if timer[0] <= now_ms)
            assert wheel.advance(now_ms) == [key for _, key in due]
            for _, key in due:
                del model[key]
        assert len(wheel) == len(model)
        assert wheel.next_due_ms() == min((due_ms for due_ms, _ in model.values()), default=None)
