"""What drains and deletions wait for, while groups are away, progress is reset and clocks step."""

import pytest

from tests.simulation.mutants_waits import RESET_FAULTS
from tests.simulation.plan import Plan
from tests.simulation.run import run


@pytest.mark.timeout(600)
def test_a_reset_during_a_drain_is_never_swallowed() -> None:
    pending = 0
    for seed in range(4):
        result = run(Plan(seed, 45.0, faults=RESET_FAULTS, fault_interval_seconds=8.0))
        assert result.green, "\n".join([f"seed {seed}", *result.trace[-40:], result.message])
        pending += sum("while a reset is pending" in line for line in result.trace)
    assert pending >= 4, "else it proves less than it says"
