"""One replica's windows and clocks of alerts, moved on look by look. Pure: the shell passes the time in."""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from braid.kernel.lag_targets import target_of
from braid.kernel.limits.alerts import ALERT_SAMPLE_SECONDS_MAX
from services.lagmon.alerts.decisions.burn_rates import BurnRates
from services.lagmon.alerts.decisions.domain import Alerts
from services.lagmon.alerts.decisions.events import Command, ExpireSilences
from services.lagmon.alerts.decisions.facts import Facts, LaneKey, LaneLag, lane_lags
from services.lagmon.alerts.decisions.model import AlertKey
from services.lagmon.alerts.decisions.rules import Seen, conditions, is_bad, is_on_dead_cluster
from services.lagmon.alerts.decisions.stuck import BaseOffsets
from services.lagmon.alerts.decisions.tracker import Pending, Tracker
from services.lagmon.model.lag import LagRow


class Look(NamedTuple):
    """The lag of all groups at one moment.

    Attributes:
        complete: Whether all clusters' offsets were read, and the assigner was heard.
    """

    rows: Sequence[LagRow]
    complete: bool


class Evaluation:
    """The windows and clocks of one replica, moved on look by look. Pure: the shell passes the time in."""

    def __init__(self) -> None:
        self.left_out = 0
        self._burns: BurnRates[LaneKey] = BurnRates()
        self._bases = BaseOffsets()
        self._tracker = Tracker()
        self._before: float | None = None

    def look(self, look: Look, facts: Facts, fired: Collection[AlertKey], now: float, now_ms: int) -> None:
        """Takes in one look.

        Args:
            fired: Alerts that fire.
            now: A clock that never steps.
            now_ms: The wall clock.
        """
        lags = lane_lags(look.rows, self._bases.observe(look.rows, now))
        before, self._before = self._before, now
        seconds = 0.0 if before is None else now - before
        self._burns.advance(now)
        samples = _samples(lags, facts)
        if before is not None and seconds <= ALERT_SAMPLE_SECONDS_MAX:
            known = {key: bad for key, bad in samples.items() if bad is not None}
            self.left_out = self._burns.observe(known, before, now)
        complete = look.complete and facts.streams is not None and facts.clusters is not None
        if complete:
            self._burns.keep(set(samples))
        found = conditions(Seen(facts, lags, self._burns, now_ms))
        self._tracker.step(found, min(seconds, ALERT_SAMPLE_SECONDS_MAX), fired, complete)

    def pending(self, fired: Collection[AlertKey]) -> list[Pending]:
        """Returns conditions that hold and did not fire yet."""
        return self._tracker.pending(fired)

    def commands(self, state: Alerts, now_ms: int) -> list[Command]:
        """Returns the commands that bring the history up to what was seen; none when there is nothing to record."""
        found: list[Command] = []
        changes = self._tracker.changes(open_keys(state))
        if changes.firing or changes.resolved:
            found.append(changes)
        if any(each.expire_ms <= now_ms for each in state.silences.values()):
            found.append(ExpireSilences())
        return found


def open_keys(state: Alerts) -> list[AlertKey]:
    """Returns the keys of the alerts that fire."""
    return [each.key for each in state.open.values()]


def _samples(lags: Mapping[LaneKey, LaneLag], facts: Facts) -> dict[LaneKey, bool | None]:
    """Returns, for every lane with a target, whether it misses it now.

    None where that is not known, and while a cluster of the stream is down: that time burns no group's budget.
    """
    samples: dict[LaneKey, bool | None] = {}
    for key, lag in lags.items():
        stream = (facts.streams or {}).get(key.stream)
        target = target_of(stream.targets, key.lane, key.group) if stream is not None else None
        if target is not None:
            samples[key] = None if is_on_dead_cluster(key.stream, facts) else is_bad(lag, target)
    return samples
