"""A checkpoint is read as it was written; what is cut or changed anywhere is refused as a whole."""

import numpy as np
import pytest

from services.lagmon.columns.checkpoint import Checkpoint, DamagedCheckpoint, read_checkpoint, write_checkpoint
from services.lagmon.domain import ClusterModel
from services.lagmon.policy import LONG_AGO
from tests.unit.lagmon.columns.rows import Key, Said, commits

SAID: dict[Key, Said] = {("g", "t", 0): (5, ""), ("g", "t", 7): (9, "b1:x"), ("ä", "u", 1): (2**40, "")}


def saved(found: dict[Key, Said]) -> Checkpoint:
    """The checkpoint of a model that took these commits from two partitions of the log."""
    model = ClusterModel("east")
    for number, (key, value) in enumerate(found.items()):
        model.take(number % 2, commits({key: value}), LONG_AGO)
    return Checkpoint(b"\1" * 16, 1_700_000_000_000, [4, 2**40], [-1, 3], *model.progress.commits())


def rows_of(model: ClusterModel) -> set[tuple[object, ...]]:
    known = model.progress
    names = ("partition", "origin", "committed", "time_ms")
    return {
        (
            known.pairs[int(known["pair"][row])],
            *(int(known[name][row]) for name in names),
            known.metadata(np.array([row]))[0],
        )
        for row in known.rows().tolist()
    }


def test_a_model_taken_from_a_checkpoint_is_the_model_before() -> None:
    before, after = ClusterModel("east"), ClusterModel("east")
    for number, (key, value) in enumerate(SAID.items()):
        before.take(number % 2, commits({key: value}), LONG_AGO)
    read = read_checkpoint(write_checkpoint(saved(SAID)))
    assert (read.topic_id, read.time_ms, read.positions, read.epochs) == saved(SAID)[:4]
    for origin in range(2):
        for some in read.commits(origin, 2):
            assert 0 < len(some.pair) <= 2
            after.take(origin, some, LONG_AGO)
    assert rows_of(after) == rows_of(before)
    assert len(rows_of(after)) == len(SAID)


def test_a_checkpoint_cut_or_changed_at_any_byte_is_refused() -> None:
    data = write_checkpoint(saved(SAID))
    for at in range(len(data)):
        with pytest.raises(DamagedCheckpoint):
            read_checkpoint(data[:at])
        with pytest.raises(DamagedCheckpoint):
            read_checkpoint(data[:at] + bytes([data[at] ^ 0x40]) + data[at + 1 :])


def test_only_partitions_that_hold_the_position_are_usable() -> None:
    found = saved(SAID)  # at 4 and 2**40
    assert found.usable([0, 0], [4, 2**40]) == [0, 1]
    assert found.usable([5, 0], [9, 2**40]) == [1]
    assert found.usable([0, 0], [3, 2**40]) == [1]
    assert found.usable([0, 0, 0], [4, 2**40, 4]) == []


def test_an_empty_cluster_has_a_checkpoint_too() -> None:
    read = read_checkpoint(write_checkpoint(saved({})))
    assert (len(read.pairs), list(read.commits(0))) == (0, [])
