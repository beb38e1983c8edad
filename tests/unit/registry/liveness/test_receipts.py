"""Offsets that no log can have reached are refused; every other one is accepted."""

import pytest

from braid.kernel.errors import Invalid
from braid.kernel.limits.registry.resources import LOG_AGE_SLACK_SECONDS, LOG_RECORDS_PER_S_MAX, OFFSET_MAX
from services.registry.liveness.receipts import check_offsets, offset_bound

YEAR = 366 * 86_400.0


def test_an_offset_of_two_to_the_62nd_is_refused_at_any_age() -> None:
    for age_seconds in (0.0, 1.0, YEAR, 100 * YEAR):
        with pytest.raises(Invalid) as refused:
            check_offsets([3, 1 << 62, 5], age_seconds, "logs/live/1", "channel_left.next_offsets")
    assert refused.value.field == "channel_left.next_offsets"
    assert "logs/live/1" in refused.value.message and str(1 << 62) in refused.value.message and refused.value.remedy


def test_offsets_are_believed_up_to_the_fastest_log_of_that_age() -> None:
    bound = offset_bound(1_000.0)
    assert bound == int((1_000.0 + LOG_AGE_SLACK_SECONDS) * LOG_RECORDS_PER_S_MAX)
    check_offsets([bound], 1_000.0, "c", "f")
    check_offsets([], 1_000.0, "c", "f")
    with pytest.raises(Invalid):
        check_offsets([bound + 1], 1_000.0, "c", "f")


def test_a_clock_that_went_back_leaves_the_slack() -> None:
    assert offset_bound(-YEAR) == offset_bound(0.0) > 10**12


def test_no_age_lets_sums_of_offsets_come_near_63_bits() -> None:
    assert offset_bound(10_000 * YEAR) == OFFSET_MAX
