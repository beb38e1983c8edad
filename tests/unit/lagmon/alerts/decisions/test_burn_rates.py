"""Burn rates: equal to sums over a plain list of seconds, and not known where nobody looked."""

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from braid.kernel.limits.lagmon.alerts import ALERT_TARGETS_MAX
from services.lagmon.alerts.decisions.burn_rates import FAST, SLOW, STEADY, BurnRates
from tests.support.examples import examples

BUDGET = 0.001


def played(seconds: Sequence[bool | None], start: float = 1000.0) -> BurnRates[str]:
    """Windows after so many seconds: bad, good, or not seen."""
    rates: BurnRates[str] = BurnRates()
    rates.advance(start)
    for number, bad in enumerate(seconds):
        rates.advance(start + number + 1)
        if bad is not None:
            rates.observe({"a": bad}, start + number, start + number + 1)
    return rates


def test_a_fast_burn_is_known_once_the_budget_of_an_hour_is_used() -> None:
    good = [False] * 3600
    assert played(good).burns("a", FAST, BUDGET) is False
    assert played([*good, *[True] * 51]).burns("a", FAST, BUDGET) is False
    assert played([*good, *[True] * 52]).burns("a", FAST, BUDGET) is True  # 14.4 x 0.1 % of an hour: 51.84 s


def test_a_burn_ends_when_the_short_window_is_good_again() -> None:
    burning = [*[False] * 3600, *[True] * 120]
    assert played([*burning, *[False] * 280]).burns("a", FAST, BUDGET) is True
    assert played([*burning, *[False] * 305]).burns("a", FAST, BUDGET) is False


def test_bad_time_alone_fires_whatever_was_not_seen() -> None:
    assert played([True] * 52).burns("a", FAST, BUDGET) is True
    assert played([*[True] * 25, *[None] * 40, *[True] * 27]).burns("a", FAST, BUDGET) is True


def test_a_replica_without_a_past_knows_of_no_low_burn() -> None:
    assert played([False] * 200).burns("a", FAST, BUDGET) is None
    assert (
        played([False] * 300).burns("a", FAST, BUDGET) is False
    )  # five good minutes are enough: it needs both windows
    assert played([False] * 300).burns("a", SLOW, BUDGET) is None
    assert played([]).burns("b", FAST, BUDGET) is None


def test_the_slow_windows_see_what_the_fast_ones_do_not() -> None:
    pattern = [*[True] * 1, *[False] * 119] * 180  # 0.83 % bad for six hours
    rates = played(pattern)
    assert rates.burns("a", FAST, BUDGET) is False
    assert rates.burns("a", SLOW, BUDGET) is True
    assert 8.1 < rates.rate("a", SLOW.long, BUDGET) < 8.4  # its oldest bucket is left for a new one


def test_a_gap_longer_than_the_windows_forgets_all() -> None:
    rates = played([True] * 100)
    rates.advance(1000.0 + 4 * 86_400)
    for alert in (FAST, SLOW, STEADY):
        assert rates.burns("a", alert, BUDGET) is None
        assert rates.rate("a", alert.long, BUDGET) == 0.0


def test_a_forgotten_target_begins_without_a_past() -> None:
    rates = played([True] * 100)
    rates.keep(set())
    assert len(rates) == 0
    rates.observe({"b": False}, 1100.0, 1101.0)
    assert rates.rate("b", FAST.long, BUDGET) == 0.0


def test_targets_beyond_the_bound_are_counted_not_kept() -> None:
    rates: BurnRates[int] = BurnRates()
    rates.advance(1.0)
    assert rates.observe(dict.fromkeys(range(ALERT_TARGETS_MAX + 3), True), 0.0, 1.0) == 3
    assert len(rates) == ALERT_TARGETS_MAX


@settings(max_examples=examples(15))
@given(
    st.lists(st.tuples(st.sampled_from([True, False, None]), st.integers(1, 700)), max_size=25),
    st.floats(0.0, 10_000.0),
)
def test_windows_equal_a_plain_sum_over_buckets(parts: list[tuple[bool | None, int]], start: float) -> None:
    rates: BurnRates[str] = BurnRates()
    now = start
    seen: list[tuple[float, float, bool]] = []
    rates.advance(now)
    for bad, seconds in parts:
        for _ in range(0, seconds, 5):
            rates.advance(now + 5)
            if bad is not None:
                rates.observe({"a": bad}, now, now + 5)
                seen.append((now, now + 5, bad))
            now += 5
    for window, length in ((FAST.long, 10), (FAST.short, 10), (SLOW.long, 300), (SLOW.short, 10), (STEADY.long, 300)):
        oldest = (now // length - window.buckets + 1) * length
        bad_units = sum(int(b * 100) - int(a * 100) for a, b, bad in seen if bad and b // length * length >= oldest)
        assert abs(rates.rate("a", window, BUDGET) * BUDGET * window.seconds - bad_units / 100) < 1e-6
