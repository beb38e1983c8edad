"""Decides whether a mutant is caught: a run shows it by the words of its invariant, and is green without it."""

from collections.abc import Callable
from dataclasses import replace
from math import ceil
from typing import Final

from tests.simulation.mutants import Mutant
from tests.simulation.plan import Plan
from tests.simulation.run import Result, run

SEEDS_MAX: Final = 6  # of which one must show it; the first that is tried does, unless draws changed


def check_caught(mutant: Mutant, plan: Callable[[int], Plan]) -> None:
    """Plays plans by seed with the mutant until one turns red, then that plan without it.

    Raises `AssertionError` when none turns red, when another invariant does, or when the sound run is not green.
    """
    planned, red = _red_run(mutant, plan)
    print(f"{mutant.name}: seed {planned.seed}: {red.invariant}: {red.message}")
    assert red.invariant.startswith(mutant.invariant)
    sound = run(until_seen(planned, red), lines=20)
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


def until_seen(plan: Plan, red: Result) -> Plan:
    """The plan without faults that came after a red run had ended: all before comes at the same times.

    A green run of it proves that what the red one saw is green without its mutant, and what follows when all is healed.
    """
    if plan.flood or plan.latecomers:  # these divide the time of faults
        return plan
    return replace(plan, fault_seconds=min(plan.fault_seconds, ceil(red.simulated_seconds)))
