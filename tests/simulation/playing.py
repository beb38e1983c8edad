"""Plays one seed in a process of a pool, whose result goes to another process."""

from dataclasses import replace

from tests.simulation.losing_plans import PLANS
from tests.simulation.plan import plan_of
from tests.simulation.run import Result, run


def play(seed: int, seconds: float, plan: str, lines: int = 0) -> Result:
    """Plays this seed, of a plan of that name or of the usual one if it is empty.

    The result can go to another process, its checkers stay here.
    """
    return replace(run(PLANS[plan](seed) if plan else plan_of(seed, seconds), lines), checkers=())
