"""The arithmetic of the benchmarks: who plays when, what a ratio is, and when a run is void."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from bench.__main__ import summary
from bench.harness.rounds import ROUNDS_MIN, Row, Sample, order, rows, verdict
from bench.harness.tables import Table

NAMES = ["peer", "again", "braid"]


def samples(*cpu_seconds: float) -> list[Sample]:
    """A thousand units a round."""
    return [Sample(1_000, cpu, cpu * 2) for cpu in cpu_seconds]


def found_with(again: float, rounds: int = ROUNDS_MIN, braid: float = 2.0) -> Sequence[Row]:
    """Rows of a run whose peer costs 1 and, beside itself, `again`."""
    return rows(
        {name: samples(*[cost] * rounds) for name, cost in zip(NAMES, (1.0, again, braid), strict=True)}, "peer", "cpu"
    )


def test_the_order_turns_back_every_other_round() -> None:
    assert order(NAMES, 0) == NAMES
    assert order(NAMES, 1) == NAMES[::-1]
    for number in range(0, 12, 2):
        assert order(NAMES, number + 1) == order(NAMES, number)[::-1]


def test_everybody_plays_every_place_equally_often() -> None:
    rounds = [order(NAMES, number) for number in range(2 * len(NAMES))]
    for place in range(len(NAMES)):
        assert Counter(each[place] for each in rounds) == dict.fromkeys(NAMES, 2)


def test_a_ratio_is_the_peers_cost_over_ones_own_round_by_round() -> None:
    peer, own = samples(1.0, 4.0, 2.0), samples(2.0, 2.0, 8.0)
    _, row = rows({"peer": peer, "braid": own}, "peer", "cpu")
    assert (row.ratio, row.ratio_low, row.ratio_high, row.rounds) == (0.5, 0.25, 2.0, 3)
    assert (row.cpu_micros, row.wall_micros, row.low, row.high) == (2_000.0, 4_000.0, 2_000.0, 8_000.0)


def test_the_basis_decides_which_cost_is_compared() -> None:
    taken = {"peer": [Sample(1, 1.0, 8.0)], "braid": [Sample(1, 2.0, 2.0)]}
    assert (rows(taken, "peer", "cpu")[1].ratio, rows(taken, "peer", "wall")[1].ratio) == (0.5, 4.0)


def test_contestants_without_a_peer_may_have_fewer_rounds() -> None:
    _, alone = rows({"peer": samples(1.0, 1.0), "alone": samples(3.0)}, "peer", "cpu", without_peer=("alone",))
    assert (alone.ratio, alone.rounds) == (None, 1)


@pytest.mark.parametrize("again", [0.94, 1.07])
def test_a_run_whose_peer_differs_from_itself_is_void(again: float) -> None:
    assert verdict(found_with(again), "again").startswith("void: the peer beside itself")


@pytest.mark.parametrize("again", [0.96, 1.0, 1.04])
def test_a_quiet_run_of_enough_rounds_may_be_quoted(again: float) -> None:
    assert verdict(found_with(again), "again") == ""


def test_too_few_rounds_are_not_to_be_quoted() -> None:
    assert verdict(found_with(1.0, ROUNDS_MIN - 1), "again").startswith("not to be quoted")


def test_a_table_reads_as_written_and_shows_what_is_lost(tmp_path: Path) -> None:
    table = Table("produce", "record", "cpu", "", {"work": "some"}, found_with(1.0), {"commit": "c", "machine": "m",
                  "versions": "v", "command": "x"})  # fmt: skip
    table.publish(tmp_path)
    assert Table.read(tmp_path / "produce.json") == table
    lines = summary([tmp_path / "produce.json"])
    assert any(line.startswith("  braid") and " 0.50 " in line for line in lines)
    assert "commit: c" in lines
