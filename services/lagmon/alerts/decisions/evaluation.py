"""One replica's windows and clocks of alerts, moved on look by look. Pure: the shell passes the time in."""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from braid.kernel.lag_targets import target_of
from braid.kernel.limits.lagmon.alerts import ALERT_PAST_WAIT_SECONDS, ALERT_SAMPLE_SECONDS_MAX
from services.lagmon.alerts.decisions.burn_rates import BurnRates, SeenTime
from services.lagmon.alerts.decisions.copies import Copies
from services.lagmon.alerts.decisions.disks import Disks
from services.lagmon.alerts.decisions.domain import Alerts
from services.lagmon.alerts.decisions.events import Command, ExpireSilences
from services.lagmon.alerts.decisions.facts import Facts, LaneKey, LaneLag, keeps_seconds, lane_lags
from services.lagmon.alerts.decisions.model import AlertKey
from services.lagmon.alerts.decisions.rewinds import Rewinds
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
        self._copies = Copies()
        self._disks = Disks()
        self._rewinds = Rewinds()
        self._tracker = Tracker()
        self._before: float | None = None
        self._targets: Mapping[LaneKey, float] = {}
        self._complete = False

    def look(self, look: Look, facts: Facts, fired: Collection[AlertKey], now: float, now_ms: int) -> None:
        """Takes in one look.

        Args:
            fired: Alerts that fire.
            now: A clock that never steps.
            now_ms: The wall clock.
        """
        lags = lane_lags(look.rows, self._bases.observe(look.rows, now), keeps_seconds(facts))
        before, self._before = self._before, now
        seconds = 0.0 if before is None else now - before
        self._burns.advance(now)
        self._targets = _targets(lags, facts)
        samples = _samples(lags, self._targets, facts)
        if before is not None and seconds <= ALERT_SAMPLE_SECONDS_MAX:
            known = {key: bad for key, bad in samples.items() if bad is not None}
            self.left_out = self._burns.observe(known, before, now)
        complete = self._complete = look.complete and None not in (
            facts.streams,
            facts.clusters,
            facts.groups,
            facts.certificates,
        )
        if complete:
            self._burns.keep(set(samples))
        if facts.fresh:
            self._copies.observe(facts, now)
            self._disks.observe(facts.clusters or {}, now)
        if complete and facts.groups_fresh:
            self._rewinds.observe(look.rows, facts.groups or {}, now)
        found = conditions(Seen(facts, lags, self._burns, now_ms, now, self._copies, self._disks, self._rewinds))
        self._tracker.step(found, min(seconds, ALERT_SAMPLE_SECONDS_MAX), fired, complete)

    def targets(self, waited_seconds: float) -> Mapping[LaneKey, float]:
        """Returns the targets of all lanes, in seconds; none before everything was heard, or waited for long enough."""
        return self._targets if self._complete or waited_seconds >= ALERT_PAST_WAIT_SECONDS else {}

    def seed(self, keys: Sequence[LaneKey], seen: Sequence[SeenTime], now: float) -> None:
        """Adds what was seen of targets before this replica began."""
        self._burns.advance(now)
        self._burns.seed(keys, seen)

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


def _targets(lags: Mapping[LaneKey, LaneLag], facts: Facts) -> dict[LaneKey, float]:
    """Returns the target of every lane that has one, in seconds."""
    targets: dict[LaneKey, float] = {}
    for key in lags:
        stream = (facts.streams or {}).get(key.stream)
        target = target_of(stream.targets, key.lane, key.group) if stream is not None else None
        if target is not None:
            targets[key] = target
    return targets


def _samples(
    lags: Mapping[LaneKey, LaneLag], targets: Mapping[LaneKey, float], facts: Facts
) -> dict[LaneKey, bool | None]:
    """Returns, for every lane with a target, whether it misses it now.

    None where that is not known, and while a cluster of the stream is down: that time burns no group's budget.
    """
    return {
        key: None if is_on_dead_cluster(key.stream, facts) else is_bad(lags[key], target)
        for key, target in targets.items()
    }
