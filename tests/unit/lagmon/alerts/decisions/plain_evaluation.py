"""The evaluation of alerts lane by lane and row by row, as the rules read in words: what columns are compared with."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from braid.kernel.lag_targets import target_of
from braid.kernel.limits.lagmon.alerts import (
    ALERT_HOT_PARTITIONS_MIN,
    ALERT_HOT_SHARE,
    ALERT_RETENTION_LEFT_SECONDS,
    ALERT_RETENTION_SHARE,
    ALERT_REWIND_RECORDS,
    ALERT_REWIND_SECONDS,
    ALERT_SAMPLE_SECONDS_MAX,
    ALERT_STUCK_SECONDS,
    ALERT_UNTARGETED_SECONDS,
)
from services.lagmon.alerts.decisions.burn_rates import FAST, SLOW, STEADY, BurnRates, Window
from services.lagmon.alerts.decisions.copies import Copies
from services.lagmon.alerts.decisions.disks import Disks
from services.lagmon.alerts.decisions.evaluation import Look
from services.lagmon.alerts.decisions.facts import (
    Facts,
    GroupFacts,
    Health,
    LaneKey,
    LaneLag,
    StreamFacts,
    keeps_seconds,
    lane_lags,
)
from services.lagmon.alerts.decisions.model import AlertKey, Condition
from services.lagmon.alerts.decisions.rules import Seen, mesh_conditions
from services.lagmon.alerts.decisions.tracker import Tracker
from services.lagmon.model.lag import LagRow

_CAUSES = {
    "lag-page": ("group-unattended",),
    "lag-ticket": ("group-unattended", "lag-page"),
    "partition-stuck": ("group-unattended",),
    "partition-hot": ("group-unattended", "partition-stuck"),
}
Place = tuple[str, str, int]


class Since(NamedTuple):
    """An offset, and since when it is of interest; None for not."""

    offset: int
    since: float | None = None


class PlainEvaluation:
    """One replica's windows and clocks of alerts."""

    def __init__(self) -> None:
        self.tracker = Tracker()
        self._burns: BurnRates[LaneKey] = BurnRates()
        self._bases: dict[Place, Since] = {}
        self._highest: dict[Place, Since] = {}
        self._resets: dict[str, int] = {}
        self._rewound: dict[LaneKey, tuple[list[int], int]] = {}
        self._copies, self._disks = Copies(), Disks()
        self._before: float | None = None

    def look(self, look: Look, facts: Facts, fired: Collection[AlertKey], now: float, now_ms: int) -> None:
        """Takes in one look."""
        lags = lane_lags(look.rows, self._stuck(look.rows, now), keeps_seconds(facts))
        before, self._before = self._before, now
        seconds = 0.0 if before is None else now - before
        self._burns.advance(now)
        targets = {key: target for key in lags if (target := _target(key, facts)) is not None}
        samples = {key: None if _dead(key, facts) else _bad(lags[key], target) for key, target in targets.items()}
        if before is not None and seconds <= ALERT_SAMPLE_SECONDS_MAX:
            self._burns.observe({key: bad for key, bad in samples.items() if bad is not None}, before, now)
        complete = look.complete and None not in (facts.streams, facts.clusters, facts.groups)
        if complete:
            self._burns.keep(set(samples))
        if facts.fresh:
            self._copies.observe(facts, now)
            self._disks.observe(facts.clusters or {}, now)
        if complete and facts.groups_fresh:
            self._note_offsets(look.rows, facts.groups or {}, now)
        seen = Seen(facts, {}, self._burns, now_ms, now, self._copies, self._disks)
        found = {each.key: each for each in mesh_conditions(seen)}
        of_lanes = {each.key: each for key, lag in lags.items() for each in self._of_lane(key, lag, facts)}
        for key, each in of_lanes.items():
            causes = [of_lanes.get(key._replace(rule=name)) for name in _CAUSES.get(key.rule, ())]
            caused = any(cause is not None and cause.holds for cause in causes)
            found[key] = each._replace(holds=None) if caused or _dead(key, facts) else each
        self.tracker.step(found, min(seconds, ALERT_SAMPLE_SECONDS_MAX), fired, complete)

    def _stuck(self, rows: Sequence[LagRow], now: float) -> frozenset[Place]:
        bases: dict[Place, Since] = {}
        for row in rows:
            if row.lag_records and not row.foreign:
                before = self._bases.get(_place(row))
                stays = before is not None and (row.stale or before.offset == row.committed_offset)
                bases[_place(row)] = before if before is not None and stays else Since(row.committed_offset, now)
        self._bases = bases
        return frozenset(key for key, base in bases.items() if now - (base.since or 0.0) >= ALERT_STUCK_SECONDS)

    def _note_offsets(self, rows: Sequence[LagRow], groups: Mapping[str, GroupFacts], now: float) -> None:
        resets = {name: group.resets for name, group in groups.items()}
        reset = {name for name, count in resets.items() if self._resets.get(name, count) != count}
        highest: dict[Place, Since] = {}
        self._resets, self._rewound = resets, {}
        for row in rows:
            if row.foreign:
                continue
            before = self._highest.get(_place(row)) if row.key.group not in reset else None
            if row.stale or row.committed_offset < 0:
                if before is not None:
                    highest[_place(row)] = before
                continue
            after = highest[_place(row)] = _noted(before, row.committed_offset, now)
            if after.since is not None:
                lane = LaneKey(row.key.stream, row.key.lane, row.key.group)
                partitions, records = self._rewound.get(lane, ([], 0))
                back = after.offset - row.committed_offset
                self._rewound[lane] = ([*partitions, row.key.partition], records + back)
        self._highest = highest

    def _of_lane(self, key: LaneKey, lag: LaneLag, facts: Facts) -> Iterator[Condition]:
        def told(rule: str, holds: bool | None, summary: str) -> Condition:
            return Condition(AlertKey(rule, key.stream, "", key.lane, key.group), holds, summary if holds else "")

        partitions, records = self._rewound.get(key, ([], 0))
        where = ", ".join(map(str, sorted(partitions)[:10]))
        back = f"group {key.group} went back by {records:,} records in partitions {where} of lane {key.lane}"
        yield told("group-rewound", bool(partitions) if facts.groups_fresh else None, f"{back}, and nobody reset it")
        stream = (facts.streams or {}).get(key.stream)
        if stream is None:
            return
        target = _target(key, facts)
        if target is not None:
            for rule, holds, window, over in self._burning(key, lag, target, stream):
                rate = self._burns.rate(key, window, stream.budget)
                text = f"group {key.group} is {lag.seconds:.1f} s behind in lane {key.lane}; its target is {target:g} s"
                yield told(rule, holds, f"{text}, and over {over} its error budget burnt {rate:.1f} times too fast")
        behind = _bad(lag, ALERT_UNTARGETED_SECONDS if target is None else target)
        share = lag.largest / max(1, lag.records)
        hot = lag.partitions >= ALERT_HOT_PARTITIONS_MIN and share > ALERT_HOT_SHARE
        stuck = ", ".join(map(str, sorted(lag.stuck)[:10]))
        for rule, may, what in (
            ("group-unattended", lag.unattended, "has no member for"),
            ("partition-stuck", bool(lag.stuck), f"does not move in partitions {stuck} of"),
            ("partition-hot", hot, f"has {share:.0%} of its lag in one partition of"),
        ):
            text = (
                f"group {key.group} {what} lane {key.lane}; it is {lag.records:,} records, {lag.seconds:.1f} s behind"
            )
            yield told(rule, behind if may else False, text)
        used, left = lag.retention or (0.0, math.inf)
        near = used > ALERT_RETENTION_SHARE and left < ALERT_RETENTION_LEFT_SECONDS
        text = (
            f"the oldest record that group {key.group} has not done in lane {key.lane} has reached {100 * used:.0f} %"
        )
        text += f" of what its topic keeps; Kafka deletes it in {max(0.0, left):.0f} s"
        yield told("retention-near", True if near else False if lag.known else None, text)

    def _burning(
        self, key: LaneKey, lag: LaneLag, target: float, stream: StreamFacts
    ) -> Iterator[tuple[str, bool | None, Window, str]]:
        either = {self._burns.burns(key, each, stream.budget) for each in (FAST, SLOW)}
        burning = True if True in either else None if None in either else False
        yield "lag-page", None if burning and not _bad(lag, target) else burning, FAST.long, "an hour"
        yield "lag-ticket", self._burns.burns(key, STEADY, stream.budget), STEADY.long, "three days"


def _noted(before: Since | None, committed: int, now: float) -> Since:
    if before is None or committed > before.offset - ALERT_REWIND_RECORDS:
        return Since(max(committed, before.offset if before is not None else committed))
    since = now if before.since is None else before.since
    return Since(committed) if now - since >= ALERT_REWIND_SECONDS else Since(before.offset, since)


def _place(row: LagRow) -> Place:
    return row.key.group, row.key.topic, row.key.partition


def _target(key: LaneKey, facts: Facts) -> float | None:
    stream = (facts.streams or {}).get(key.stream)
    return target_of(stream.targets, key.lane, key.group) if stream is not None else None


def _bad(lag: LaneLag, target: float) -> bool | None:
    return True if lag.seconds > target else False if lag.known else None


def _dead(key: LaneKey | AlertKey, facts: Facts) -> bool:
    stream = (facts.streams or {}).get(key.stream) or StreamFacts()
    known = facts.clusters or {}
    return any(known[name].health is Health.DOWN for name in stream.clusters if name in known)
