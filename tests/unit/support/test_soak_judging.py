"""The judge of a soak turns red for a leak of each kind and at each bound, not for what a healthy mesh does."""

import random
from collections.abc import Callable, Sequence
from typing import Final

import pytest

from tests.e2e.soak.judging import MEBI, Sample, Seen, judge, slope

SECONDS: Final = 120
EVERY: Final = float("inf")
ON_TIME: Final = {0.1: 4_000.0, EVERY: 4_000.0}
Grow = Callable[[int, Sample], Sample]


def healthy(at: int, chance: random.Random) -> Sample:
    """Caches fill at the start, garbage piles up and is collected, a visitor comes and goes every 8 s."""
    warm = min(at, 30) * MEBI
    saw = at % 10 * 0.3 * MEBI
    visitor = at // 8 % 2
    return Sample(at, 90 * MEBI + warm + saw + chance.random() * MEBI, 40 + 3 * visitor, 60 + 5 * visitor)


def seen(grow: Grow = lambda at, sample: sample, *, late: dict[float, float] = ON_TIME, seconds: int = SECONDS) -> Seen:
    chance = random.Random(1)
    samples: Sequence[Sample] = [grow(at, healthy(at, chance)) for at in range(seconds)]
    return Seen({"registry-0": samples}, {"services": late})


@pytest.mark.parametrize("seconds", [SECONDS, 1_800])
def test_what_a_healthy_process_does_is_no_violation(seconds: int) -> None:
    assert judge(seen(seconds=seconds)) == []


def test_a_step_and_an_outlier_are_no_leak() -> None:
    def stepped(at: int, sample: Sample) -> Sample:
        extra = 10 * MEBI if at > 60 else 0
        outlier = 60 * MEBI if at == 90 else 0
        return sample._replace(memory_bytes=sample.memory_bytes + extra + outlier)

    assert judge(seen(stepped)) == []


@pytest.mark.parametrize(
    ("what", "leak"),
    [
        ("memory_bytes grew", lambda at, sample: sample._replace(memory_bytes=sample.memory_bytes + at * 0.25 * MEBI)),
        ("descriptors grew", lambda at, sample: sample._replace(descriptors=sample.descriptors + at // 8)),
        ("tasks grew", lambda at, sample: sample._replace(tasks=sample.tasks + at // 4)),
        ("memory_bytes reached", lambda at, sample: sample._replace(memory_bytes=1_000 * MEBI)),
        ("descriptors reached", lambda at, sample: sample._replace(descriptors=4_000)),
        ("tasks reached", lambda at, sample: sample._replace(tasks=9_000)),
    ],
)
def test_a_leak_of_each_kind_is_a_violation(what: str, leak: Grow) -> None:
    assert [what in str(each) for each in judge(seen(leak))] == [True]


def test_a_slow_leak_is_a_violation_of_a_longer_soak_only() -> None:
    def slow(at: int, sample: Sample) -> Sample:
        return sample._replace(memory_bytes=sample.memory_bytes + at * 20_000)

    assert judge(seen(slow)) == []
    assert judge(seen(slow, seconds=1_800)) != []


@pytest.mark.parametrize(("over", "violations"), [(4, 0), (5, 1), (400, 1)])
def test_event_loops_that_are_late_too_often_are_a_violation(over: int, violations: int) -> None:
    assert len(judge(seen(late={0.1: 4_000.0 - over, EVERY: 4_000.0}))) == violations


def test_a_process_that_was_hardly_seen_is_not_judged_in_silence() -> None:
    assert "too few" in str(judge(seen(seconds=5))[0])


def test_a_slope_is_that_of_most_points() -> None:
    points = [(float(at), 2.0 * at) for at in range(100)]
    points[50] = (50.0, 1e9)
    assert slope(points) == pytest.approx(2.0)
