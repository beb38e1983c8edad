"""Nothing that needs two persons is done by one, or twice, whatever befalls the services in between."""

import pytest

from testbed.checkers.approvals import TwoPersons
from tests.simulation.plan import Plan
from tests.simulation.run import run

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.extended)])
def test_each_deletion_has_an_approval_of_its_own_under_kills(seed: int) -> None:
    faults = ("kill-service", "pause-service", "cut-services", "slow-store", "lose-answers")
    result = run(Plan(seed, 30.0, faults=faults, approvals=True))
    assert result.green, "\n".join([*result.trace[-40:], result.message])
    approvals = next(each for each in result.checkers if isinstance(each, TwoPersons))
    assert approvals.deleted > 5, "else it proves less than it says"
