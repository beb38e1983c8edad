"""Decides whether a mutant is caught: a run shows it by the words of its invariant, and is green without it."""

from collections.abc import Callable
from math import ceil
from typing import Final

from tests.simulation.mutants import Mutant
from tests.simulation.plan import Plan
from tests.simulation.run import Result, run

SEEDS_MAX: Final = 6  # of which one must show it; the first that is tried does, unless draws changed


def check_caught(mutant: Mutant, plan: Callable[[int], Plan]) -> None:
    """Plays plans by seed with the mutant until one turns red, then that plan without it up to the same moment.

    Raises `AssertionError` when none turns red, when another invariant does, or when the sound run is not green.
    """
    planned, red = _red_run(mutant, plan)
    print(f"{mutant.name}: seed {planned.seed}: {red.invariant}: {red.message}")
    assert red.invariant.startswith(mutant.invariant)
    sound = run(planned, lines=20, until_seconds=seen_within(planned, red))
    assert sound.green, "\n".join([*sound.trace, sound.message])


def _red_run(mutant: Mutant, plan: Callable[[int], Plan]) -> tuple[Plan, Result]:
    """A plan that shows the mutant, and its run."""
    for seed in dict.fromkeys((mutant.shown_by, *range(SEEDS_MAX))):
        planned = plan(seed)
        with mutant.at_work():
            result = run(planned, lines=1)
        if not result.green:
            return planned, result
    raise AssertionError(f"{mutant.name} lived through {SEEDS_MAX} seeds")


def seen_within(plan: Plan, red: Result) -> float | None:
    """Simulated seconds after which a sound run has come past all that a red one saw; None: only at its end.

    What turned red while faults were made needs nothing of what comes later. What is asked for once all is healed may
    come later in a sound run than in a broken one.
    """
    return ceil(red.simulated_seconds) if red.simulated_seconds < plan.fault_seconds else None
