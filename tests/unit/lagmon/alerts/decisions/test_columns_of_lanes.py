"""Columns fire, resolve and hold pending what the same rules do lane by lane, over days in which everything happens."""

import random
from collections.abc import Generator, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from braid.kernel.limits.lagmon.alerts import ALERT_CHANGES_AT_ONCE, ALERTS_OPEN_MAX
from services.lagmon.alerts.decisions import domain, evaluation, group_rules
from services.lagmon.alerts.decisions.domain import Alerts, AlertsDecider
from services.lagmon.alerts.decisions.evaluation import Evaluation, Look, open_keys
from services.lagmon.alerts.decisions.events import AlertFired, AlertResolved
from services.lagmon.alerts.decisions.facts import (
    ClusterFacts,
    Facts,
    GroupFacts,
    Health,
    StreamFacts,
    TopicFacts,
)
from services.lagmon.alerts.decisions.lanes.numbers import NumberedLanes
from services.lagmon.alerts.decisions.model import RULES, AlertKey
from services.lagmon.alerts.decisions.tracker import Pending
from services.lagmon.model.lag import LagRow, RowKey, Source
from tests.support.examples import examples
from tests.unit.lagmon.alerts.decisions.plain_evaluation import PlainEvaluation
from tests.unit.lagmon.alerts.decisions.test_domain import played

CLUSTERS = ("east", "west")
GROUPS = ("a", "b", "c")
STREAMS = ("logs", "orders")
LANES = ("bulk", "live")
LOOKS = 45


class World:
    """Groups with their offsets, and the mesh around them."""

    def __init__(self, seed: int) -> None:
        self.dice = dice = random.Random(seed)
        self.committed = {key: dice.choice([-1, 5_000]) for key in self._keys()}
        self.moods = {key: dice.choice(["well", "behind", "stuck"]) for key in self.committed}
        self.resets = dict.fromkeys(GROUPS, 0)
        self.away: set[object] = set()

    def _keys(self) -> Iterator[RowKey]:
        for group in GROUPS:
            for stream in STREAMS:
                for lane in LANES:
                    for cluster in CLUSTERS:
                        for partition in range(5 if lane == "live" else 1):
                            yield RowKey(group, stream, lane, cluster, f"{cluster}.{stream}.{lane}", partition)

    def rows(self) -> list[LagRow]:
        """The lag now, in no order."""
        dice, found = self.dice, list[LagRow]()
        for subject in (*GROUPS, *STREAMS, *CLUSTERS):
            if dice.random() < 0.05:
                self.away ^= {subject}
        for key, committed in self.committed.items():
            if dice.random() < 0.1:
                self.moods[key] = dice.choice(["well", "behind", "behind", "stuck", "rewound", "hot", "foreign"])
            mood = self.moods[key]
            if self.away & {key.group, key.stream, key.cluster}:
                continue
            records = {"well": 0, "hot": 5_000}.get(mood, 9)
            seconds = 0.0 if not records else dice.choice([2.0, 50.0, 400.0])
            unknown, stale = dice.random() < 0.02, dice.random() < 0.02
            source = Source.UNKNOWN if unknown else Source.ENVELOPE if records else Source.DONE
            found.append(LagRow(key, 1, records, seconds, source, mood == "foreign", stale, 0, committed,
                                unattended=self.resets[key.group] % 2 == 1))  # fmt: skip
            if mood == "rewound":
                self.committed[key], self.moods[key] = max(0, committed - dice.choice([10, 2_000])), "stuck"
            elif mood != "stuck":
                self.committed[key] = max(0, committed) + dice.randrange(40)
        dice.shuffle(found)
        return found

    def facts(self) -> Facts:
        """The mesh now."""
        dice = self.dice
        if dice.random() < 0.1:
            self.resets[dice.choice(GROUPS)] += 1
        streams = {
            name: StreamFacts(
                dice.choice([{"live": 5.0}, {"live": 5.0, "live/b": 100.0, "bulk": 30.0}]),
                0.001,
                frozenset(dice.choice([("east",), CLUSTERS])),
                topics={
                    (cluster, f"{cluster}.{name}.{lane}"): TopicFacts(lane, keeps)
                    for cluster in CLUSTERS
                    for lane, keeps in (("live", 450.0), ("bulk", None))
                },
            )
            for name in STREAMS
            if dice.random() < 0.98
        }
        clusters = {name: ClusterFacts(dice.choice([Health.WELL] * 20 + [Health.DOWN]), "") for name in CLUSTERS}
        groups = {
            name: GroupFacts(("logs",), resets, idle_alerted=resets % 3 == 2) for name, resets in self.resets.items()
        }
        return Facts(streams, clusters, dice.random() < 0.95, groups, dice.random() < 0.95)


class Told(NamedTuple):
    """The events and pending conditions after a look."""

    events: Sequence[object]
    pending: Sequence[object]


