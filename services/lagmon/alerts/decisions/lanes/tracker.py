"""The conditions of all lanes from look to look: what rules say, for how long, and in which lanes. Pure."""

from collections.abc import Collection, Generator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from braid.kernel.limits.lagmon.alerts import ALERT_CHANGES_AT_ONCE, ALERT_QUIET_SECONDS
from services.lagmon.alerts.decisions.facts import LaneKey
from services.lagmon.alerts.decisions.lanes.clocks import Held, LaneClocks
from services.lagmon.alerts.decisions.lanes.numbers import NumberedLanes, number_keys
from services.lagmon.alerts.decisions.lanes.states import ABSENT, States
from services.lagmon.alerts.decisions.model import AlertKey
from services.lagmon.alerts.decisions.rules import LANE_RULES, LanesSeen, lane_alert, lane_summary
from services.lagmon.alerts.decisions.tracker import GONE, OVER, Pending
from services.lagmon.columns.lanes import LaneTable

_PLACES: Final = {rule.name: place for place, rule in enumerate(LANE_RULES)}
_URGENT_FIRST: Final = sorted(_PLACES.values(), key=lambda place: (LANE_RULES[place].severity, LANE_RULES[place].name))
_AT_ONCE: Final = [-np.inf] * len(LANE_RULES)
_IN_TIME: Final = [rule.after_seconds for rule in LANE_RULES]


@dataclass(frozen=True, eq=False, slots=True)
class NextLanes:
    """The lanes of a look, and the number that each had at the look before; -1 for a new one."""

    lanes: NumberedLanes
    before: NDArray[np.int64] | None = None


class LaneTracker:
    """The clocks of the conditions of all lanes, and what was seen of them at the last look."""

    def __init__(self) -> None:
        self.lanes = NumberedLanes()
        self._clocks = LaneClocks(len(LANE_RULES))
        self._seen: LanesSeen | None = None

    def numbered(self, table: LaneTable, fired: Collection[AlertKey]) -> Generator[None, None, NextLanes]:
        """Returns the lanes of a look, those with open alerts or running clocks included; yields between slices."""
        lanes = self.lanes if self.lanes.table is table else (yield from number_keys(table))
        first = len(lanes.places) if lanes is self.lanes else 0
        ticking = np.flatnonzero(self._clocks.running.any(axis=0))
        gone = {self.lanes.keys[number] for number in ticking[ticking >= first].tolist()}
        gone |= {LaneKey(key.stream, key.lane, key.group) for key in lane_keys(fired)}
        gone = {key for key in gone if key not in lanes.places}
        if gone != set(lanes.gone):
            lanes = lanes.with_gone(gone)
        if lanes is self.lanes:
            return NextLanes(lanes)
        return NextLanes(lanes, (yield from lanes.moves_from(self.lanes)))

    def step(
        self, now: NextLanes, seen: LanesSeen, said: States, seconds: float, fired: Collection[AlertKey], complete: bool
    ) -> None:
        """Moves the clocks on, as `Tracker.step` does.

        Args:
            now: The lanes of this look.
            seen: What the rules looked at, of the lanes that are not gone.
            said: What they said.
            seconds: Time since the step before.
            fired: Alerts that fire.
            complete: Whether everything was heard: a lane without a condition is gone then.
        """
        if now.before is not None:
            self._clocks.moved(now.before)
        self.lanes, self._seen = now.lanes, seen
        of_gone = np.full((len(said), len(now.lanes.gone)), ABSENT, np.int8)
        self._clocks.step(np.concatenate([said, of_gone], axis=1), seconds, self._opened(fired), complete)

    def pending_keys(self, fired: Collection[AlertKey], most: int) -> list[AlertKey]:
        """Returns conditions that hold and did not fire yet, pages first; no more than are asked for."""
        seen = self._seen
        held = self._held(fired, most, _AT_ONCE)
        return [lane_alert(LANE_RULES[each.rule], seen.keys[each.lane]) for each in held] if seen is not None else []

    def pending(self, fired: Collection[AlertKey], most: int) -> Generator[None, None, list[Pending]]:
        """Returns the same conditions with their reasons, yielding where others may get their turn."""
        seen, held = self._seen, self._held(fired, most, _AT_ONCE)
        found: list[Pending] = []
        for at in range(0, len(held), ALERT_CHANGES_AT_ONCE):
            found += _in_words(seen, held[at : at + ALERT_CHANGES_AT_ONCE])
            yield
        return found

    def due(self, fired: Collection[AlertKey], most: int) -> list[Pending]:
        """Returns conditions that have held for as long as their rules say, pages first."""
        return _in_words(self._seen, self._held(fired, most, _IN_TIME))

    def over(self, fired: Collection[AlertKey]) -> list[tuple[str, str]]:
        """Returns the alerts that are over, each with its reason."""
        found: list[tuple[str, str]] = []
        for key in lane_keys(fired):
            rule, lane = _PLACES[key.rule], self._number(key)
            if lane >= 0 and self._clocks.running[rule, lane] and self._clocks.quiet[rule, lane] >= ALERT_QUIET_SECONDS:
                found.append((key.name, GONE if self._clocks.gone[rule, lane] else OVER))
        return found

    def _held(self, fired: Collection[AlertKey], most: int, least_seconds: Sequence[float]) -> list[Held]:
        if most <= 0:
            return []
        return self._clocks.pending(self._opened(fired), _URGENT_FIRST, self.lanes.order, most, least_seconds)

    def _opened(self, fired: Collection[AlertKey]) -> NDArray[np.bool_]:
        opened = np.zeros((len(LANE_RULES), len(self.lanes.keys)), np.bool_)
        for key in lane_keys(fired):
            lane = self._number(key)
            if lane >= 0:
                opened[_PLACES[key.rule], lane] = True
        return opened

    def _number(self, key: AlertKey) -> int:
        return self.lanes.number(LaneKey(key.stream, key.lane, key.group))


def _in_words(seen: LanesSeen | None, held: Sequence[Held]) -> list[Pending]:
    """Says why conditions hold."""
    if seen is None:
        return []
    rules = [(LANE_RULES[each.rule], each) for each in held]
    return [
        Pending(lane_alert(rule, seen.keys[each.lane]), lane_summary(rule, seen, each.lane), each.seconds)
        for rule, each in rules
    ]


def lane_keys(keys: Collection[AlertKey]) -> list[AlertKey]:
    """Returns the keys of alerts about lanes."""
    return [key for key in keys if key.rule in _PLACES]
