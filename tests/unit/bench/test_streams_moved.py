"""The tables of moves, of lost clusters and of waves: what they tell, and what voids them."""

from bench import cluster_loss, moves, waves
from bench.loaded_stream import Fate
from bench.rounds import Sample

FINE = Fate(1_000, 0, 0)


def test_a_move_is_told_at_its_percentiles_beside_no_move() -> None:
    found = moves.table({moves.MOVED: [20.0, 40.0, 90.0], moves.CALM: [10.0, 11.0, 12.0]}, FINE, 1.0)
    assert found.verdict == ""
    assert found.facts[moves.MOVED] == "p50 40 ms, p99 90 ms of 3"
    assert {row.name: row.wall_micros / 1e3 for row in found.rows} == {moves.MOVED: 40.0, moves.CALM: 11.0}


def test_a_planned_move_may_neither_lose_nor_repeat() -> None:
    taken = {moves.MOVED: [20.0], moves.CALM: [10.0]}
    for fate in (Fate(1_000, 1, 0), Fate(1_000, 0, 1)):
        assert moves.table(taken, fate, 1.0).verdict == f"void: {fate}"


def test_an_unplanned_one_may_repeat_but_not_lose() -> None:
    taken = {cluster_loss.ours("killed"): [2_000.0], cluster_loss.peers("killed"): [40_000.0]}
    assert cluster_loss.table(taken, Fate(1_000, 0, 5), 1.0).verdict == ""
    assert cluster_loss.table(taken, Fate(1_000, 1, 0), 1.0).verdict.startswith("void: of 1,000")
    assert cluster_loss.table(taken, FINE, 1.0).facts["fate"] == "of 1,000 acknowledged records 0 lost, 0 repeated"


def test_the_worst_wave_counts() -> None:
    moved = [Sample(1, 1.0, 4.0), Sample(1, 1.0, 9.0)]
    found = waves.table(1_000, [Sample(1, 0.0, 1.6)] * 2, moved, 1.0)
    assert found.facts["all routes moved"].startswith("9.00 s at worst of 2 ")
    assert found.verdict == ""


def test_a_machine_that_withheld_its_time_voids_them_all() -> None:
    taken = {moves.MOVED: [20.0], moves.CALM: [10.0]}
    for table in (
        moves.table(taken, FINE, 0.5),
        cluster_loss.table({cluster_loss.ours("killed"): [2_000.0]}, FINE, 0.5),
        waves.table(10, [Sample(1, 0.0, 1.6)], [Sample(1, 1.0, 4.0)], 0.5),
    ):
        assert table.verdict == "void: the machine gave 50% of its time"
