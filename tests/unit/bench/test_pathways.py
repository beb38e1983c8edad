"""The verdict on what pathways cost: the peer beside itself must agree closely, over many rounds."""

import random

import pytest

from bench.harness.rounds import Sample, interval
from bench.pathways import AGAIN, ROUNDS_WANTED, WITH, WITHOUT, added, judged, sampled_micros


def played(again: float, added: float, rounds: int, spread: float = 0.0, seed: int = 1) -> dict[str, list[Sample]]:
    """Rounds of a machine that is ever slower for all, and by a random share for each."""
    dice = random.Random(seed)
    samples: dict[str, list[Sample]] = {WITHOUT: [], AGAIN: [], WITH: []}
    for number in range(rounds):
        for name, cost in ((WITHOUT, 1.0), (AGAIN, again), (WITH, 1.0 + added)):
            cpu = cost * (1 + number / rounds) * (1 + dice.uniform(-spread, spread))
            samples[name].append(Sample(1, cpu, cpu))
    return samples


@pytest.mark.parametrize(
    ("again", "rounds", "spread", "said"),
    [
        (1.0, ROUNDS_WANTED, 0.0, ""),
        (1.008, ROUNDS_WANTED, 0.0, ""),
        (1.03, ROUNDS_WANTED, 0.0, "void: the peer beside itself costs +3.00%"),
        (0.97, ROUNDS_WANTED, 0.0, "void: the peer beside itself costs -3.00%"),
        (1.0, ROUNDS_WANTED - 1, 0.0, "not to be quoted: 39 rounds"),
        (1.0, 500, 0.08, ""),
        (1.0, ROUNDS_WANTED, 0.2, "not to be quoted: too few rounds for this machine"),
        (1.03, 500, 0.08, "void: the peer beside itself costs"),
    ],
)
def test_a_table_is_void_unless_the_peer_costs_the_same(again: float, rounds: int, spread: float, said: str) -> None:
    verdict = judged(played(again, 0.015, rounds, spread))
    assert verdict.startswith(said)
    assert bool(verdict) is bool(said)


def test_bounds_hold_the_cost_though_the_machine_is_busy() -> None:
    inside = 0
    for seed in range(60):
        found = added(played(1.0, 0.015, 200, 0.1, seed), WITH, (WITHOUT, AGAIN))
        assert found.low <= found.median <= found.high
        inside += found.low <= 0.015 <= found.high
    assert 50 <= inside <= 60
    assert interval([3.0, 1.0, 2.0]) == (1.0, 3.0), "few rounds say little"


def test_a_sampled_record_has_a_cost() -> None:
    assert 0 < sampled_micros() < 10_000
