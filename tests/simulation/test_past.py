"""The past stays what it was (I19), while histories are compacted, archives break and stores are restored."""

from dataclasses import replace
from typing import Final

import pytest
from _pytest.mark import ParameterSet

from tests.simulation.mutants import Mutant
from tests.simulation.mutants_past import PAST, PAST_FAULTS, PAST_MUTANTS
from tests.simulation.mutants_restored import RESTORE_FAULTS, RESTORES
from tests.simulation.plan import Plan
from tests.simulation.run import Result, run

MANY_SEEDS: Final = 40
SEEDS_MAX: Final = 12  # that a mutant may live through
SEEN: Final = ("is lost", "a byte of", "is full", "is away")


def plan(seed: int) -> Plan:
    """Two archives for each service, broken now and then, and never both of what they hold."""
    return Plan(seed, faults=PAST_FAULTS, **PAST)  # type: ignore[arg-type]


def restored(seed: int) -> Plan:
    """A store that is put back to a backup; archives keep what it has forgotten, which is never told."""
    return replace(Plan(seed, faults=RESTORE_FAULTS, **RESTORES), remembers=True)  # type: ignore[arg-type]


def played(planned: Plan) -> Result:
    """A run that must be green, and in which many answers were given again."""
    result = run(planned)
    assert result.green, "\n".join([f"seed {planned.seed}", *result.trace[-40:], result.message])
    assert any("PAST is as it was: " in line for line in result.trace)
    return result


def confirmed(result: Result) -> int:
    """How many answers replicas gave again, alike."""
    line = next(line for line in result.trace if "PAST is as it was: " in line)
    return int(line.partition("was: ")[2].split()[0])


@pytest.mark.slow
def test_the_past_is_told_as_it_was_though_archives_break() -> None:
    result = played(plan(1))
    assert confirmed(result) > 100
    found = {word for word in SEEN if any(word in line for line in result.trace)}
    assert found == {*SEEN}, "else it proves less than it says"


@pytest.mark.slow
def test_a_restored_store_tells_no_forgotten_future() -> None:
    result = played(restored(3))
    assert any("StoreRestored()" in line for line in result.trace), "else it proves less than it says"
    assert confirmed(result) > 50


@pytest.mark.extended
@pytest.mark.timeout(2400)
def test_many_pasts_are_told_as_they_were() -> None:
    for seed in range(MANY_SEEDS):
        played(restored(seed) if seed % 4 == 0 else plan(seed))


def _case(mutant: Mutant) -> ParameterSet:
    usual = mutant in PAST_MUTANTS[:1]
    return pytest.param(mutant, id=mutant.name, marks=pytest.mark.slow if usual else pytest.mark.extended)


@pytest.mark.parametrize("mutant", [_case(mutant) for mutant in PAST_MUTANTS])
def test_a_mutant_is_caught(mutant: Mutant) -> None:
    for seed in dict.fromkeys((mutant.shown_by, *range(SEEDS_MAX))):
        with mutant.at_work():
            result = run(mutant.plan(seed), lines=1)
        if not result.green:
            print(f"{mutant.name}: seed {seed}: {result.invariant}: {result.message}")
            assert result.invariant.startswith(mutant.invariant)
            return
    pytest.fail(f"{mutant.name} lived through {SEEDS_MAX} seeds")
