"""The state machine that judges a cluster's health from evidence. Pure. Its numbers are in `thresholds.py`.

    HEALTHY → SUSPECT → DOWN ──(success for a while)──▶ HEALTHY, or FLAPPING first when it fell too often
         ├──▶ SLOW         appends take many times what is usual here
         └──▶ HALF_DEAD    some of its partitions are gone, or it makes no topics

- The first bad evidence makes the cluster SUSPECT. It becomes DOWN after `down_after_seconds` of agreeing bad evidence,
  without good evidence in between and without any host that saw an answer. Decisive evidence makes it DOWN at once.
- If a single host complains while the registry reaches the cluster, it must also have complained for
  `sole_witness_seconds`. Once the registry's own probes fail, that host's complaints no longer count: the probes take
  their own time.
- If only some of several brokers died, appends hang until Kafka elects other leaders. Traffic leaves after
  `ride_out_seconds`, and the cluster is then HALF_DEAD, not DOWN: partitions with other leaders continue. While every
  listed broker answers, none died: leaders are being moved, as in a rolling restart, which gets more time.
- A cluster that works but shows a symptom for long enough is SLOW or HALF_DEAD, until it was well for
  `healthy_after_seconds`. Until then the worst finding stands: DOWN, SLOW, HALF_DEAD, FLAPPING.
- A DOWN cluster returns after `healthy_after_seconds` of only good evidence. A cluster that fell too often within five
  minutes is FLAPPING then: it is used for existing work, but takes no new traffic until its hold ends.

`evidence.py` weighs evidence. Instants are seconds on a clock that never steps.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from braid.kernel.limits.registry.health import FLAP_HOLD_SECONDS_MAX, FLAP_WINDOW_SECONDS
from services.registry.health.evidence import Evidence
from services.registry.model.clusters.health import (
    Health,
    HealthVerdict,
)
from services.registry.model.clusters.thresholds import Thresholds

USUAL: Final = Thresholds()
_CUT_OFF: Final = (HealthVerdict.REGISTRY_CUT_OFF, HealthVerdict.PRODUCERS_CUT_OFF)
_RANKS: Final = (Health.HEALTHY, Health.SUSPECT, Health.FLAPPING, Health.HALF_DEAD, Health.SLOW, Health.DOWN)


@dataclass(frozen=True, slots=True)
class Judgement:
    """The judged health, and the unbroken runs of evidence it depends on.

    Attributes:
        bad_since: Beginning of the present run of bad evidence; None if the last was good.
        firm_since: Beginning of its last part that rests on more than one host; None if there is none.
        good_since: Beginning of the present run of good evidence; None if the last was bad.
        slow_since: Since when every good evidence was slow; bad evidence does not change it.
        well_since: Beginning of the run of good evidence without any symptom.
    """

    health: Health
    reason: str = ""
    bad_since: float | None = None
    good_since: float | None = None
    verdict: HealthVerdict = HealthVerdict.UNTOLD
    slow_since: float | None = None
    well_since: float | None = None
    firm_since: float | None = None


def judge(
    judgement: Judgement, evidence: Evidence, thresholds: Thresholds = USUAL, hold_seconds: float = 0.0
) -> Judgement:
    """Returns the judgement after one more piece of evidence; `hold_seconds` is the delay that earlier falls cost.

    If the evidence shows nothing, the health stays and runs of evidence begin anew: some broker answered.
    """
    if not evidence.known:
        return replace(judgement, bad_since=None, firm_since=None, good_since=None, slow_since=None, well_since=None)
    if not evidence.good:
        return _after_bad(judgement, evidence, thresholds)
    good_since = evidence.since if judgement.good_since is None else judgement.good_since
    slow_since, well_since = judgement.slow_since, judgement.well_since
    slow_since = (evidence.since if slow_since is None else slow_since) if evidence.slow else None
    symptom = bool(evidence.slow or evidence.gaps or evidence.no_topics)
    well_since = None if symptom else evidence.since if well_since is None else well_since
    seen = replace(judgement, bad_since=None, firm_since=None, good_since=good_since)
    seen = replace(seen, slow_since=slow_since, well_since=well_since)
    return _after_good(seen, evidence, thresholds, hold_seconds)


def hold_seconds(falls_ms: Sequence[int], now_ms: int, thresholds: Thresholds = USUAL) -> float:
    """How long a cluster that fell at these times must be well before it takes traffic again; 0 for no extra time."""
    recent = sum(now_ms - at < FLAP_WINDOW_SECONDS * 1_000 for at in falls_ms)
    if not thresholds.flap_falls or recent < thresholds.flap_falls:
        return 0.0
    return float(min(FLAP_HOLD_SECONDS_MAX, thresholds.flap_hold_seconds * 2 ** (recent - thresholds.flap_falls)))


def _after_bad(judgement: Judgement, evidence: Evidence, thresholds: Thresholds) -> Judgement:
    since = evidence.since if judgement.bad_since is None else judgement.bad_since
    begun = evidence.since if judgement.firm_since is None else judgement.firm_since
    if evidence.alive_at is not None:  # somebody saw it answer: what was bad before did not mean its death
        since, begun = max(since, evidence.alive_at), max(begun, evidence.alive_at)
    seen = replace(judgement, bad_since=since, firm_since=begun, good_since=None, well_since=None)
    needed, complained = thresholds.down_after_seconds, True
    if evidence.sole_since is not None:
        begun, seen = since, replace(seen, firm_since=None)
        complained = evidence.until - evidence.sole_since >= max(needed, thresholds.sole_witness_seconds)
    agreed = complained and evidence.until - begun >= needed
    if evidence.hanging_since is not None and not evidence.decisive and judgement.health is not Health.DOWN:
        bound = max(thresholds.hanging_seconds(), evidence.hanging_seconds)
        hung = evidence.until - evidence.hanging_since >= bound
        return _after_hanging(seen, evidence, Health.HALF_DEAD if hung else Health.SUSPECT)
    if agreed or evidence.decisive:
        return replace(seen, health=Health.DOWN, reason=evidence.reason, verdict=evidence.verdict)
    if judgement.health is Health.DOWN:
        return replace(seen, reason=evidence.reason)
    if judgement.health not in (Health.HEALTHY, Health.SUSPECT):
        return seen  # it has a worse name already, and keeps it
    if judgement.bad_since is not None and judgement.verdict in _CUT_OFF:
        return seen  # said once in a run, however often witnesses fall silent and speak again
    return replace(seen, health=Health.SUSPECT, reason=evidence.reason, verdict=evidence.verdict)


def _after_hanging(seen: Judgement, evidence: Evidence, found: Health) -> Judgement:
    """Judges a cluster where some of several brokers died: SUSPECT until the ride-out time is over, then HALF_DEAD."""
    if _RANKS.index(found) <= _RANKS.index(seen.health):
        return seen  # it has that name already, or a worse one
    return replace(seen, health=found, reason=evidence.reason, verdict=HealthVerdict.HALF_DEAD)


def _after_good(judgement: Judgement, evidence: Evidence, thresholds: Thresholds, hold: float) -> Judgement:
    found, reason, verdict = _symptom(judgement, evidence, thresholds)
    good_since, well_since = judgement.good_since, judgement.well_since
    assert good_since is not None, "the evidence was good"
    if judgement.health is Health.DOWN:
        sound_since = well_since if found is Health.HEALTHY and well_since is not None else good_since
        if evidence.until - sound_since < thresholds.healthy_after_seconds:  # a symptom that has just gone counts, too
            return judgement
        return _returned(replace(judgement, health=found, reason=reason, verdict=verdict), evidence, hold)
    if _RANKS.index(found) > _RANKS.index(judgement.health):
        return replace(judgement, health=found, reason=reason, verdict=verdict)
    if found is judgement.health is Health.HALF_DEAD:
        return replace(judgement, reason=reason, verdict=verdict)  # it may be so for another reason by now
    if judgement.health is Health.HEALTHY or well_since is None:
        return judgement
    needed = {Health.SUSPECT: thresholds.cleared_after_seconds, Health.FLAPPING: hold}
    if evidence.until - well_since < needed.get(judgement.health, thresholds.healthy_after_seconds):
        return judgement
    well = replace(judgement, health=Health.HEALTHY, reason="", verdict=HealthVerdict.WELL)
    return well if judgement.health is Health.SUSPECT else _returned(well, evidence, hold)


def _returned(judgement: Judgement, evidence: Evidence, hold: float) -> Judgement:
    """Judges an unwell cluster that works again: FLAPPING if it fell too often and was not well for long enough."""
    well_since = judgement.well_since if judgement.well_since is not None else evidence.until
    if judgement.health not in (Health.HEALTHY, Health.SUSPECT) or evidence.until - well_since >= hold:
        return judgement
    reason = f"it failed too often: held for {hold:.0f} s"
    return replace(judgement, health=Health.FLAPPING, reason=reason, verdict=HealthVerdict.FLAPPING)


def _symptom(judgement: Judgement, evidence: Evidence, thresholds: Thresholds) -> tuple[Health, str, HealthVerdict]:
    """Judges a working cluster by its symptoms."""
    if judgement.slow_since is not None:
        long = evidence.until - judgement.slow_since >= thresholds.slow_after_seconds
        if long or not evidence.gaps:
            return Health.SLOW if long else Health.SUSPECT, evidence.slow, HealthVerdict.SLOW
    if evidence.gaps:
        return Health.HALF_DEAD, evidence.gaps, HealthVerdict.HALF_DEAD
    if evidence.no_topics:
        return Health.HALF_DEAD, evidence.no_topics, HealthVerdict.NO_TOPICS
    return Health.HEALTHY, "", HealthVerdict.WELL
