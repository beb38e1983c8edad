"""Waits of drains and deletions while groups are away, progress is reset and clocks step."""

import pytest

from tests.simulation.mutants_waits import RESET_FAULTS, STEP_FAULTS, STEPS
from tests.simulation.plan import Plan
from tests.simulation.run import run
from tests.simulation.seeds import Enough


@pytest.mark.slow
def test_a_reset_during_a_drain_is_never_swallowed(enough: Enough) -> None:
    pending = 0
    for seed in range(4):
        if enough(seed, 1, pending >= 4):
            break
        result = run(Plan(seed, 45.0, faults=RESET_FAULTS, fault_interval_seconds=8.0))
        assert result.green, "\n".join([f"seed {seed}", *result.trace[-40:], result.message])
        pending += sum("while a reset is pending" in line for line in result.trace)
    assert pending >= 4, "else it proves less than it says"


@pytest.mark.slow
def test_steps_of_wall_clocks_end_no_wait(enough: Enough) -> None:
    steps = drains = 0
    for seed in range(4):
        if enough(seed, 1, steps >= 20 and drains >= 4):
            break
        result = run(Plan(seed, faults=STEP_FAULTS, **STEPS))  # type: ignore[arg-type]
        assert result.green, "\n".join([f"seed {seed}", *result.trace[-40:], result.message])
        steps += sum("FAULT clock of" in line for line in result.trace)
        drains += sum("ChannelDrained(" in line for line in result.trace)
    assert steps >= 20 and drains >= 4, "else it proves less than it says"