def play_world(seed: int, open_max: int = ALERTS_OPEN_MAX, at_once: int = ALERT_CHANGES_AT_ONCE) -> list[Told]:
    """Plays both evaluations over the same looks, and returns what the columns led to."""
    world, told = World(seed), list[Told]()
    plain, columns = PlainEvaluation(), Evaluation()
    states: list[Alerts] = [AlertsDecider().initial("mesh")] * 2
    now = 1_000.0
    for _ in range(LOOKS):
        now += world.dice.choice([1.0, 4.0, 5.0, 5.0, 30.0])
        now_ms, facts = 1_770_000_000_000 + int(now * 1_000), world.facts()
        look = Look(world.rows(), world.dice.random() < 0.9)
        plain.look(look, facts, open_keys(states[0]), now, now_ms)
        columns.look(look, facts, open_keys(states[1]), now, now_ms)
        changes = plain.tracker.changes(open_keys(states[0]))
        states[0], wanted = played(changes, state=states[0], now_ms=now_ms)
        states[1], events = recorded(columns, states[1], now_ms, at_once)
        assert sorted(map(repr, events)) == sorted(map(repr, wanted))
        first = sorted(plain.tracker.pending(open_keys(states[0])), key=urgency)[:open_max]
        pending = columns.pending(open_keys(states[1]))
        assert pending == sorted(first)
        assert {each.key for each in pending} <= set(columns.pending_keys(open_keys(states[1])))
        assert states[0].open == states[1].open
        told.append(Told(events, pending))
    return told


def recorded(columns: Evaluation, state: Alerts, now_ms: int, at_once: int) -> tuple[Alerts, list[object]]:
    """Records what a look led to, until there is nothing more."""
    events: list[object] = []
    while commands := columns.commands(state, now_ms):
        state, some = played(*commands, state=state, now_ms=now_ms)
        assert 0 < len(some) <= at_once
        events += some
    return state, events


def urgency(pending: Pending) -> tuple[int, AlertKey]:
    """Pages come before tickets."""
    return RULES[pending.key.rule].severity, pending.key


@settings(max_examples=examples(10))
@given(st.integers(0, 2**32))
def test_columns_tell_what_the_rules_tell_lane_by_lane(seed: int) -> None:
    play_world(seed)


def test_the_worlds_lead_to_every_rule_about_lanes() -> None:
    told = [each for seed in range(6) for each in play_world(seed)]
    fired = {each.key.rule for one in told for each in one.events if isinstance(each, AlertFired)}
    resolved = {each.reason for one in told for each in one.events if isinstance(each, AlertResolved)}
    assert fired >= {"lag-page", "group-unattended", "partition-stuck", "retention-near", "group-rewound", "group-idle"}
    assert len(resolved) == 2


@pytest.mark.parametrize("at_once", [1, 2, 100])
def test_where_room_is_short_the_same_alerts_fire(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (domain, evaluation, group_rules):
        monkeypatch.setattr(module, "ALERTS_OPEN_MAX", 4)
    monkeypatch.setattr(evaluation, "ALERT_CHANGES_AT_ONCE", at_once)
    for seed in range(6):
        play_world(seed, 4, at_once)


def some_worlds() -> None:
    """Plays enough of them for a broken rule to be found."""
    for seed in range(6):
        play_world(seed)


@pytest.mark.parametrize(
    ("place", "broken"),
    [
        ("rules._CAUSES", {}),
        ("rules.ALERT_HOT_SHARE", 2.0),
        ("rules.ALERT_RETENTION_SHARE", 0.0),
        ("rules.ALERT_UNTARGETED_SECONDS", 10.0),
        ("lanes.tracker.lane_summary", lambda *_: ""),
        ("rewinds.ALERT_REWIND_RECORDS", 1),
        ("stuck.ALERT_STUCK_SECONDS", 1.0),
        ("evaluation.is_on_dead_cluster", lambda *_: False),
        ("evaluation.first_idle", lambda groups: ()),
        ("lanes.clocks.NO", 99),
        ("lanes.clocks.ABSENT", 99),
        ("lanes.columns.stuck_rows", lambda lags, *_: np.zeros(len(lags.pair), np.bool_)),
        ("lanes.columns._add_retention", lambda *_: None),
        ("lanes.declared.keeps_seconds", lambda facts: {}),
        ("lanes.declared.target_of", lambda targets, lane, group: targets.get(lane)),
        ("lanes.rows._renumbered", lambda before, keys: before.pair),
        ("lanes.tracker.ALERT_QUIET_SECONDS", 60.0),
        ("lanes.tracker._IN_TIME", [0.0] * 7),
        ("lanes.tracker._URGENT_FIRST", [0, 1]),
    ],
)
def test_a_broken_column_is_found(place: str, broken: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"services.lagmon.alerts.decisions.{place}", broken)
    with pytest.raises((AssertionError, IndexError)):
        some_worlds()


def test_clocks_that_stay_in_place_while_lanes_move_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    moves = NumberedLanes.moves_from

    def unmoved(lanes: NumberedLanes, before: NumberedLanes) -> Generator[None, None, NDArray[np.int64]]:
        found = yield from moves(lanes, before)
        return np.where(np.arange(len(found)) < len(before.keys), np.arange(len(found)), -1)

    monkeypatch.setattr(NumberedLanes, "moves_from", unmoved)
    with pytest.raises(AssertionError):
        some_worlds()
