"""Each rule's alert, from the first look to the last: it fires while its trouble lasts, and is resolved afterwards."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

import pytest

from braid.kernel.timing.days import DAY_MS
from services.lagmon.alerts.decisions.certificates import ReplicaCertificates, ValidTime
from services.lagmon.alerts.decisions.facts import (
    ClusterFacts,
    CopiesReading,
    DiskReading,
    Facts,
    GroupFacts,
    Health,
    HeldDrain,
    StreamFacts,
    TopicFacts,
)
from services.lagmon.alerts.decisions.model import RULES
from services.lagmon.model.lag import LagRow
from tests.unit.lagmon.alerts.decisions.test_evaluation import Day, row

HOUR: Final = 3_600.0
STREAM: Final = StreamFacts(clusters=frozenset({"east"}), topics={("east", "t"): TopicFacts("live", 1_000.0)})
TARGETED: Final = replace(STREAM, targets={"live": 1.0})
GROUP: Final = GroupFacts(("logs",))
WELL: Final = ClusterFacts(Health.WELL, "")
TOPICS: Final = tuple(f"t{number}" for number in range(9))


class Moment(NamedTuple):
    """The mesh at one look."""

    rows: tuple[LagRow, ...]
    facts: Facts


class Scene(NamedTuple):
    """A trouble and its end.

    Attributes:
        ill: The mesh while the trouble lasts, by the time.
        well: The mesh before and afterwards.
        every: Seconds between two looks.
        fires_within: Seconds from the beginning of the trouble.
        lasts: Seconds of trouble at least.
        resolved_within: Seconds from its end.
        besides: Rules whose alerts come with it.
    """

    ill: Callable[[float], Moment]
    well: Callable[[float], Moment]
    every: float = 5.0
    fires_within: float = 90.0
    lasts: float = 0.0
    resolved_within: float = 20.0
    besides: frozenset[str] = frozenset()


def mesh(
    *rows: LagRow,
    stream: StreamFacts = STREAM,
    cluster: ClusterFacts = WELL,
    group: GroupFacts = GROUP,
    certificate_days: float = 365,
) -> Moment:
    """A mesh of one stream, cluster, group and replica; its groups have done everything unless rows say otherwise."""
    ends_ms = 1_770_000_000_000 + round(certificate_days * DAY_MS)
    replica = ReplicaCertificates(ValidTime(ends_ms - 365 * DAY_MS, ends_ms))
    facts = Facts({"logs": stream}, {"east": cluster}, groups={"indexer": group}, certificates={"dlq-0": replica})
    return Moment(rows or (row(0.0, records=0),), facts)


def always(moment: Moment) -> Callable[[float], Moment]:
    """The same mesh at all times."""
    return lambda now: moment


def behind(now: float, seconds: float = 400.0) -> LagRow:
    """A group that is behind and works all the time."""
    return row(seconds, offset=int(now))


def hot(now: float) -> Moment:
    """Nearly all that is undone lies in one partition of four."""
    rows = [replace(behind(now), key=behind(now).key._replace(partition=number)) for number in range(4)]
    return mesh(replace(rows[0], lag_records=90), *rows[1:])


class Disk:
    """A disk that fills evenly for a while, and then no more."""

    def __init__(self, free: float, per_second: float) -> None:
        self._free = free
        self._per_second = per_second
        self._before: float | None = None

    def fills(self, now: float) -> Moment:
        """The mesh while it fills."""
        self._free -= self._per_second * (now - (now if self._before is None else self._before))
        return self.stays(now)

    def stays(self, now: float) -> Moment:
        """The mesh while it does not."""
        self._before = now
        return mesh(cluster=ClusterFacts(Health.WELL, "", DiskReading(int(now * 1_000), 1, int(self._free), 10**6)))


def copies(*topics: str) -> Moment:
    """Topics of the cluster that lack copies, because broker 2 is away."""
    reading = CopiesReading(topics, len(topics), frozenset({2} if topics else ()))
    return mesh(cluster=ClusterFacts(Health.WELL, "", None, reading))


def scenes() -> Mapping[str, Scene]:
    """A trouble for each rule, by the rule's name."""
    calm, copied = always(mesh()), always(copies())
    slow_disk, fast_disk = Disk(100_000, 1.0), Disk(600, 1.0)
    held = (HeldDrain("live", "logs/live/1", ("indexer",), 0),)

    def missing_target(now: float) -> Moment:
        return mesh(behind(now, 2.0), stream=TARGETED)

    on_target = always(mesh(stream=TARGETED))
    return {
        # A monitor without a past knows of no low burn over six hours: the half hour beside it must be good first.
        "lag-page": Scene(missing_target, on_target, resolved_within=1_900.0),
        "lag-ticket": Scene(
            missing_target,
            on_target,
            fires_within=700.0,
            lasts=300.0,
            resolved_within=6 * HOUR + 600,
            besides=frozenset({"lag-page"}),
        ),
        "group-unattended": Scene(lambda now: mesh(replace(behind(now), unattended=True)), calm),
        "partition-stuck": Scene(always(mesh(row(400.0, offset=7))), calm),
        "partition-hot": Scene(hot, calm, fires_within=320.0),
        "retention-near": Scene(lambda now: mesh(behind(now, 900.0)), calm),
        "failover-blocked": Scene(always(mesh(stream=replace(STREAM, blocked="no other cluster"))), calm),
        "drain-held": Scene(always(mesh(stream=replace(STREAM, drains=held))), calm),
        "cluster-down": Scene(always(mesh(cluster=ClusterFacts(Health.DOWN, "no broker answers"))), calm),
        "cluster-doubted": Scene(always(mesh(cluster=ClusterFacts(Health.DOUBTED, "slow"))), calm),
        "topic-under-replicated": Scene(always(copies("t")), copied, fires_within=330.0, resolved_within=40.0),
        "cluster-under-replicated": Scene(always(copies(*TOPICS)), copied, fires_within=330.0, resolved_within=40.0),
        "disk-page": Scene(fast_disk.fills, fast_disk.stays, 10.0, 200.0, resolved_within=2 * HOUR),
        "disk-ticket": Scene(slow_disk.fills, slow_disk.stays, 120.0, 7 * HOUR, resolved_within=30 * HOUR),
        "group-idle": Scene(always(mesh(group=GroupFacts(("logs",), idle_alerted=True))), calm),
        "group-rewound": Scene(
            always(mesh(row(0.0, records=0, offset=1))), always(mesh(row(0.0, records=0, offset=9_000)))
        ),
        "certificate-page": Scene(always(mesh(certificate_days=2)), calm),
        "certificate-ticket": Scene(always(mesh(certificate_days=20)), calm),
    }


