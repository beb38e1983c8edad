"""An ordered stream under moves and dying clusters: older channels first, and nothing is lost over the waiting."""

import json
from typing import Final

import pytest

from braid.kernel.ports import HistoryId
from testbed.checkers.facts import Folded, HandlerStarted, LogId
from tests.simulation.applications import GROUP, STREAM
from tests.simulation.ordering import KeptOrder
from tests.simulation.plan import Plan
from tests.simulation.run import run
from tests.simulation.seeds import seeds

FAULTS: Final = (
    *("move-stream",) * 4,
    *("kill-cluster", "pause-cluster", "kill-service", "pause-service", "cut-store", "late-append", "slow-appends"),
    *("kill-member", "leave-group", "kill-producer", "cut-producer", "resize-lane", "empty-cluster", "share-stream"),
)


@pytest.mark.parametrize("seed", seeds(8))
def test_older_channels_come_first_under_faults(seed: int) -> None:
    result = run(Plan(seed, 45.0, faults=FAULTS, ordered=True, handling_seconds=0.2, settle_seconds=90.0))
    assert result.green, "\n".join([f"seed {seed}", *result.trace[-40:], result.message])


def folded(sequence: int, released: bool = False, lane: str = "live", second: str = "ACTIVE") -> Folded:
    """The stream's state: `one` drains, `two` came after it."""
    channels = [
        {"topic": "one", "ref": [lane, 1], "state": "DRAINING", "drain_revision": 3, "released": False},
        {
            "topic": "two",
            "ref": [lane, 2],
            "state": second,
            "drain_revision": 0 if second == "ACTIVE" else 5,
            "released": released,
        },
        {"topic": "other", "ref": ["bulk", 1], "state": "ACTIVE", "drain_revision": 0, "released": False},
    ]
    history = HistoryId("registry", "stream", STREAM)
    return Folded("a", history, sequence, json.dumps({"channels": channels}).encode())


@pytest.mark.parametrize(
    ("state", "topic", "told"),
    [
        (folded(1), "two", True),
        (folded(1, second="DRAINING"), "two", True),
        (folded(1), "one", False),
        (folded(1, second="DRAINING"), "one", False),
        (folded(1), "other", False),
        (folded(1, released=True), "two", False),
        (folded(1, lane="dlq"), "two", False),
    ],
)
def test_the_checker_sees_what_is_handled_too_early(state: Folded, topic: str, told: bool) -> None:
    checker = KeptOrder()
    assert list(checker.see(state)) == []
    found = list(checker.see(HandlerStarted(GROUP, "web-1", LogId("west", topic, 0), 1)))
    assert bool(found) == told and all("while one still drains" in each for each in found)
