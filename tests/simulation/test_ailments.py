"""Clusters ail in every way there is a verdict for: what the registry concludes has its cause, and nothing is lost."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import pytest

from braid.kernel.limits.registry.health import SOLE_WITNESS_SECONDS
from braid.kernel.ports import HistoryId
from testbed.checkers.facts import Acknowledged, Ailing, Fact, Folded, Place
from tests.simulation.ailments import FULL_SECONDS, LATELY_SECONDS, SILENT_SECONDS, HonestHealth
from tests.simulation.plan import Plan
from tests.simulation.run import run
from tests.simulation.scripted import Step
from tests.simulation.seeds import Enough

THRESHOLDS: Final = {"slow_floor_seconds": 0.08, "slow_after_seconds": 10.0}
AILMENTS: Final = (
    *("slow-cluster", "stop-broker", "cut-registries", "cut-producers", "cut-voices", "kill-cluster", "pause-cluster"),
    *("fill-cluster", "cut-members"),
    *("blink-cluster", "blink-cluster", "stall-registry", "stall-registry", "kill-member"),
)
EACH_AILMENT: Final = tuple(Step(4.0 * at, kind) for at, kind in enumerate(dict.fromkeys(reversed(AILMENTS))))
NO_AILMENTS: Final = ("blink-cluster", "blink-cluster", "stall-registry")
REFUSALS: Final = ("deny-applications", "deny-voices", "deny-registries", "stall-registry", "kill-member")
GASPS: Final = ("gasp-cluster", "stall-registry", "cut-voices")
MANY_GASPS: Final = tuple(Step(2.0 + 4.0 * at, "gasp-cluster", ("east", "west")[at // 2 % 2]) for at in range(14))
ONE_HOST_CUT_OFF: Final = (Step(6.0, "cut-applications", "east", SOLE_WITNESS_SECONDS + 6.0),)
EVERY_VERDICT: Final = (  # traffic begins on east, and is on west after that failed
    Step(8.0, "cut-registries", "east", 5.0),
    Step(20.0, "cut-applications", "east", 6.0),
    Step(38.0, "stop-broker", "west", 6.0),
    Step(46.0, "slow-cluster", "east", 14.0),
    Step(64.0, "kill-cluster", "west", 5.0),
)
VERDICTS: Final = ("DEAD", "SLOW", "HALF_DEAD", "PRODUCERS_CUT_OFF", "REGISTRY_CUT_OFF")


def plan(seed: int, faults: Sequence[str], seconds: float, interval: float) -> Plan:
    """A run in which clusters ail, and nothing else is wrong that their judges depend on."""
    return Plan(
        seed,
        seconds,
        faults=faults,
        fault_interval_seconds=interval,
        ailing=True,
        brokers=3,
        voices=3,
        thresholds=THRESHOLDS,
        settle_seconds=120.0,
    )


@pytest.mark.slow
def test_what_ails_clusters_is_named_and_nothing_else_is(enough: Enough) -> None:
    """Every ailment once, the clusters drawn; in `make test-all` then random ones."""
    each = replace(plan(0, (), EACH_AILMENT[-1].at_seconds + 10.0, 5.0), script=EACH_AILMENT)
    result = run(each)
    assert result.green, "\n".join([*result.trace[-60:], result.message])
    assert set(result.faults) == set(AILMENTS), "else it proves less than it says"
    for seed in range(8):
        if enough(seed, 0, seen=True):
            break
        result = run(plan(seed, AILMENTS, 90.0, 5.0))
        assert result.green, "\n".join([f"seed {seed}", *result.trace[-60:], result.message])


@pytest.mark.slow
def test_every_verdict_is_given_for_its_ailment() -> None:
    result = run(replace(plan(0, (), 75.0, 5.0), script=EVERY_VERDICT))
    assert result.green, "\n".join([*result.trace[-60:], result.message])
    given = [verdict for verdict in VERDICTS if any(f"<HealthVerdict.{verdict}:" in line for line in result.trace)]
    assert given == [*VERDICTS]


@pytest.mark.slow
def test_who_is_refused_takes_no_cluster_down_and_loses_nothing(enough: Enough) -> None:
    for seed in range(2):
        if enough(seed, 1, seen=True):
            break
        result = run(plan(seed, REFUSALS, 90.0 if enough.every else 60.0, 5.0))
        assert result.green, "\n".join([f"seed {seed}", *result.trace[-60:], result.message])
        assert not any("Health.DOWN" in line for line in result.trace)
        assert sum(" refuses " in line and "FAULT" in line for line in result.trace) > 4  # else it proves less


@pytest.mark.slow
def test_one_host_that_alone_uses_clusters_is_believed_late(enough: Enough) -> None:
    """By a script; in `make test-all` by random faults, too."""
    cut_off = 0
    scripted = replace(plan(0, (), 40.0, 5.0), script=ONE_HOST_CUT_OFF)
    plans = (plan(seed, ("cut-applications", "kill-member", "stall-registry"), 120.0, 8.0) for seed in range(3))
    for number, each in enumerate((scripted, *plans)):
        if enough(number, 1, cut_off > 0):
            break
        result = run(replace(each, one_host=True))
        assert result.green, "\n".join([f"seed {each.seed}", *result.trace[-60:], result.message])
        cut_off += sum("Health.DOWN" in line and "PRODUCERS_CUT_OFF" in line for line in result.trace)
    assert cut_off > 0  # else it proves less than it says


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "seconds"),
    [
        (0, 120.0),
        pytest.param(0, 900.0, marks=pytest.mark.extended),
        pytest.param(1, 900.0, marks=pytest.mark.extended),
    ],
)
def test_minutes_of_short_pauses_fail_nothing_over(seed: int, seconds: float) -> None:
    """Pauses of both clusters and of the registry, under load: none is called anything but healthy or suspected."""
    result = run(plan(seed, NO_AILMENTS, seconds, 0.8))
    assert result.green, "\n".join([f"seed {seed}", *result.trace[-60:], result.message])
    changes = [line for line in result.trace if "ClusterHealthChanged" in line]
    assert not [line for line in changes if "Health.HEALTHY" not in line and "Health.SUSPECT" not in line]
    assert sum("FAULT" in line for line in result.trace) > seconds


@pytest.mark.slow
def test_pauses_of_a_second_make_suspects_and_no_failovers(enough: Enough) -> None:
    """By a script; in `make test-all` beside other faults, too."""
    suspected = 0
    scripted = replace(plan(0, (), MANY_GASPS[-1].at_seconds + 6.0, 5.0), script=MANY_GASPS)
    for number, each in enumerate((scripted, *(plan(seed, GASPS, 120.0, 5.0) for seed in range(4)))):
        if enough(number, 1, suspected > 4):
            break
        result = run(each)
        assert result.green, "\n".join([f"seed {each.seed}", *result.trace[-60:], result.message])
        suspected += sum("Health.SUSPECT" in line for line in result.trace)
        assert not any("Health.DOWN" in line for line in result.trace)
    assert suspected > 4  # else it proves less than it says


# --- the checker


def folded(sequence: int, health: str) -> Folded:
    state = json.dumps({"health": health}).encode()
    return Folded("a", HistoryId("registry", "cluster", "east"), sequence, state)


def acknowledged() -> Acknowledged:
    return Acknowledged(b"x", Place("east", "t", 0, 1))


@pytest.mark.parametrize(
    ("health", "ailment", "lasts", "since", "wrong"),
    [
        ("DOWN", "", 0.0, 0.0, True),
        ("DOWN", "dead", 0.3, 0.0, True),
        ("DOWN", "dead", 1.5, 0.0, False),
        ("DOWN", "dead", 1.5, LATELY_SECONDS + 1, True),
        ("DOWN", "registry", SILENT_SECONDS + 0.1, 0.0, False),
        ("DOWN", "slow", 20.0, 0.0, True),
        ("SLOW", "slow", 3.0, 0.0, True),
        ("SLOW", "slow", 10.0, 0.0, False),
        ("HALF_DEAD", "dead", 10.0, 0.0, True),
        ("HALF_DEAD", "broker", 4.0, 0.0, False),
        ("SUSPECT", "", 0.0, 0.0, False),
        ("DOWN", "full", 1.5, 0.0, False),
        ("DOWN", "member", 1.5, 0.0, False),
    ],
)
def test_the_checker_asks_for_a_cause(health: str, ailment: str, lasts: float, since: float, wrong: bool) -> None:
    clock = [100.0]
    checker = HonestHealth(lambda: clock[0])
    assert _told(checker, folded(1, "HEALTHY"), acknowledged()) == []
    if ailment:
        assert _told(checker, Ailing("east", ailment, begins=True)) == []
        clock[0] += lasts
        assert _told(checker, Ailing("east", ailment, begins=False)) == []
    clock[0] += since
    assert bool(_told(checker, folded(2, health))) == wrong
    assert _told(checker, folded(2, health)) == []


@pytest.mark.parametrize(("health", "wrong"), [("DOWN", False), ("SUSPECT", True)])
def test_the_checker_asks_that_a_full_cluster_is_seen(health: str, wrong: bool) -> None:
    clock = [100.0]
    checker = HonestHealth(lambda: clock[0])
    _told(checker, Ailing("east", "full", begins=True))
    clock[0] += FULL_SECONDS
    assert _told(checker, folded(1, health)) == []
    assert bool(_told(checker, Ailing("east", "full", begins=False))) == wrong


def test_the_checker_gives_one_host_its_time() -> None:
    for one_host in (False, True):
        clock = [100.0]
        checker = HonestHealth(lambda clock=clock: clock[0], one_host=one_host)  # type: ignore[misc]
        _told(checker, Ailing("east", "producer", begins=True))
        clock[0] += SOLE_WITNESS_SECONDS - 1
        assert bool(_told(checker, folded(1, "DOWN"))) == one_host


def test_a_recent_acknowledgement_contradicts_a_reported_death() -> None:
    clock = [100.0]
    checker = HonestHealth(lambda: clock[0])
    found = _told(checker, Ailing("east", "registry", begins=True))
    clock[0] += 10.0
    found += _told(checker, acknowledged(), folded(2, "DOWN"))
    assert len(found) == 1 and "registry for 10.0 s" in found[0] and "0.00 s ago" in found[0]


def _told(checker: HonestHealth, *facts: Fact) -> list[str]:
    return [message for fact in facts for message in checker.see(fact)]
