"""A cluster's usual time is its own, and only what lasts becomes usual."""

import random

from braid.kernel.limits.registry.health import SLOW_FLOOR_SECONDS, USUAL_LOOKS_MIN
from services.registry.health.append_latency import Latency, inherited
from services.registry.model.clusters.thresholds import Thresholds

USUAL = Thresholds()


def fed(latency: Latency, seconds: list[float]) -> Latency:
    for each in seconds:
        latency = latency.after(each)
    return latency


def drawn(count: int, low: float, high: float) -> list[float]:
    dice = random.Random(7)
    return [dice.uniform(low, high) for _ in range(count)]


def test_nine_of_ten_stay_below_the_usual() -> None:
    latency = fed(Latency(), drawn(5_000, 0.010, 0.020))
    assert 0.0185 < latency.usual < 0.0195


def test_a_far_cluster_is_not_slow_by_being_far() -> None:
    far = fed(Latency(), drawn(400, 0.30, 0.34))
    assert not far.slow(USUAL)
    assert fed(far, [0.6] * 9).slow(USUAL)  # beyond two thirds of the time-out, whatever is usual


def test_fast_clusters_are_slow_only_beyond_the_floor() -> None:
    near = fed(Latency(), drawn(400, 0.002, 0.004))
    assert not fed(near, [SLOW_FLOOR_SECONDS] * 9).slow(USUAL)
    assert "usual" in fed(near, [SLOW_FLOOR_SECONDS + 0.01] * 9).slow(USUAL)


def test_single_looks_say_nothing() -> None:
    near = fed(Latency(), drawn(400, 0.002, 0.004))
    assert not fed(near, [0.5] * 4).slow(USUAL)
    assert fed(near, [0.5, 0.5, 0.003, 0.5, 0.5, 0.003, 0.5, 0.5, 0.003]).slow(USUAL)


def test_a_new_registry_has_no_usual_time_yet() -> None:
    new = fed(Latency(), [0.4] * (USUAL_LOOKS_MIN - 1))
    assert not new.slow(USUAL) and fed(new, [0.55] * 9).slow(USUAL)


def test_what_is_seen_for_seconds_is_not_usual_and_what_lasts_is() -> None:
    near = fed(Latency(), drawn(2_000, 0.045, 0.05))
    slow = fed(near, [0.42] * 40)
    assert slow.usual < 1.1 * near.usual and slow.slow(USUAL)
    assert not fed(slow, [0.42] * 10_000).slow(USUAL)


def test_declared_numbers_count() -> None:
    near = fed(fed(Latency(), drawn(400, 0.002, 0.004)), [0.1] * 9)
    assert near.slow(Thresholds(slow_floor_seconds=0.05)) and not near.slow(USUAL)
    assert not near.slow(Thresholds(slow_floor_seconds=0.05, slow_factor=100.0))


# --- what a leader leaves to the next


def test_the_usual_time_is_recorded_if_known_and_when_it_matters() -> None:
    new = fed(Latency(), [0.05] * (USUAL_LOOKS_MIN - 1))
    assert not new.tells(0.0, USUAL)
    known = new.after(0.05)
    assert known.tells(0.0, USUAL) and not known.tells(0.05, USUAL)
    assert not fed(known, drawn(200, 0.04, 0.055)).tells(0.05, USUAL)
    assert fed(Latency(), [0.06] * 50).tells(0.045, USUAL)
    assert not fed(Latency(), [0.03] * 50).tells(0.002, USUAL)  # the floor decides, now as before
    assert not fed(Latency(), [0.0] * 50).tells(0.0, USUAL)


def test_an_inherited_usual_time_judges_at_once_and_moves_slowly() -> None:
    heir = inherited(0.05)
    assert not heir.settled and not heir.slow(USUAL)
    slow = fed(heir, [0.42] * 9)
    assert slow.slow(USUAL) and not fed(inherited(0.0), [0.42] * 60).slow(USUAL)
    assert fed(heir, [0.42] * 40).usual < 0.055
