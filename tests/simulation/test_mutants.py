"""Each mutant turns its checker red within a few seeds, on a plan that is green without it."""

import pytest
from _pytest.mark import ParameterSet

from tests.simulation.mutants import MUTANTS, Mutant
from tests.simulation.mutants_approvals import APPROVAL_MUTANTS
from tests.simulation.mutants_health import HEALTH_MUTANTS
from tests.simulation.mutants_identities import IDENTITY_MUTANTS
from tests.simulation.mutants_lanes import LANE_MUTANTS
from tests.simulation.mutants_letters import LETTER_MUTANTS
from tests.simulation.mutants_quotas import QUOTA_MUTANTS
from tests.simulation.mutants_tenants import TENANT_MUTANTS
from tests.simulation.mutants_waits import WAIT_MUTANTS
from tests.simulation.run import run

SEEDS_MAX = 6
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
QUICK = ("a ban is not heard", "claims are believed")  # of rules and of producers: in seconds, that checkers see


def _red_seed(mutant: Mutant) -> tuple[int, str]:
    for seed in dict.fromkeys((mutant.shown_by, *range(SEEDS_MAX))):
        with mutant.at_work():
            result = run(mutant.plan(seed), lines=1)
        if not result.green:
            return seed, f"{result.invariant}: {result.message}"
    pytest.fail(f"{mutant.name} lived through {SEEDS_MAX} seeds")


def _case(mutant: Mutant) -> ParameterSet:
    return pytest.param(mutant, id=mutant.name, marks=() if mutant.name in QUICK else pytest.mark.slow)


@pytest.mark.parametrize("mutant", [_case(mutant) for mutant in ALL])
def test_a_mutant_is_caught(mutant: Mutant) -> None:
    seed, reason = _red_seed(mutant)
    print(f"{mutant.name}: seed {seed}: {reason}")
    assert reason.startswith(mutant.invariant)
    sound = run(mutant.plan(seed), lines=20)
    assert sound.green, "\n".join([*sound.trace, sound.message])
