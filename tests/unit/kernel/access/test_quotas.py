"""Quotas: what is one too many, what a refusal says, and how a door polices the rate of calls."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from braid.kernel.access.quotas import TenantDoor, check_quota, retry_seconds
from braid.kernel.access.tenants import Quotas
from braid.kernel.errors import Exhausted, QuotaExceeded
from braid.kernel.limits.access.rights import DOOR_BURST_SECONDS, DOOR_RETRY_SECONDS_MAX


def test_a_refusal_names_the_tenant_its_use_and_its_limit() -> None:
    check_quota("acme", "streams", 2, 1, 3)
    with pytest.raises(QuotaExceeded, match="tenant acme has 3 of its 3 streams: 1 more are too many") as refused:
        check_quota("acme", "streams", 3, 1, 3, free="delete some")
    assert refused.value.metadata == {"tenant": "acme", "quota": "streams", "used": "3", "limit": "3"}
    assert refused.value.remedy == "delete some, or ask an admin for more (braid get tenants)"
    assert retry_seconds(refused.value) == 0, "waiting gives no stream back"


@pytest.mark.parametrize(("used", "more", "limit"), [(9, 1, 0), (9, 0, 3), (9, -4, 3), (2, 1, 3)])
def test_what_asks_for_nothing_more_is_never_refused(used: int, more: int, limit: int) -> None:
    check_quota("acme", "streams", used, more, limit)


def enters(door: TenantDoor, now: float) -> bool:
    try:
        door.enter(now)
    except QuotaExceeded:
        return False
    return True


def test_a_door_lets_a_burst_in_and_then_the_rate() -> None:
    door = TenantDoor("acme", Quotas(requests_per_second=10))
    assert sum(enters(door, 5.0) for _ in range(100)) == 10
    assert sum(enters(door, 5.0 + n / 100) for n in range(1, 201)) == 20, "two seconds, ten a second"
    assert sum(enters(door, 60.0) for _ in range(100)) == 10, "what was not used does not gather for ever"


def test_a_door_counts_open_calls_and_a_refused_one_is_not_open() -> None:
    door = TenantDoor("acme", Quotas(open_calls=2))
    assert [enters(door, 0.0) for _ in range(3)] == [True, True, False]
    door.leave()
    assert enters(door, 0.0) and door.open_calls == 2


def test_a_door_without_quotas_counts_and_refuses_nobody() -> None:
    door = TenantDoor("acme", Quotas())
    assert all(enters(door, 0.0) for _ in range(1_000)) and door.open_calls == 1_000


def test_refused_calls_are_told_different_times() -> None:
    door = TenantDoor("acme", Quotas(requests_per_second=100))
    while enters(door, 0.0):
        pass
    times: list[float] = []
    for _ in range(1_000):
        with pytest.raises(QuotaExceeded) as refused:
            door.enter(0.0)
        times.append(retry_seconds(refused.value))
    early = times[:300]
    assert len(set(early)) == len(early) and early == sorted(early)
    assert 0 < times[0] < 0.1 and max(times) == DOOR_RETRY_SECONDS_MAX


def test_a_changed_quota_holds_from_then_on_and_open_calls_stay() -> None:
    door = TenantDoor("acme", Quotas(requests_per_second=1))
    assert enters(door, 0.0) and not enters(door, 0.0)
    door.change(Quotas(requests_per_second=100))
    assert enters(door, 0.0) and door.open_calls == 2


@given(
    st.integers(1, 500),
    st.lists(st.floats(0, 2.0, allow_nan=False), max_size=60),
)
def test_no_window_has_more_calls_than_its_rate_and_one_burst(rate: int, gaps: list[float]) -> None:
    door, now, let_in = TenantDoor("acme", Quotas(requests_per_second=rate)), 0.0, list[float]()
    for gap in gaps:
        now += gap / 50
        let_in.extend(now for _ in range(20) if enters(door, now))
    for first, began in enumerate(let_in):
        for last in range(first, len(let_in)):
            assert last - first + 1 <= max(1.0, rate * DOOR_BURST_SECONDS) + rate * (let_in[last] - began) + 1


def test_only_a_quota_says_when_to_come_again() -> None:
    assert retry_seconds(Exhausted("a message is too large", metadata={"retry_ms": "5"})) == 0
    assert retry_seconds(QuotaExceeded("x", metadata={"retry_ms": "1500"})) == 1.5
    assert retry_seconds(QuotaExceeded("x", metadata={"retry_ms": "999999999"})) == DOOR_RETRY_SECONDS_MAX
    for strange in ("-1", "1e9", "9" * 40, ""):
        assert retry_seconds(QuotaExceeded("x", metadata={"retry_ms": strange})) == 0
