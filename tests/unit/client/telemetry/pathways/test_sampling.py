"""A second has about so many sampled records, whatever the load, and their weights make up for the others."""

import pytest

from braid.client.telemetry.pathways.sampling import Sampler

NOW_MS = 1_790_000_000_000


def play(rate: int, seconds: int, *, per_s: int = 25, salt: int = 1) -> list[tuple[int, int]]:
    """The samples of a steady load: in which second, and the weight."""
    sampler, found = Sampler(per_s, salt), []
    for position in range(1, rate * seconds + 1):
        at_ms = position * 1000 // rate
        if position >= sampler.next or NOW_MS + at_ms >= sampler.until_ms:
            shift = sampler.take(position, NOW_MS + at_ms)
            if shift is not None:
                found.append((at_ms // 1000, 1 << shift))
    return found


@pytest.mark.parametrize("rate", [1, 20])
def test_a_slow_stream_is_measured_whole(rate: int) -> None:
    assert len(play(rate, 60)) == 60 * rate


@pytest.mark.parametrize("rate", [100, 3_000, 40_000])
def test_weights_make_up_for_what_is_left_out(rate: int) -> None:
    seconds = 20
    estimates = [sum(weight for _, weight in play(rate, seconds, salt=salt)) / (rate * seconds) for salt in range(5)]
    assert 0.95 < sum(estimates) / len(estimates) < 1.05, estimates


@pytest.mark.parametrize("rate", [100, 3_000, 40_000])
def test_a_fast_stream_has_few_samples(rate: int) -> None:
    found = play(rate, 20)
    assert all(sum(second == each for second, _ in found) <= 60 for each in range(1, 20))
    assert len(found) > 100


def test_the_first_second_of_a_flood_is_bounded() -> None:
    assert len(play(100_000, 1)) < 800


def test_a_rhythm_does_not_meet_the_choice() -> None:
    sampler, chosen = Sampler(25, 7), [0, 0, 0, 0]
    for position in range(1, 400_001):
        now_ms = NOW_MS + position // 20
        if position >= sampler.next or now_ms >= sampler.until_ms:
            shift = sampler.take(position, now_ms)
            chosen[position % 4] += 0 if shift is None else 1 << shift
    assert all(0.7 < each / 100_000 < 1.3 for each in chosen), chosen


def test_after_a_flood_a_slow_stream_is_soon_measured() -> None:
    sampler, position = Sampler(25, 1), 0
    for position in range(1, 200_001):
        if position >= sampler.next or NOW_MS + position // 100 >= sampler.until_ms:
            sampler.take(position, NOW_MS + position // 100)
    assert sampler.shift > 8
    later_ms, taken = NOW_MS + 2_000, 0
    for second in range(1, 6):
        position += 1
        at_ms = later_ms + 1_000 * second
        if position >= sampler.next or at_ms >= sampler.until_ms:
            taken += sampler.take(position, at_ms) is not None
    assert taken >= 3


def test_a_clock_set_back_stops_nothing() -> None:
    sampler = Sampler(25, 1)
    assert sampler.take(1, NOW_MS) == 0
    assert sampler.take(2, NOW_MS - 3_600_000) == 0
    assert sampler.until_ms == NOW_MS - 3_600_000 + 1_000