def played(day: Day, scene: Callable[[float], Moment], every: float, until: Callable[[], bool], within: float) -> float:
    """Looks at a mesh until something is so; returns how long that took."""
    began = day.now
    while not until():
        assert day.now - began <= within, day.state
        rows, facts = scene(day.now + every)
        day.look(every, *rows, facts=facts)
    return day.now - began


@pytest.mark.parametrize("rule", RULES)
def test_an_alert_fires_in_its_trouble_and_is_resolved_after(rule: str) -> None:
    day, scene = Day(), scenes()[rule]
    played(day, scene.well, scene.every, lambda: day.now >= 5 * scene.every, 5 * scene.every)
    assert day.told == []

    def fires() -> bool:
        return rule in {each.key.rule for each in day.state.open.values()}

    if scene.lasts:
        began = day.now
        played(day, scene.ill, scene.every, lambda: day.now - began >= scene.lasts, scene.lasts)
        played(day, scene.well, scene.every, fires, scene.fires_within)
    else:
        played(day, scene.ill, scene.every, fires, scene.fires_within)
    (fired,) = [each for each in day.state.open.values() if each.key.rule == rule]
    assert fired.summary
    played(day, scene.well, scene.every, lambda: not day.state.open, scene.resolved_within)
    assert {each.key.rule for each in day.state.resolved} == {rule, *scene.besides}
    assert sorted(day.told) == ["AlertFired"] * (1 + len(scene.besides)) + ["AlertResolved"] * (1 + len(scene.besides))
