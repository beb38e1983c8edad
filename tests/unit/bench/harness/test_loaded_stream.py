"""The fate of a load, and the reasons that void the tables of moves and lost clusters."""

from collections.abc import Sequence

import numpy as np
import pytest

from bench import cluster_loss, moves, repartition
from bench.harness.load_process import NUMBER_BITS, Ledger, place
from bench.harness.loaded_stream import Fate, fate_of, first_elsewhere_ms, gap_ms, taken_over_ms

FINE = Fate(1_000, 0, 0, 0, 0)


def _ledger(
    acked: Sequence[tuple[int, float, str]],
    read: Sequence[tuple[int, int]] = (),
    producer: int = 0,
    channels: Sequence[int] = (),
) -> Ledger:
    names = sorted({cluster for *_, cluster in acked})
    return Ledger(
        np.array([producer << NUMBER_BITS | each for each, *_ in acked], np.uint64),
        np.array([at for _, at, _ in acked], np.float64),
        np.array([names.index(cluster) for *_, cluster in acked], np.uint8),
        np.array(channels or [1] * len(acked), np.uint16),
        np.array([producer << NUMBER_BITS | each for each, _ in read], np.uint64),
        np.array([where for _, where in read], np.uint64),
        np.array(names, np.str_),
    )


def test_places_of_other_channels_partitions_and_offsets_differ() -> None:
    found = {place(f"braid.s.live.{channel}", number, at) for channel in (1, 2) for number in (0, 7) for at in (0, 9)}
    assert len(found) == 8


def test_unread_records_are_lost_and_doubled_ones_repeated() -> None:
    writer = _ledger([(1, 0.1, "east"), (2, 0.2, "east"), (3, 0.3, "west")], [(1, 10), (1, 10)])
    reader = _ledger([], [(3, 30), (3, 31)])
    assert fate_of([writer, reader], 4) == Fate(3, 1, 1, 1, 4)


def test_the_longest_gap_is_one_producers_and_runs_to_the_end() -> None:
    one = _ledger([(1, 0.9, "east"), (2, 1.0, "east"), (3, 1.5, "east"), (4, 1.9, "east")])
    other = _ledger([(1, at / 10, "east") for at in range(9, 21)], producer=1)
    assert gap_ms([one, other], 1.0, 2.0) == 500.0
    assert round(gap_ms([one], 1.6, 3.0)) == 1_100
    assert round(gap_ms([other], 1.0, 2.0)) == 100


def test_the_first_acknowledgement_elsewhere_dates_from_the_loss() -> None:
    ledgers = [_ledger([(1, 1.0, "west"), (2, 2.0, "east"), (3, 4.5, "west")]), _ledger([(1, 4.0, "west")])]
    assert first_elsewhere_ms(ledgers, "east", 2.0) == 2_000.0


def test_a_planned_move_may_neither_lose_nor_repeat() -> None:
    taken = {moves.MOVED: [20.0, 40.0, 90.0], moves.CALM: [10.0, 11.0, 12.0]}
    assert moves.table(taken, FINE, 1.0).verdict == ""
    assert moves.table(taken, FINE, 1.0).facts[moves.MOVED] == "p50 40 ms, p99 90 ms of 3"
    for fate in (Fate(1_000, 1, 0, 0, 0), Fate(1_000, 0, 1, 0, 0), Fate(1_000, 0, 0, 0, 1)):
        assert moves.table(taken, fate, 1.0).verdict == f"void: {fate}"
    assert moves.table(taken, FINE, 0.5).verdict == "void: the machine gave 50% of its time"


def test_a_channel_took_over_once_it_began_and_the_old_one_ended() -> None:
    first = _ledger([(1, 1.0, "east"), (2, 2.5, "east"), (3, 4.0, "east"), (4, 9.0, "east")], channels=[1, 2, 2, 3])
    second = _ledger([(1, 3.0, "east"), (2, 3.5, "east")], channels=[1, 2])
    assert taken_over_ms([first, second], 2, 2.0) == 1_000.0
    assert taken_over_ms([first], 2, 2.0) == 500.0
    assert taken_over_ms([first, second], 3, 2.0) == 7_000.0
    with pytest.raises(ValueError, match="empty"):
        taken_over_ms([first, second], 4, 2.0)


def test_a_change_of_partitions_may_neither_lose_nor_repeat() -> None:
    taken = {repartition.carries("4 to 16"): [120.0, 340.0], repartition.CALM: [10.0, 11.0]}
    made = repartition.table(taken, FINE, 1.0)
    assert (made.verdict, made.facts[repartition.carries("4 to 16")]) == ("", "p50 340 ms, worst 340 ms of 2")
    for fate in (Fate(1_000, 1, 0, 0, 0), Fate(1_000, 0, 1, 0, 0), Fate(1_000, 0, 0, 0, 1)):
        assert repartition.table(taken, fate, 1.0).verdict == f"void: {fate}"
    assert repartition.table(taken, FINE, 0.5).verdict == "void: the machine gave 50% of its time"


def test_an_unplanned_one_may_repeat_but_not_lose() -> None:
    taken = {cluster_loss.ours("killed"): [2_000.0], cluster_loss.peers("killed"): [40_000.0]}
    peer = Fate(900, 7, 8, 9, 1)
    made = cluster_loss.table(taken, Fate(1_000, 0, 5, 9, 0), peer, 1.0)
    assert (made.verdict, made.facts["fate of the peer"]) == ("", str(peer)), "the peer may lose: that is its figure"
    for fate in (Fate(1_000, 1, 0, 0, 0), Fate(1_000, 0, 0, 0, 1)):
        assert cluster_loss.table(taken, fate, FINE, 1.0).verdict == f"void: {fate}"
    assert cluster_loss.table(taken, FINE, FINE, 0.5).verdict == "void: the machine gave 50% of its time"


def test_fates_are_added_and_none_is_nothing() -> None:
    assert cluster_loss.together([]) == Fate(0, 0, 0, 0, 0)
    assert cluster_loss.together([FINE, Fate(1, 2, 3, 4, 5)]) == Fate(1_001, 2, 3, 4, 5)
