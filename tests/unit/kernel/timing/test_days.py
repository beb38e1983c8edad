"""Days as clocks count them."""

from braid.kernel.timing.days import DAY_MS, DAY_SECONDS, days_until


def test_days_until_an_end_are_negative_after_it() -> None:
    now = 1_767_225_600.0
    assert days_until(now + 1.5 * DAY_SECONDS, now) == 1.5
    assert days_until(now - DAY_MS / 1_000, now) == -1.0
