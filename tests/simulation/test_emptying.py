"""Clusters are emptied and streams shared under faults: nothing is lost, and what is called empty is."""

import json
import random
from typing import Final

import pytest

from braid.kernel.ports import HistoryId
from testbed.checkers.facts import Folded
from tests.simulation.emptying import HonestlyEmpty
from tests.simulation.plan import Plan
from tests.simulation.run import run
from tests.simulation.seeds import Enough

FAULTS: Final = (
    *("empty-cluster",) * 5,
    *("share-stream",) * 3,
    *("resize-lane",) * 2,
    *("kill-service", "pause-service", "cut-producer", "cut-store", "late-append", "lose-answers", "slow-appends"),
    *("kill-member", "leave-group", "move-stream", "compact-store", "kill-cluster", "cut-cluster"),
)
EVENTS: Final = ("DecommissionIntended", "DecommissionCancelled", "ClusterEmptied")


@pytest.mark.slow
def test_nothing_is_lost_while_clusters_empty_and_streams_share(enough: Enough) -> None:
    seen: set[str] = set()
    for seed in range(6):
        if enough(seed, 2, seen == set(EVENTS)):
            break
        exclusive = random.Random(f"emptying/{seed}").random() < 0.4
        result = run(Plan(seed, 45.0, exclusive=exclusive, faults=FAULTS))
        assert result.green, "\n".join([f"seed {seed}", *result.trace[-40:], result.message])
        seen |= {kind for kind in EVENTS if any(f" {kind}(" in line for line in result.trace)}
    assert seen == set(EVENTS)  # else it proves less than it says


def folded(kind: str, id: str, sequence: int, **state: object) -> Folded:
    """A state as it is folded."""
    written = json.dumps(state, separators=(",", ":")).encode()
    return Folded("a", HistoryId("registry", kind, id), sequence, written)


@pytest.mark.parametrize(
    ("state", "on", "wrong"),
    [("DRAINING", "east", True), ("DRAINED", "east", True), ("RETIRED", "east", False), ("ACTIVE", "west", False)],
)
@pytest.mark.parametrize("late", [False, True], ids=["then", "afterwards"])
def test_the_checker_sees_what_is_left(state: str, on: str, wrong: bool, late: bool) -> None:
    channel = {"cluster": on, "state": state, "ref": ["live", 3]}
    facts = [folded("stream", "logs", 1, channels=[channel]), folded("cluster", "east", 4, emptied=True)]
    checker = HonestlyEmpty()
    found = [message for fact in (reversed(facts) if late else facts) for message in checker.see(fact)]
    assert bool(found) == wrong and all(f"logs/live/3 is {state} there" in each for each in found)
