"""Time that a service was led: counted once, kept over leaders and snapshots; and whose clock is far from most."""

import pytest

from braid.api.mesh.v1 import clock_pb2 as pb
from braid.kernel.decider import Context
from braid.kernel.errors import CorruptHistory
from braid.kernel.limits.runtime import CLOCKS_APART_SECONDS, LED_GAP_SECONDS, WAITS_PER_EVENT_MAX
from braid.runtime.clocks.led_time import (
    ClockDecider,
    ClockOffset,
    ClocksCompared,
    ClockState,
    Command,
    CountTime,
    Event,
    KeepWaits,
    LedTime,
    TellClocks,
    TimeCounted,
    WaitsChanged,
    apart,
)
from braid.runtime.clocks.led_time_codec import CLOCK, ClockCodec

CONTEXT = Context(1_722_500_000_123, "registry-0", leader_epoch=7)
DECIDER, CODEC = ClockDecider(), ClockCodec()
DAY_MS = 86_400_000.0


def run(state: ClockState, *commands: Command) -> tuple[ClockState, list[Event]]:
    made: list[Event] = []
    for command in commands:
        for event in DECIDER.decide(state, command, CONTEXT):
            state = DECIDER.evolve(state, CODEC.decode(CODEC.encode(event, CONTEXT))[0], CONTEXT)
            made.append(event)
    return state, made


def test_a_wait_counts_from_its_start_and_its_name_is_reusable() -> None:
    state, made = run(ClockState(), KeepWaits(1_000, {"a": 5, "b": 6}), KeepWaits(2_000, {"a": 5, "b": 6}))
    assert made == [WaitsChanged(1_000, (("a", 5), ("b", 6)))]
    assert state.waited_ms("a", 5, 4_000) == 3_000
    assert state.waited_ms("a", 4, 4_000) == state.waited_ms("c", 5, 4_000) == 0
    assert state.waited_ms("a", 5, 10) == 0, "a new leader knows of less time than was counted"
    state, made = run(state, KeepWaits(3_000, {"a": 9}))
    assert made == [WaitsChanged(3_000, (("a", 9),), ("b",))]
    assert (state.waited_ms("a", 9, 4_000), state.waited_ms("b", 6, 4_000), state.led_ms) == (1_000, 0, 3_000)


def test_thousands_of_waits_are_told_some_at_a_time() -> None:
    many = {f"w{number:05}": 1 for number in range(2 * WAITS_PER_EVENT_MAX + 1)}
    state, made = run(ClockState(), KeepWaits(1, many))
    assert len(made) == 3 and state.waits.keys() == many.keys()
    assert run(state, KeepWaits(2, {}))[0].waits == {}


def test_a_count_only_grows_and_a_repeated_report_is_ignored() -> None:
    state, made = run(
        ClockState(), CountTime(9), CountTime(9), CountTime(4), TellClocks({"x": 70_000}), TellClocks({"x": 1})
    )
    assert made == [TimeCounted(9), ClocksCompared((("x", 70_000),))]
    assert run(state, TellClocks({}))[0].apart == {}
    assert CODEC.decode_state(CODEC.encode_state(state)) == state


def test_what_is_no_event_and_no_state_is_refused() -> None:
    for data in (b"\xff\xff", b"", pb.ClockEvent().SerializeToString()):
        with pytest.raises(CorruptHistory):
            CODEC.decode(data)
    for data in (b"", b"[]", b'{"led_ms": 1}', b'{"led_ms":1,"waits":{"a":1},"apart":{}}'):
        with pytest.raises(CorruptHistory):
            CODEC.decode_state(data)
    assert CLOCK.name == "clock"


def test_led_time_ignores_long_gaps_and_clocks_that_go_back() -> None:
    led = LedTime(10_000, 100.0)
    assert led.look(101.0) == 11_000
    assert led.look(101.0 + 8 * 86_400) == 11_000 + LED_GAP_SECONDS * 1_000
    assert led.look(50.0) == led.look(60.0) == 11_000 + LED_GAP_SECONDS * 1_000


def test_clocks_are_judged_by_the_median_and_within_their_doubts() -> None:
    far = 8 * DAY_MS
    assert apart({}) == apart({"a": ClockOffset(0.0)}) == {}
    assert apart({"a": ClockOffset(0.0), "b": ClockOffset(far), "c": ClockOffset(0.0)}) == {"b": round(far)}
    assert apart({"a": ClockOffset(0.0), "b": ClockOffset(-far), "c": ClockOffset(-far)}) == {"a": round(far)}, (
        "it is mine"
    )
    assert apart({"a": ClockOffset(0.0), "b": ClockOffset(far)}) == {"b": round(far)}
    bound = CLOCKS_APART_SECONDS * 1_000
    assert apart({"a": ClockOffset(0.0), "b": ClockOffset(bound), "c": ClockOffset(-bound)}) == {}
    assert apart({"a": ClockOffset(0.0), "b": ClockOffset(bound + 50, 60.0)}) == {}
    assert apart({"a": ClockOffset(0.0), "b": ClockOffset(bound + 50, 40.0)}).keys() == {"b"}
