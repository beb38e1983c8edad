"""Operators at work under faults: their rules are kept at every instant, and nothing else breaks."""

import json
import random
from collections.abc import Mapping
from typing import Any

import pytest

from braid.kernel.ports import HistoryId
from testbed.checkers.facts import Folded
from tests.simulation.operations import KeptRules
from tests.simulation.plan import Plan
from tests.simulation.run import run
from tests.simulation.seeds import Enough

FAULTS = (
    *("operate",) * 6,
    *("kill-member", "leave-group", "pause-member", "kill-service", "pause-service", "cut-member", "late-append"),
    *("lose-answers", "move-stream", "compact-store", "kill-cluster"),
)


KINDS = ("MemberDrainStarted", "MemberDrained", "MemberBanned", "LeasePinned", "GroupFrozen", "CapacitySet")


@pytest.mark.slow
def test_rules_are_kept_under_faults(enough: Enough) -> None:
    seen: set[str] = set()
    for seed in range(8):
        if enough(seed, 1, seen == set(KINDS)):
            break
        exclusive = random.Random(f"operations/{seed}").random() < 0.4
        result = run(Plan(seed, 45.0, exclusive=exclusive, faults=FAULTS))
        assert result.green, "\n".join([f"seed {seed}", *result.trace[-40:], result.message])
        seen |= {kind for kind in KINDS if any(f" {kind}(" in line for line in result.trace)}
    assert seen == set(KINDS)  # else it proves less than it says


def state(rules: Mapping[str, Any], stage: int, holder: str, epoch: int) -> bytes:
    """A group's state as it is folded."""
    return json.dumps(
        {
            "members": [{"id": "01", "client_id": "web-1"}, {"id": "02", "client_id": "web-2"}],
            "channels": [{"id": "logs/live/1", "cluster": "east"}],
            "leases": {"logs/live/1/0": [stage, holder, epoch, 0, 0, "balanced"]},
            "rules": {"drains": {}, "bans": [], "pins": {}, "freeze": None, **rules},
        }
    ).encode()


@pytest.mark.parametrize(
    ("rules", "told"),
    [
        ({}, ""),
        ({"drains": {"web-1": {}}}, "drained"),
        ({"drains": {"web-2": {}}}, ""),
        ({"bans": [{"member": "web-1", "path": "logs/live", "cluster": ""}]}, "banned"),
        ({"bans": [{"member": "01", "path": "", "cluster": "east"}]}, "banned"),
        ({"bans": [{"member": "web-1", "path": "logs/liv", "cluster": ""}]}, ""),
        ({"pins": {"logs/live/1/0": {"member": "web-2", "strict": True}}}, "pinned to web-2 only"),
        ({"pins": {"logs/live/1/0": {"member": "web-2", "strict": False}}}, ""),
    ],
)
def test_the_checker_sees_a_grant_against_a_rule(rules: Mapping[str, Any], told: str) -> None:
    history = HistoryId("assigner", "group", "g")
    checker = KeptRules()
    assert list(checker.see(Folded("a", history, 1, state({}, 1, "", 0)))) == []
    found = list(checker.see(Folded("a", history, 2, state(rules, 2, "01", 7))))
    assert bool(found) == bool(told) and all(told in each for each in found)


def test_the_checker_takes_each_group_by_itself() -> None:
    one, other = (HistoryId("assigner", "group", name) for name in ("g", "h"))
    drained: Mapping[str, Any] = {"drains": {"web-1": {}}}
    checker = KeptRules()
    assert list(checker.see(Folded("a", other, 9, state({}, 1, "", 0)))) == []
    assert list(checker.see(Folded("a", one, 1, state({}, 2, "01", 7)))) == []
    assert list(checker.see(Folded("a", other, 10, state({}, 1, "", 0)))) == []
    assert list(checker.see(Folded("a", one, 2, state(drained, 2, "01", 7)))) == [], "it was granted before"
    assert list(checker.see(Folded("a", one, 3, state(drained, 2, "01", 8)))), "and now it is granted anew"


def test_the_checker_sees_a_move_in_a_frozen_group() -> None:
    history = HistoryId("assigner", "group", "g")
    checker, frozen = KeptRules(), {"freeze": {"since_ms": 1, "reason": ""}}
    assert list(checker.see(Folded("a", history, 1, state(frozen, 2, "01", 7)))) == []
    assert list(checker.see(Folded("a", history, 2, state(frozen, 3, "01", 7))))
