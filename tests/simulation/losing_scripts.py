"""Schedules in which logs lose their ends: each shows one defect by construction, in a quarter of a minute.

East carries the traffic at first. It dies, returns without its newest records before anybody has left it, and is
written on at once.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from tests.simulation.losing_plans import CUTS, gaps, losing
from tests.simulation.plan import Plan
from tests.simulation.scripted import Step
from tests.simulation.world import MEMBERS

SETTLE_SECONDS: Final = 10.0  # twice what a sound run takes; a mutant that loses a record waits in vain
CUT_TWICE: Final = (
    Step(5.0, "shorten-logs", "east", 0.6),
    Step(12.0, "shorten-logs", "east", 0.6),
    Step(12.7, "reassign-replicas"),
)
CUT_WITHOUT_MEMBERS: Final = (  # they return to commits of before
    *(Step(4.9, "kill-member", name, 4.0) for name in MEMBERS),
    Step(5.0, "shorten-logs", "east", 0.6),
)
CUT_UNDER_PAUSED_MEMBERS: Final = (  # when they go on, the log is longer than it was
    *(Step(4.9, "pause-member", name, 2.0) for name in MEMBERS),
    Step(5.0, "shorten-logs", "east", 0.3),
)
CUT_AND_LEFT: Final = (Step(5.0, "shorten-logs", "east", 0.6), Step(5.05, "move-stream", "west"))


def cut(script: Sequence[Step]) -> Callable[[int], Plan]:
    """A plan by seed, in which both clusters are used by producers that live on."""
    return lambda seed: _scripted(losing(seed, CUTS), script)


def cut_with_gaps(seed: int) -> Plan:
    """A plan in which most commits spill, and their members are not there when the log is cut."""
    return _scripted(gaps(seed), CUT_WITHOUT_MEMBERS)


def _scripted(plan: Plan, script: Sequence[Step]) -> Plan:
    return replace(plan, script=script, fault_seconds=script[-1].at_seconds + 5.0, settle_seconds=SETTLE_SECONDS)
