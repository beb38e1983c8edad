"""The arithmetic of honest numbers: order of play, medians with their spread, and when a run is void. Pure.

Contestants play in rounds. The order turns back every other round (ABBA) and begins one place further every second,
so that nobody always follows the same one; the first round warms up and is discarded. A ratio is the peer's cost over
a contestant's own in the same round. One contestant is the peer again: unless its ratio is 1, the machine was not
quiet enough to tell anything.
"""

import math
import statistics
from collections.abc import Collection, Mapping, Sequence
from typing import Final, Literal, NamedTuple

SELF_CHECK_TOLERANCE: Final = 0.05
ROUNDS_MIN: Final = 7

Basis = Literal["cpu", "wall"]


class Sample(NamedTuple):
    """The cost of one contestant in one round."""

    units: float
    cpu_seconds: float
    wall_seconds: float


class Row(NamedTuple):
    """One contestant's result, medians over the rounds.

    Attributes:
        name: The contestant's.
        cpu_micros: CPU microseconds per unit.
        wall_micros: Wall time per unit, microseconds.
        low: Least cost per unit of any round, on the table's basis, microseconds.
        high: Greatest cost.
        rounds: That count.
        ratio: The peer's cost over its own: above 1 it is cheaper. None where there is no peer.
        ratio_low: Least ratio of any round.
        ratio_high: Greatest ratio.
    """

    name: str
    cpu_micros: float
    wall_micros: float
    low: float
    high: float
    rounds: int
    ratio: float | None
    ratio_low: float | None
    ratio_high: float | None


def order(names: Sequence[str], number: int) -> list[str]:
    """The order of play in round `number`, counted from 0 (the discarded one)."""
    first = number // 2 % len(names)
    turned = [*names[first:], *names[:first]]
    return turned[::-1] if number % 2 else turned


def rows(
    samples: Mapping[str, Sequence[Sample]], peer: str, basis: Basis, without_peer: Collection[str] = ()
) -> list[Row]:
    """Each contestant's medians.

    Args:
        samples: By contestant, one a round, without the discarded one.
        peer: Whom the others are compared with, round by round.
        basis: Which cost ratios and spreads are of.
        without_peer: Contestants that do something else than the peer: no ratio.
    """
    costs = {name: [_cost(sample, basis) for sample in taken] for name, taken in samples.items()}
    return [
        _row(name, samples[name], own, None if name in without_peer else costs[peer]) for name, own in costs.items()
    ]


def verdict(found: Sequence[Row], self_check: str) -> str:
    """Empty when the table may be quoted, else why not."""
    again = next(row for row in found if row.name == self_check)
    if again.ratio is None or abs(again.ratio - 1) > SELF_CHECK_TOLERANCE:
        told = "no ratio" if again.ratio is None else f"{again.ratio:.2f}"
        return f"void: the peer beside itself is {told}, not 1.00 ± {SELF_CHECK_TOLERANCE:.2f}"
    if again.rounds < ROUNDS_MIN:
        return f"not to be quoted: {again.rounds} rounds, fewer than {ROUNDS_MIN}"
    return ""


def interval(ratios: Sequence[float]) -> tuple[float, float]:
    """Returns bounds between which the median of such ratios is, 19 times of 20; the extremes where they are few.

    They are two of the ratios themselves, by rank, so that nothing is assumed of how a busy machine spreads them.
    """
    ordered = sorted(ratios)
    rank = math.floor((len(ordered) - 1.96 * math.sqrt(len(ordered))) / 2)
    rank = max(0, rank - 1)
    return ordered[rank], ordered[-1 - rank]


def _cost(sample: Sample, basis: Basis) -> float:
    return (sample.cpu_seconds if basis == "cpu" else sample.wall_seconds) / sample.units * 1e6


def _row(name: str, samples: Sequence[Sample], own: Sequence[float], peer: Sequence[float] | None) -> Row:
    cpu = statistics.median(_cost(sample, "cpu") for sample in samples)
    wall = statistics.median(_cost(sample, "wall") for sample in samples)
    spread = (min(own), max(own), len(own))
    if peer is None:
        return Row(name, cpu, wall, *spread, None, None, None)
    ratios = [theirs / ours for ours, theirs in zip(own, peer, strict=True)]
    return Row(name, cpu, wall, *spread, statistics.median(ratios), min(ratios), max(ratios))
