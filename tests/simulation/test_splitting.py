"""Leases worked on at two places, and commits that do not fit, under everything that befalls members and clusters."""

from typing import Final

import pytest

from tests.simulation.plan import FEW_UNITS, Plan
from tests.simulation.run import run
from tests.simulation.seeds import seeds

FAULTS: Final = (
    *("split-lease",) * 3,
    *("kill-member", "pause-member", "cut-member", "leave-group", "lose-answers"),
    *("kill-cluster", "pause-cluster", "cut-cluster", "kill-service", "move-stream"),
)


@pytest.mark.parametrize("seed", seeds(10))
def test_cursors_and_commits_lose_and_claim_nothing_too_early(seed: int) -> None:
    plan = Plan(
        seed,
        40.0,
        exclusive=seed % 4 == 3,
        lease_seconds=1.0,
        send_interval_seconds=0.05,
        handling_seconds=0.4,
        faults=FAULTS,
        metadata_units=FEW_UNITS if seed % 2 else 0,
    )
    result = run(plan)
    assert result.green, "\n".join([f"seed {seed}", *result.trace[-40:], result.message])
    trace = "\n".join(result.trace)
    assert "LeaseSplit(" in trace and "SplitEnded(" in trace, "splits are made and end by themselves"
    assert ("braid-progress" in trace or "beside=(b'" in trace) == bool(plan.metadata_units)
