"""A tenant keeps within its quotas, and is let in again, whatever befalls the services and its own calls."""

import pytest

from testbed.checkers.tenants import WithinQuota
from tests.simulation.plan import Plan
from tests.simulation.run import run

pytestmark = pytest.mark.slow


def test_a_tenant_keeps_its_quota_and_its_door_under_kills() -> None:
    faults = ("kill-service", "pause-service", "cut-services", "slow-store", "lose-answers")
    result = run(Plan(1, 20.0, faults=faults, tenants=True))
    assert result.green, "\n".join([*result.trace[-40:], result.message])
    quota = next(each for each in result.checkers if isinstance(each, WithinQuota))
    assert quota.made > 5, "else it proves less than it says"
