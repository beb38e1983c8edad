"""Memory of lanes: what one leaves the others may have, nobody is kept from what is kept for it, all is bounded."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from braid.client.delivery.memory_bound import MemoryBound

MAX = 100_000
LANES = ("live", "bulk", "rest")
STEP = 10  # of what is fetched at once
# Each step: a lane, whether it is idle from now on, and how much it fetches or frees.
steps = st.lists(st.tuples(st.sampled_from(LANES), st.booleans(), st.integers(1, 40_000)), max_size=200)


def bound(live: int = 8, bulk: int = 2) -> MemoryBound:
    made = MemoryBound(MAX, {"live": live, "bulk": bulk})
    made.lane("live"), made.lane("bulk")
    return made


def fill(memory: MemoryBound, name: str, step: int = 100) -> int:
    """Fetches of a lane, a little at a time, until it is held back; returns how much it uses then."""
    lane = memory.lane(name)
    while not lane.review():
        lane.used += step
    return lane.used


def test_an_idle_lanes_memory_is_lent_except_what_is_reserved() -> None:
    memory = bound()
    assert fill(memory, "bulk") == 80_000
    assert fill(memory, "live") == 20_000, "that was kept for it"
    assert memory.used == MAX


def test_what_was_lent_comes_back() -> None:
    memory = bound()
    live, bulk = memory.lane("live"), memory.lane("bulk")
    fill(memory, "bulk")
    fill(memory, "live")
    while bulk.review() and bulk.used:  # handlers are at work
        bulk.used -= 100
        fill(memory, "live")
    assert (live.used, bulk.used) == (80_000, 10_000)
    assert fill(memory, "bulk") == 20_000


@given(steps)
@example([("rest", False, 40_000), ("rest", False, 40_000), ("live", False, 20_000), ("bulk", False, 4_541)])
def test_all_lanes_stay_within_the_bound_and_none_is_starved(taken: list[tuple[str, bool, int]]) -> None:
    memory = MemoryBound(MAX, {"live": 8, "bulk": 2})
    lanes = {name: memory.lane(name) for name in LANES}
    shares = sum(lane.share for lane in lanes.values())
    for name, frees, size in taken:
        lane = lanes[name]
        if frees:
            lane.used = max(0, lane.used - size)
        while not frees and size > 0 and not lane.review():
            lane.used += STEP
            size -= STEP
        assert memory.used <= MAX + STEP * len(LANES), "each may go over by what it fetches at once"
        for each in lanes.values():
            each.held_back = False
            if each.used < MAX * each.share // shares // 5:
                assert not each.review(), "less than is kept for it"


def test_memory_that_is_not_lent_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control for the first test."""
    monkeypatch.setattr(MemoryBound, "_with_loans", lambda self, name, part, shares: part)
    with pytest.raises(AssertionError):
        test_an_idle_lanes_memory_is_lent_except_what_is_reserved()


def test_memory_that_is_lent_without_end_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control for the second test."""
    monkeypatch.setattr(MemoryBound, "_with_loans", lambda self, name, part, shares: self.max_bytes)
    with pytest.raises(AssertionError):
        test_what_was_lent_comes_back()
