"""Each mutant turns its checker red within a few seeds, on a plan that is green without it."""

import pytest
from _pytest.mark import ParameterSet

from tests.simulation.caught import check_caught
from tests.simulation.mutants import MUTANTS, Mutant
from tests.simulation.mutants_approvals import APPROVAL_MUTANTS
from tests.simulation.mutants_health import HEALTH_MUTANTS
from tests.simulation.mutants_identities import IDENTITY_MUTANTS
from tests.simulation.mutants_lanes import LANE_MUTANTS
from tests.simulation.mutants_letters import LETTER_MUTANTS
from tests.simulation.mutants_quotas import QUOTA_MUTANTS
from tests.simulation.mutants_tenants import TENANT_MUTANTS
from tests.simulation.mutants_waits import WAIT_MUTANTS

ALL = (
    *MUTANTS,
    *APPROVAL_MUTANTS,
    *IDENTITY_MUTANTS,
    *HEALTH_MUTANTS,
    *LETTER_MUTANTS,
    *LANE_MUTANTS,
    *QUOTA_MUTANTS,
    *WAIT_MUTANTS,
    *TENANT_MUTANTS,
)
LONG = (  # each costs seconds of a core; another mutant that is played in `make test` turns the same checker red
    "a letter that hides another of its offset",
    "a replay that moves on before it sends",
    "all handlers lent",
    "an admission is not given back",
)
QUICK = ("a ban is not heard", "claims are believed")  # of rules and of producers: in seconds, that checkers see


def _case(mutant: Mutant) -> ParameterSet:
    if mutant.name in QUICK:
        return pytest.param(mutant, id=mutant.name)
    extended = [pytest.mark.extended] if mutant.name in LONG else []
    return pytest.param(mutant, id=mutant.name, marks=[pytest.mark.slow, *extended])


@pytest.mark.parametrize("mutant", [_case(mutant) for mutant in ALL])
def test_a_mutant_is_caught(mutant: Mutant) -> None:
    check_caught(mutant, mutant.plan)
