"""Is a cluster well? A pure state machine over evidence, with all its numbers.

HEALTHY → SUSPECT at the first bad evidence; DOWN once bad evidence agreed for `DOWN_AFTER_SECONDS` without one good in
between; HEALTHY again after `HEALTHY_AFTER_SECONDS` of nothing but good, or sooner when it was only suspected. One
that answers too late is as bad as one that does not answer: whoever gathers evidence gives it a timeout.

Instants are seconds on a clock that does not step.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from braid.kernel.limits import SEND_REPORT_SECONDS, SEND_REPORTERS_MIN
from services.registry.clusters import Health

DOWN_AFTER_SECONDS: Final = 1.5
HEALTHY_AFTER_SECONDS: Final = 10.0
CLEARED_AFTER_SECONDS: Final = 2.0  # a suspicion that did not harden; longer would keep a good target from a failover


@dataclass(frozen=True, slots=True)
class Evidence:
    """One look at a cluster: what it showed of the span from `since` (the look began) to `until` (it was over)."""

    since: float
    until: float
    good: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What is believed, and the unbroken run of evidence it hangs on.

    Attributes:
        bad_since: Beginning of the present run of bad evidence; None while the last was good.
        good_since: Beginning of the present run of good evidence; None while the last was bad.
    """

    health: Health
    reason: str = ""
    bad_since: float | None = None
    good_since: float | None = None


def judge(judgement: Judgement, evidence: Evidence) -> Judgement:
    """Returns what to believe after one more piece of evidence."""
    return _after_good(judgement, evidence) if evidence.good else _after_bad(judgement, evidence)


def _after_good(judgement: Judgement, evidence: Evidence) -> Judgement:
    since = evidence.since if judgement.good_since is None else judgement.good_since
    needed = HEALTHY_AFTER_SECONDS if judgement.health is Health.DOWN else CLEARED_AFTER_SECONDS
    recovered = evidence.until - since >= needed
    if judgement.health is Health.HEALTHY or recovered:
        return Judgement(Health.HEALTHY, "", None, since)
    return replace(judgement, bad_since=None, good_since=since)


def _after_bad(judgement: Judgement, evidence: Evidence) -> Judgement:
    since = evidence.since if judgement.bad_since is None else min(judgement.bad_since, evidence.since)
    agreed = evidence.until - since >= DOWN_AFTER_SECONDS
    down = agreed or judgement.health is Health.DOWN
    return Judgement(Health.DOWN if down else Health.SUSPECT, evidence.reason, since, None)


def heed_reports(probe: Evidence, reports: Mapping[str, float]) -> Evidence:
    """Joins the registry's own probe with producers' reports of send errors.

    Reports alone count when `SEND_REPORTERS_MIN` distinct producers agree: one application's own trouble (its network,
    its credentials) must not move everybody. While the probe fails too, any report tells since when.

    Args:
        probe: The registry's own look.
        reports: When each producer last reported errors of this cluster.
    """
    recent = sorted(at for at in reports.values() if probe.until - at <= SEND_REPORT_SECONDS)
    if not probe.good:
        return replace(probe, since=min([probe.since, *recent]))
    if len(recent) < SEND_REPORTERS_MIN:
        return probe
    return Evidence(recent[0], probe.until, False, f"{len(recent)} producers report send errors")
