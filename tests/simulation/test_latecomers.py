"""Groups that start at the earliest record after moves and drains: every acknowledged record reaches them, too."""

from typing import Final

import pytest

from services.assigner.model import group_channels
from tests.simulation.mutants import Mutant
from tests.simulation.plan import Plan
from tests.simulation.run import Result, run
from tests.simulation.seeds import seeds

FAULTS: Final = (*("move-stream",) * 6, "kill-service", "kill-cluster", "cut-store", "slow-appends")
LATE: Final = ("late-1", "late-2", "late-3")


def _begins_in_no_drained_channel(*arguments: object) -> tuple[object, ...]:
    return ()


PASSED_OVER: Final = Mutant(
    "a group that passes over drained channels",
    "I1 zero loss",
    [(group_channels, "left_to_read", _begins_in_no_drained_channel)],
    FAULTS,
)


def play(seed: int) -> Result:
    """Half the seeds are of an ordered stream."""
    ordered = seed % 2 == 1
    return run(Plan(seed, 40.0, faults=FAULTS, latecomers=LATE, ordered=ordered, settle_seconds=120.0))


@pytest.mark.parametrize("seed", seeds(10))
def test_groups_that_come_after_drains_settle_every_record(seed: int) -> None:
    result = play(seed)
    assert result.green, "\n".join([f"seed {seed}", *result.trace[-40:], result.message])
    assert result.counts.get("DrainRecorded", 0) > 0, "else it proves less than it says"


@pytest.mark.slow
def test_a_group_that_passes_over_drained_channels_is_found() -> None:
    with PASSED_OVER.at_work():
        result = play(0)
    assert result.invariant == PASSED_OVER.invariant
    assert "never reached group late" in result.message
