"""The event store is restored from a backup under a mesh that runs: nothing unread is deleted, all is consumed."""

from typing import Final

import pytest

from tests.simulation.mutants import Mutant
from tests.simulation.mutants_restored import RESTORE_FAULTS, RESTORE_MUTANTS, RESTORES
from tests.simulation.plan import Plan
from tests.simulation.run import Result, run

SEEDS: Final = 2  # each seed is 4 s of computing
MANY_SEEDS: Final = 40
SEEN: Final = ("StoreRestored()", "found=True", "TopicDeleted(")


def plan(seed: int) -> Plan:
    """Two restores at most, with traffic moved about before and after; every third group is exclusive."""
    return Plan(seed, faults=RESTORE_FAULTS, exclusive=seed % 3 == 0, **RESTORES)  # type: ignore[arg-type]


def played(seed: int) -> Result:
    """A run that must be green."""
    result = run(plan(seed))
    assert result.green, "\n".join([f"seed {seed}", *result.trace[-40:], result.message])
    return result


def seen(results: list[Result]) -> set[str]:
    """The expected events that happened in any of the runs."""
    return {word for word in SEEN if any(word in line for result in results for line in result.trace)}


@pytest.mark.slow
def test_a_restored_store_loses_nothing_and_keeps_unread_records() -> None:
    assert seen([played(seed) for seed in range(2, 2 + SEEDS)]) == {*SEEN}, "else it proves less than it says"


@pytest.mark.extended
def test_many_stores_of_yesterday() -> None:
    for seed in range(MANY_SEEDS):
        played(seed)


@pytest.mark.extended
@pytest.mark.parametrize("mutant", RESTORE_MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_is_caught(mutant: Mutant) -> None:
    found: list[str] = []
    for seed in range(MANY_SEEDS):
        with mutant.at_work():
            result = run(plan(seed), lines=1)
        found += [] if result.green else [f"seed {seed}: {result.invariant}: {result.message}"]
        if not result.green and result.invariant.startswith(mutant.invariant):
            print(f"{mutant.name}: {found[-1]}")
            return
    pytest.fail(f"{mutant.name} lived through {MANY_SEEDS} seeds: {found}")
