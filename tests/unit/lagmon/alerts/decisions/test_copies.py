"""Copies that are not in step: told after their time, once for many topics, and not in a rolling restart."""

from collections.abc import Collection

import pytest

from braid.kernel.limits.lagmon.alerts import ALERT_COPIES_SECONDS
from services.lagmon.alerts.decisions.cluster_rules import cluster_conditions
from services.lagmon.alerts.decisions.copies import Copies
from services.lagmon.alerts.decisions.disks import Disks
from services.lagmon.alerts.decisions.facts import (
    ClusterFacts,
    CopiesReading,
    Facts,
    Health,
    StreamFacts,
    TopicFacts,
)

LANES = [f"lane{number}" for number in range(9)]
TOPIC = "topic/topic-under-replicated"


def facts(
    thin: Collection[str] | None, missing: Collection[int] = (), *, health: Health = Health.WELL, moved: str = ""
) -> Facts:
    """A cluster of nine topics, of which some lack copies and one gets others; None for no reading."""
    topics = {("east", lane): TopicFacts(lane, None, lane == moved) for lane in LANES}
    reading = None if thin is None else CopiesReading(tuple(sorted(thin)), len(thin), frozenset(missing))
    return Facts({"logs": StreamFacts(topics=topics)}, {"east": ClusterFacts(health, "", None, reading)})


def found(copies: Copies, mesh: Facts, now: float) -> dict[str, bool | None]:
    """Looks once more, and returns each condition about copies by the alert's name."""
    copies.observe(mesh, now)
    told = cluster_conditions(mesh, copies, Disks(), now)
    return {each.key.name: each.holds for each in told if each.key.rule.endswith("under-replicated")}


def held(seconds: float, *, lanes: int = 1, mesh: Facts | None = None) -> set[str]:
    """The alerts that hold after so many seconds in which some lanes lacked copies."""
    copies = Copies()
    for at in range(0, int(seconds), 5):
        found(copies, facts(LANES[:lanes], {2}), float(at))
    return {name for name, holds in found(copies, mesh or facts(LANES[:lanes], {2}), seconds).items() if holds}


@pytest.mark.parametrize(
    ("seconds", "lanes", "alerts"),
    [
        (ALERT_COPIES_SECONDS - 1, 1, 0),
        (ALERT_COPIES_SECONDS, 1, 1),
        (ALERT_COPIES_SECONDS, 5, 5),
        (ALERT_COPIES_SECONDS, 6, 1),
        (ALERT_COPIES_SECONDS, 9, 1),
    ],
)
def test_topics_that_lack_copies_lead_to_so_many_alerts(seconds: float, lanes: int, alerts: int) -> None:
    names = held(seconds, lanes=lanes)
    assert len(names) == alerts
    assert names <= (
        {"cluster/east/cluster-under-replicated"}
        if lanes > 5
        else {f"stream/logs/topic-under-replicated/{lane}" for lane in LANES[:lanes]}
    )


def test_one_alert_about_the_cluster_leaves_those_of_topics_open() -> None:
    copies = Copies()
    for at in range(0, 700, 5):
        said = found(copies, facts(LANES[: 3 if at < 350 else 7], {2}), float(at))
    assert said["cluster/east/cluster-under-replicated"] is True
    assert {said[f"stream/logs/topic-under-replicated/{lane}"] for lane in LANES} == {None}


def test_a_rolling_restart_is_not_told_and_a_long_absence_is() -> None:
    copies, now = Copies(), 0.0
    for broker in (1, 2, 3):
        for _ in range(int(ALERT_COPIES_SECONDS) - 10):
            now += 1.0
            assert not any(found(copies, facts(LANES[:2], {broker}), now).values())
    for _ in range(20):
        now += 1.0
        said = found(copies, facts(LANES[:2], {3}), now)
    assert list(said.values()).count(True) == 2


def test_a_broker_that_leaves_again_and_again_is_told() -> None:
    copies, fired = Copies(), False
    for at in range(1_200):
        away = at % 100 < 50
        fired |= True in found(copies, facts(LANES[:1], {2} if away else ()), float(at)).values()
    assert fired


def test_a_lack_that_ends_is_over_at_once_and_begins_anew() -> None:
    copies = Copies()
    for at in range(0, 400, 5):
        found(copies, facts(LANES[:1]), float(at))
    lane = "stream/logs/topic-under-replicated/lane0"
    assert found(copies, facts(()), 400.0)[lane] is False
    assert found(copies, facts(LANES[:1]), 405.0)[lane] is True  # a new leader had not looked yet
    found(copies, facts(()), 430.0)
    assert found(copies, facts(LANES[:1]), 435.0)[lane] is False


@pytest.mark.parametrize("mesh", [facts(None), facts(LANES[:1], {2}, health=Health.DOUBTED)])
def test_a_cluster_that_is_not_well_or_not_seen_decides_nothing(mesh: Facts) -> None:
    copies = Copies()
    for at in range(400):
        found(copies, facts(LANES[:1]), float(at))
    assert set(found(copies, mesh, 401.0).values()) == {None}


def test_copies_that_are_being_added_are_no_lack() -> None:
    assert held(ALERT_COPIES_SECONDS, mesh=facts(LANES[:1], {2}, moved=LANES[0])) == set()
