"""The clock that stands while its process is late."""

from hypothesis import given
from hypothesis import strategies as st

from braid.kernel.limits.registry.health import LATENESS_PULSE_SECONDS, LATENESS_SLACK_SECONDS
from services.registry.liveness.own_lateness import Lateness


def test_a_process_in_time_is_never_late() -> None:
    lateness = Lateness(100.0)
    for tick in range(1, 50):
        lateness.tick(100.0 + tick * 0.1)
    assert lateness.seconds(104.95) == 0.0 and lateness.attentive(104.95) == 104.95


def test_a_stall_does_not_count_before_its_tick_nor_after() -> None:
    lateness = Lateness(0.0)
    lateness.tick(0.1)
    stalled = 5.0 - 0.2 - LATENESS_SLACK_SECONDS
    assert abs(lateness.seconds(5.0) - stalled) < 1e-9
    lateness.tick(5.0)
    assert abs(lateness.attentive(5.05) - (5.05 - stalled)) < 1e-9


@given(st.lists(st.floats(0.0, 3.0), max_size=50), st.integers(0, 5))
def test_time_never_goes_back_and_never_runs_ahead(waits: list[float], late_ticks: int) -> None:
    lateness, now, before = Lateness(0.0), 0.0, 0.0
    for number, wait in enumerate(waits):
        now += wait
        if number % (late_ticks + 1) == 0:
            lateness.tick(now)
        seen = lateness.attentive(now)
        assert before <= seen + 1e-9 and seen <= now
        assert seen - before <= max(wait, LATENESS_PULSE_SECONDS + LATENESS_SLACK_SECONDS) + 1e-9
        before = seen
