"""The verdict on what pathways cost: the peer beside itself must agree closely, over many rounds."""

import pytest

from bench.harness.rounds import Sample, rows
from bench.pathways import AGAIN, ROUNDS_WANTED, WITH, WITHOUT, judged, sampled_micros


def samples(cost: float, rounds: int) -> list[Sample]:
    """Returns rounds of one contestant, a record each."""
    return [Sample(1, cost, cost)] * rounds


@pytest.mark.parametrize(
    ("again", "rounds", "said"),
    [
        (1.0, ROUNDS_WANTED, ""),
        (1.008, ROUNDS_WANTED, ""),
        (1.03, ROUNDS_WANTED, "void: the peer beside itself is 0.971"),
        (0.97, ROUNDS_WANTED, "void: the peer beside itself is 1.031"),
        (1.0, ROUNDS_WANTED - 1, "not to be quoted"),
    ],
)
def test_a_table_is_void_unless_the_peer_costs_the_same(again: float, rounds: int, said: str) -> None:
    taken = {WITHOUT: samples(1.0, rounds), AGAIN: samples(again, rounds), WITH: samples(1.5, rounds)}
    verdict = judged(rows(taken, WITHOUT, "cpu"))
    assert verdict.startswith(said)
    assert bool(verdict) is bool(said)


def test_a_sampled_record_has_a_cost() -> None:
    assert 0 < sampled_micros() < 10_000
