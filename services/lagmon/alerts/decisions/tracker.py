"""The clocks of conditions: how long each has held, or not, and what follows for alerts. Pure.

    condition holds ──▶ PENDING ──(for as long as its rule says)──▶ FIRING ──(not for a while)──▶ RESOLVED

Time in which a condition cannot be told moves neither clock. A subject that is gone counts as a condition that does not
hold, but only while everything was heard. So a replica that knows little neither fires nor resolves out of ignorance.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from braid.kernel.limits.lagmon.alerts import ALERT_QUIET_SECONDS
from services.lagmon.alerts.decisions.events import Firing, RecordChanges
from services.lagmon.alerts.decisions.model import RULES, AlertKey, Condition

OVER: Final = "its condition does not hold any more"
GONE: Final = "its subject is gone, or nobody declares a target for it any more"


class Pending(NamedTuple):
    """A condition that holds, and for less time than its rule says."""

    key: AlertKey
    summary: str
    seconds: float


@dataclass(slots=True)
class _Clock:
    held: float = 0.0
    quiet: float = 0.0
    summary: str = ""
    reason: str = ""


class Tracker:
    """The clocks of every condition that holds or held lately, and of every open alert."""

    def __init__(self) -> None:
        self._clocks: dict[AlertKey, _Clock] = {}
        self._holding: dict[AlertKey, bool] = {}

    @property
    def keys(self) -> Collection[AlertKey]:
        """The conditions whose clocks run."""
        return self._clocks.keys()

    def step(
        self, conditions: Mapping[AlertKey, Condition], seconds: float, open_keys: Collection[AlertKey], complete: bool
    ) -> None:
        """Moves the clocks on.

        Args:
            conditions: What the rules say now.
            seconds: Time since the step before.
            open_keys: Alerts that fire.
            complete: Whether everything was heard: a subject without a condition is gone then.
        """
        self._holding = {key: each.holds for key, each in conditions.items() if each.holds is not None}
        for key in open_keys:
            self._clocks.setdefault(key, _Clock())
        for key, holds in self._holding.items():
            if holds:
                clock = self._clocks.get(key)
                if clock is None:
                    clock = self._clocks[key] = _Clock(held=-seconds)  # it begins to hold now
                clock.held, clock.quiet, clock.summary = clock.held + seconds, 0.0, conditions[key].summary
        for key, clock in self._clocks.items():
            gone = complete and key not in conditions
            if gone or self._holding.get(key) is False:
                clock.held, clock.quiet = 0.0, clock.quiet + seconds
                clock.reason = GONE if gone else OVER
        kept = set(open_keys)
        self._clocks = {key: each for key, each in self._clocks.items() if each.quiet == 0.0 or key in kept}

    def pending(self, open_keys: Collection[AlertKey]) -> list[Pending]:
        """Returns conditions that hold and did not fire yet, sorted by key."""
        known = set(open_keys)
        return sorted(
            Pending(key, clock.summary, clock.held)
            for key, clock in self._clocks.items()
            if self._holding.get(key) and key not in known
        )

    def changes(self, open_keys: Collection[AlertKey]) -> RecordChanges:
        """Returns the alerts to fire and to resolve, given those that are open. It may be asked again and again."""
        firing = [
            Firing(each.key, RULES[each.key.rule].severity, each.summary)
            for each in self.pending(open_keys)
            if each.seconds >= RULES[each.key.rule].after_seconds
        ]
        clocks = {key: self._clocks[key] for key in open_keys if key in self._clocks}
        over = [(key.name, each.reason) for key, each in clocks.items() if each.quiet >= ALERT_QUIET_SECONDS]
        return RecordChanges(firing, over)
