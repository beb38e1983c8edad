"""One replica's windows and clocks of alerts, moved on look by look. Pure: the shell passes the time in."""

from collections.abc import Collection, Generator, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from braid.kernel.limits.lagmon.alerts import (
    ALERT_CHANGES_AT_ONCE,
    ALERT_PAST_WAIT_SECONDS,
    ALERT_SAMPLE_SECONDS_MAX,
    ALERT_TARGETS_MAX,
    ALERTS_OPEN_MAX,
)
from braid.kernel.limits.lagmon.sampling import LAG_SLICE_NAMES
from braid.kernel.timing.slices import finished
from services.lagmon.alerts.decisions.burn_rates import NO_ROW, BurnRates, SeenTime
from services.lagmon.alerts.decisions.copies import Copies
from services.lagmon.alerts.decisions.disks import Disks
from services.lagmon.alerts.decisions.domain import Alerts
from services.lagmon.alerts.decisions.events import Command, ExpireSilences, Firing, RecordChanges
from services.lagmon.alerts.decisions.facts import Facts, LaneKey
from services.lagmon.alerts.decisions.group_rules import first_idle
from services.lagmon.alerts.decisions.lanes.columns import LaneColumns, sum_lanes
from services.lagmon.alerts.decisions.lanes.declared import Declarations, Declared
from services.lagmon.alerts.decisions.lanes.numbers import NumberedLanes
from services.lagmon.alerts.decisions.lanes.states import UNKNOWN, YES, where
from services.lagmon.alerts.decisions.lanes.tracker import LaneTracker, NextLanes, lane_keys
from services.lagmon.alerts.decisions.model import GROUP_IDLE, RULES, AlertKey, Condition
from services.lagmon.alerts.decisions.rewinds import Rewinds, RewoundLanes
from services.lagmon.alerts.decisions.rules import (
    LanesSeen,
    Seen,
    is_bad,
    is_on_dead_cluster,
    lane_states,
    mesh_conditions,
)
from services.lagmon.alerts.decisions.stuck import BaseOffsets
from services.lagmon.alerts.decisions.tracker import Pending, Tracker
from services.lagmon.columns.gathered import channel_columns
from services.lagmon.columns.lanes import LaneTable, number_lanes
from services.lagmon.model.lag import LagRow

_CONDITIONS_AT_ONCE: Final = 500  # found in a row, some milliseconds


class Look(NamedTuple):
    """The lag of all groups at one moment.

    Attributes:
        complete: Whether all clusters' offsets were read, and the assigner was heard.
    """

    rows: Sequence[LagRow]
    complete: bool


class _Looked(NamedTuple):
    """The findings of the slices of a look; the rest follows from them at once."""

    lanes: NextLanes
    lags: LaneColumns
    declared: Declared
    conditions: Mapping[AlertKey, Condition]
    burn_rows: NDArray[np.int64]
    complete: bool


