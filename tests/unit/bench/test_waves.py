"""The table of waves: what it tells, and what voids it."""

from bench.harness.rounds import Sample
from bench.waves import table

MOVED = [Sample(1, 1.0, 4.0), Sample(1, 1.0, 9.0)]
NOTICED = [Sample(1, 0.0, 1.6)] * 2


def test_the_worst_wave_counts() -> None:
    found = table(1_000, NOTICED, MOVED, 1.0)
    assert found.facts["all routes moved"].startswith("9.00 s at worst of 2 ")
    assert found.verdict == ""


def test_a_machine_that_withheld_its_time_voids_it() -> None:
    assert table(1_000, NOTICED, MOVED, 0.5).verdict == "void: the machine gave 50% of its time"
