"""Two meshes want the same clusters: the second is refused, takes one over, and neither deletes what is the other's."""

from typing import Final

import pytest

from tests.simulation.mutants import Mutant
from tests.simulation.mutants_restored import MESHES, MESHES_FAULTS, MESHES_MUTANTS
from tests.simulation.plan import Plan
from tests.simulation.run import Result, run

MANY_SEEDS: Final = 20
SEEN: Final = ("OTHER MESH is refused", "TakenOver(", "ForeignMarkSeen(", "TopicDeleted(")


def plan(seed: int) -> Plan:
    """The first mesh's traffic is moved about and its clusters are emptied, before and after one of them is taken."""
    return Plan(seed, faults=MESHES_FAULTS, **MESHES)  # type: ignore[arg-type]


def played(seed: int) -> Result:
    """A run that must be green, and in which both meshes have to do with the cluster."""
    result = run(plan(seed))
    assert result.green, "\n".join([f"seed {seed}", *result.trace[-40:], result.message])
    missing = [word for word in SEEN if not any(word in line for line in result.trace)]
    assert not missing, f"seed {seed} proves less than it says: {missing}"
    return result


@pytest.mark.slow
def test_a_mesh_is_refused_anothers_cluster_and_deletes_nothing() -> None:
    played(1)


@pytest.mark.extended
def test_many_meshes() -> None:
    for seed in range(MANY_SEEDS):
        played(seed)


@pytest.mark.extended
@pytest.mark.parametrize("mutant", MESHES_MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_is_caught(mutant: Mutant) -> None:
    for seed in range(MANY_SEEDS):
        with mutant.at_work():
            result = run(plan(seed), lines=1)
        if not result.green:
            print(f"{mutant.name}: seed {seed}: {result.invariant}: {result.message}")
            assert result.invariant.startswith(mutant.invariant)
            return
    pytest.fail(f"{mutant.name} lived through {MANY_SEEDS} seeds")
