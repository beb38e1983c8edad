"""Quantiles of a sketch are those of the latencies, to 1 %, however it was merged."""

from math import ceil
from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from braid.kernel.limits.lagmon.pathways import SKETCH_BINS_MAX, SKETCH_MS_MAX
from braid.kernel.pathways.sketches import Sketch

PARTS: Final = (0.0, 0.5, 0.95, 0.99, 1.0)
LATENCIES = st.lists(st.one_of(st.integers(0, 5_000), st.integers(0, SKETCH_MS_MAX)), min_size=1, max_size=300)


def sketch_of(latencies: list[int]) -> Sketch:
    """A sketch of some latencies."""
    found = Sketch()
    for each in latencies:
        found.add(each)
    return found


def assert_quantiles(sketch: Sketch, latencies: list[int]) -> None:
    """Compares quantiles with the true ones: the lower one where two are as good."""
    latencies = sorted(latencies)
    for part, value in zip(PARTS, sketch.quantiles(*PARTS), strict=True):
        rank = part * (len(latencies) - 1)
        true = {latencies[int(rank)], latencies[ceil(rank)]}
        assert any(abs(value - each) <= 0.010_001 * each for each in true), (part, value, true)


@given(LATENCIES)
def test_quantiles_are_true_to_one_percent(latencies: list[int]) -> None:
    sketch = sketch_of(latencies)
    assert sketch.count == len(latencies)
    assert_quantiles(sketch, latencies)


@given(LATENCIES, LATENCIES)
def test_merged_sketches_are_as_true(one: list[int], other: list[int]) -> None:
    sketch = sketch_of(one)
    sketch.merge(sketch_of(other))
    assert_quantiles(sketch, one + other)


@given(st.integers(0, SKETCH_MS_MAX), st.integers(1, 1 << 31))
def test_a_weight_counts_as_so_many(latency: int, weight: int) -> None:
    sketch = Sketch()
    sketch.add(latency, weight)
    assert sketch.count == weight


def test_absurd_latencies_stay_within_the_bins() -> None:
    sketch = sketch_of([-5, 1, 1 << 60])
    assert sketch.zeros == 1
    assert 0 <= min(sketch.bins) <= max(sketch.bins) < SKETCH_BINS_MAX


def test_an_empty_sketch_has_zeros() -> None:
    assert Sketch().quantiles(0.5, 0.99) == [0.0, 0.0]
