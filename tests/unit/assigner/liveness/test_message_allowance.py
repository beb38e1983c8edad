"""How many messages a stream may carry: bursts of a pause pass, floods end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from braid.kernel.errors import Exhausted
from braid.kernel.limits.assigner.leases import (
    HEARTBEAT_MESSAGES_AT_ONCE,
    HEARTBEAT_MESSAGES_PER_SECOND,
    HEARTBEATS_PER_LEASE,
    LEASE_MS_MIN,
)
from braid.kernel.limits.rpc import KEEPALIVE_INTERVAL_SECONDS, KEEPALIVE_TIMEOUT_SECONDS
from services.assigner.liveness.message_allowance import Allowance


def taken(allowance: Allowance, count: int, now: float) -> int:
    """How many of so many messages at one moment are allowed."""
    for number in range(count):
        try:
            allowance.take(now)
        except Exhausted:
            return number
    return count


def test_so_many_at_once_then_so_many_a_second() -> None:
    allowance = Allowance(100.0, at_once=10, per_second=4)
    assert taken(allowance, 50, 100.0) == 10
    assert taken(allowance, 50, 100.5) == 2
    assert taken(allowance, 50, 1_000.0) == 10, "no more gathers than may come at once"


def test_what_is_refused_is_named() -> None:
    with pytest.raises(Exhausted) as refused:
        Allowance(0.0, at_once=0, per_second=5).take(0.0)
    assert refused.value.field == "heartbeat"
    assert "5 messages" in refused.value.message


@given(st.lists(st.floats(0.0, 30.0), max_size=60))
def test_no_stretch_of_time_has_more_than_is_allowed(gaps: list[float]) -> None:
    allowance, now, count = Allowance(0.0, at_once=7, per_second=2), 0.0, 0
    for gap in gaps:
        now += gap
        count += taken(allowance, 20, now)
        assert count <= 7 + 2 * now + 1e-6


def test_the_fastest_member_stays_below_the_limits_after_a_cut() -> None:
    per_second = 1_000 / (LEASE_MS_MIN / HEARTBEATS_PER_LEASE)
    assert 3 * per_second < HEARTBEAT_MESSAGES_PER_SECOND
    held_back = per_second * (KEEPALIVE_INTERVAL_SECONDS + KEEPALIVE_TIMEOUT_SECONDS)
    assert 3 * held_back < HEARTBEAT_MESSAGES_AT_ONCE