class Evaluation:
    """The windows and clocks of one replica, moved on look by look. Pure: the shell passes the time in."""

    def __init__(self) -> None:
        self.left_out = 0
        self._burns: BurnRates[LaneKey] = BurnRates()
        self._bases = BaseOffsets()
        self._copies = Copies()
        self._disks = Disks()
        self._rewinds = Rewinds()
        self._table = LaneTable()
        self._declarations = Declarations()
        self._idle: tuple[Mapping[str, object] | None, Sequence[str]] = (None, ())
        self._tracker = Tracker()
        self._lane_tracker = LaneTracker()
        self._before: float | None = None
        self._targets: tuple[NumberedLanes, NDArray[np.float64]] = (NumberedLanes(), np.zeros(0))
        self._burn_rows: tuple[Mapping[LaneKey, int], int, NDArray[np.int64]] = ({}, 0, np.zeros(0, np.int64))
        self._complete = False

    def look(self, look: Look, facts: Facts, fired: Collection[AlertKey], now: float, now_ms: int) -> None:
        """Takes in one look.

        Args:
            fired: Alerts that fire.
            now: A clock that never steps.
            now_ms: The wall clock.
        """
        finished(self.looking(look, facts, fired, now, now_ms))

    def looking(
        self, look: Look, facts: Facts, fired: Collection[AlertKey], now: float, now_ms: int
    ) -> Generator[None, None, None]:
        """Takes in one look as `look` does, yielding where others may get their turn.

        Until it ends, everything that may be asked is answered from the look before. One look is taken at a time.
        """
        looked = yield from self._looked(look, facts, fired, now, now_ms)
        before, self._before = self._before, now
        seconds = 0.0 if before is None else now - before
        self._burns.advance(now)
        rows = self._observe(looked, before, now)
        yield
        seen = self._lanes_seen(looked, rows, facts.groups_fresh)
        said = lane_states(seen)
        yield
        capped = min(seconds, ALERT_SAMPLE_SECONDS_MAX)
        self._lane_tracker.step(looked.lanes, seen, said, capped, fired, looked.complete)
        of_mesh = set(fired).difference(lane_keys(fired))
        self._tracker.step(looked.conditions, capped, of_mesh, looked.complete)
        self._complete = looked.complete

    def targets(self, waited_seconds: float) -> Mapping[LaneKey, float]:
        """Returns the targets of lanes, in seconds; none before everything was heard, or waited for long enough.

        No more than have windows: those that have one already come first.
        """
        if not self._complete and waited_seconds < ALERT_PAST_WAIT_SECONDS:
            return {}
        lanes, targets = self._targets
        declared = np.flatnonzero(~np.isnan(targets))
        rows = self._burns.rows([lanes.keys[number] for number in declared.tolist()])
        chosen = declared[np.argsort(rows == NO_ROW, kind="stable")][:ALERT_TARGETS_MAX]
        return {lanes.keys[number]: float(targets[number]) for number in np.sort(chosen).tolist()}

    def seed(self, keys: Sequence[LaneKey], seen: Sequence[SeenTime], now: float) -> None:
        """Adds what was seen of targets before this replica began; not while a look is taken."""
        self._burns.advance(now)
        self._burns.seed(keys, seen)

    def pending(self, fired: Collection[AlertKey]) -> list[Pending]:
        """Returns conditions that hold and did not fire yet, sorted; pages first, and no more than may fire at all."""
        return finished(self.listing(fired))

    def listing(self, fired: Collection[AlertKey]) -> Generator[None, None, list[Pending]]:
        """Returns them as `pending` does, yielding where others may get their turn."""
        of_mesh = self._tracker.pending(fired)
        of_lanes = yield from self._lane_tracker.pending(fired, ALERTS_OPEN_MAX)
        return sorted(sorted([*of_mesh, *of_lanes], key=_urgency)[:ALERTS_OPEN_MAX])

    def pending_keys(self, fired: Collection[AlertKey]) -> list[AlertKey]:
        """Returns the keys of conditions that hold and did not fire yet, pages first where there are many."""
        of_mesh = [each.key for each in self._tracker.pending(fired)]
        return [*of_mesh, *self._lane_tracker.pending_keys(fired, ALERTS_OPEN_MAX)]

    def commands(self, state: Alerts, now_ms: int) -> list[Command]:
        """Returns commands that bring the history up to what was seen; none when there is nothing to record.

        Where much changed they record a part of it; what is left is found when this is asked again.
        """
        found: list[Command] = []
        changes = self._changes(open_keys(state))
        if changes.firing or changes.resolved:
            found.append(changes)
        if any(each.expire_ms <= now_ms for each in state.silences.values()):
            found.append(ExpireSilences())
        return found

    def _changes(self, fired: Collection[AlertKey]) -> RecordChanges:
        """Returns alerts to resolve, then alerts to fire for which there is room, pages first."""
        of_mesh = self._tracker.changes(fired)
        over = [*of_mesh.resolved, *self._lane_tracker.over(fired)][:ALERT_CHANGES_AT_ONCE]
        room = min(ALERTS_OPEN_MAX - len(fired) + len(over), ALERT_CHANGES_AT_ONCE - len(over))
        due = self._lane_tracker.due(fired, room)
        firing = [*of_mesh.firing, *(Firing(each.key, RULES[each.key.rule].severity, each.summary) for each in due)]
        return RecordChanges(sorted(firing, key=lambda each: (each.severity, each.key))[: max(0, room)], over)

    # --- the parts of a look

    def _looked(
        self, look: Look, facts: Facts, fired: Collection[AlertKey], now: float, now_ms: int
    ) -> Generator[None, None, _Looked]:
        parts = channel_columns(look.rows)
        table = self._table = yield from number_lanes(parts, self._table)
        lanes = yield from self._lane_tracker.numbered(table, fired)
        declared = yield from self._declarations.follow(lanes.lanes, facts, is_on_dead_cluster)
        bases = yield from self._bases.follow(parts)
        lags = yield from sum_lanes(table, parts, bases, declared.keeps, now)
        heard = (facts.streams, facts.clusters, facts.groups, facts.certificates)
        complete = look.complete and None not in heard
        rewound = self._rewinds.found
        if complete and facts.groups_fresh:
            rewound = yield from self._rewinds.observing(table, parts, facts.groups or {}, now)
        if facts.fresh:
            self._copies.observe(facts, now)
            self._disks.observe(facts.clusters or {}, now)
        yield
        seen = Seen(self._with_few_groups(facts, fired), {}, self._burns, now_ms, now, self._copies, self._disks)
        conditions: dict[AlertKey, Condition] = {}
        for each in mesh_conditions(seen):
            conditions[each.key] = each
            if not len(conditions) % _CONDITIONS_AT_ONCE:
                yield
        rows = yield from self._rows_of_targets(lanes.lanes)
        self._rewinds.found = rewound
        return _Looked(lanes, lags, declared, conditions, rows, complete)

    def _observe(self, looked: _Looked, before: float | None, now: float) -> NDArray[np.int64]:
        """Adds the time since the look before to the windows of all targets; returns each lane's row."""
        keys, lags, declared = looked.lanes.lanes.keys, looked.lags, looked.declared
        there = (lags.partitions > 0) & ~np.isnan(declared.targets)
        self._targets = (looked.lanes.lanes, np.where(there, declared.targets, np.nan))
        bad = where(there & ~declared.dead, is_bad(lags, declared.targets), UNKNOWN)
        rows = looked.burn_rows
        if before is not None and now - before <= ALERT_SAMPLE_SECONDS_MAX:
            known = np.flatnonzero(bad != UNKNOWN)
            new = known[rows[known] == NO_ROW][: self._burns.room]
            rows[new] = self._burns.claim([keys[number] for number in new.tolist()])
            self._burns.observe_rows(rows[known], bad[known] == YES, before, now)
            self.left_out = int((rows[known] == NO_ROW).sum())
        if looked.complete and int((rows[there] != NO_ROW).sum()) != len(self._burns):
            self._burns.keep({keys[number] for number in np.flatnonzero(there & (rows != NO_ROW)).tolist()})
            rows[~there] = NO_ROW
        self._burn_rows = (looked.lanes.lanes.places, self._burns.changes, rows)
        return rows

    def _rows_of_targets(self, lanes: NumberedLanes) -> Generator[None, None, NDArray[np.int64]]:
        """Returns the row of each lane's windows, looked up where lanes or rows changed."""
        places, changes, rows = self._burn_rows
        if places is lanes.places and changes == self._burns.changes:
            return rows
        found = [np.zeros(0, np.int64)]
        for at in range(0, len(lanes.places), LAG_SLICE_NAMES):
            found.append(self._burns.rows(lanes.keys[at : min(at + LAG_SLICE_NAMES, len(lanes.places))]))
            yield
        return np.concatenate(found)

    def _lanes_seen(self, looked: _Looked, rows: NDArray[np.int64], groups_fresh: bool) -> LanesSeen:
        keys, declared = looked.lanes.lanes.keys, looked.declared
        rewound = self._rewinds.found
        return LanesSeen(
            keys,
            looked.lags,
            looked.lags.partitions > 0,
            declared.listed,
            declared.targets,
            declared.budgets,
            declared.dead,
            self._burns,
            rows,
            (rewound, _rewound_lanes(rewound, looked.lanes.lanes)),
            groups_fresh,
        )

    def _with_few_groups(self, facts: Facts, fired: Collection[AlertKey]) -> Facts:
        """Leaves out groups about which there is nothing to say: they are many, and no clock of theirs runs."""
        groups = facts.groups or {}
        if self._idle[0] is not facts.groups:
            self._idle = (facts.groups, first_idle(groups))
        followed = [key.group for key in (*self._tracker.keys, *fired) if key.rule == GROUP_IDLE.name]
        return replace(facts, groups={name: groups[name] for name in (*self._idle[1], *followed) if name in groups})


def open_keys(state: Alerts) -> list[AlertKey]:
    """Returns the keys of the alerts that fire."""
    return [each.key for each in state.open.values()]


def is_part(command: Command) -> bool:
    """Whether a command records as much as one may: perhaps there is more."""
    return isinstance(command, RecordChanges) and len(command.firing) + len(command.resolved) >= ALERT_CHANGES_AT_ONCE


def _rewound_lanes(found: RewoundLanes, lanes: NumberedLanes) -> NDArray[np.bool_]:
    """Returns in which lanes something went back, which may have been found at an earlier look."""
    if found.names is lanes.table.names:
        return found.spots.flags(len(found.names))
    flags = np.zeros(len(lanes.places), np.bool_)
    for number in np.unique(found.spots.lanes).tolist():
        name = found.names[number]
        place = lanes.places.get(LaneKey(name.stream, name.lane, name.group))
        if place is not None:
            flags[place] = True
    return flags


def _urgency(pending: Pending) -> tuple[int, AlertKey]:
    return RULES[pending.key.rule].severity, pending.key
