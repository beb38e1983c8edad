"""The rules about clusters: their health, their disks and their copies. Pure."""

from collections.abc import Iterator, Mapping
from typing import Final

from braid.kernel.limits.lagmon.alerts import (
    ALERT_DISK_PAGE_SECONDS,
    ALERT_DISK_TICKET_SECONDS,
    ALERT_TEXT_MAX,
)
from services.lagmon.alerts.decisions.copies import Copies, Lacking, topics_by_lane
from services.lagmon.alerts.decisions.disks import WATCHED_FOR_PAGE, WATCHED_FOR_TICKET, Disks, Forecast
from services.lagmon.alerts.decisions.facts import ClusterFacts, Facts, Health
from services.lagmon.alerts.decisions.model import (
    CLUSTER_DOUBTED,
    CLUSTER_DOWN,
    CLUSTER_UNDER_REPLICATED,
    DISK_PAGE,
    DISK_TICKET,
    TOPIC_UNDER_REPLICATED,
    AlertKey,
    Condition,
    Rule,
)

_MINUTE: Final = 60.0
_HOUR: Final = 3_600.0
_DAY: Final = 86_400.0


def cluster_conditions(facts: Facts, copies: Copies, disks: Disks, now: float) -> Iterator[Condition]:
    """Yields what each rule about clusters says of each subject."""
    for name, cluster in (facts.clusters or {}).items():
        down, reason = cluster.health is Health.DOWN, cluster.reason
        yield _condition(CLUSTER_DOWN, down, f"cluster {name} is down: {reason}", cluster=name)
        doubted = None if down else cluster.health is Health.DOUBTED
        yield _condition(CLUSTER_DOUBTED, doubted, f"cluster {name} is not well: {reason}", cluster=name)
        yield from _disk_conditions(name, cluster, disks, now)
        lacking = copies.lacking(name) if cluster.health is Health.WELL else None
        summary = f"{lacking.total} topics of cluster {name} lack copies in step" if lacking is not None else ""
        many = lacking.many if lacking is not None else None
        yield _condition(CLUSTER_UNDER_REPLICATED, many, summary, cluster=name)
    yield from _topic_conditions(facts, copies)


def _topic_conditions(facts: Facts, copies: Copies) -> Iterator[Condition]:
    """Yields one condition for each lane, over all of its topics."""
    well = {name for name, each in (facts.clusters or {}).items() if each.health is Health.WELL}
    known = {name: copies.lacking(name) for name in well}
    for (stream, lane), places in topics_by_lane(facts).items():
        found = {place: _lacks_copies(place, known) for place in places}
        told = ", ".join(f"{topic} on {cluster}" for (cluster, topic), lacks in sorted(found.items()) if lacks)
        holds = True if True in found.values() else None if None in found.values() else False
        yield _condition(TOPIC_UNDER_REPLICATED, holds, f"copies are not in step: {told}", stream=stream, lane=lane)


def _lacks_copies(place: tuple[str, str], known: Mapping[str, Lacking | None]) -> bool | None:
    """Whether a topic lacks copies; not known where its cluster is not well, or one alert is about all its topics."""
    lacking = known.get(place[0])
    return None if lacking is None or lacking.many else place[1] in lacking.topics


def _disk_conditions(name: str, cluster: ClusterFacts, disks: Disks, now: float) -> Iterator[Condition]:
    forecast, watched = disks.forecast(name), disks.watched_seconds(name, now)
    page = ticket = None
    if cluster.disk is not None and cluster.health is not Health.DOWN:
        page = _fills(forecast, ALERT_DISK_PAGE_SECONDS, watched >= WATCHED_FOR_PAGE)
        ticket = _fills(forecast, ALERT_DISK_TICKET_SECONDS, watched >= WATCHED_FOR_TICKET)
    summary = ""
    if forecast is not None and cluster.disk is not None:
        when = f"in {_span(forecast.seconds)} ({_span(forecast.soonest)} to {_span(forecast.latest)})"
        seen = f"as it filled over {_span(forecast.window)}"
        summary = f"the fullest disk of cluster {name}, on broker {cluster.disk.broker}, is full {when}, {seen}"
    yield _condition(DISK_PAGE, page, summary, cluster=name)
    yield _condition(DISK_TICKET, None if page else ticket, summary, cluster=name)


def _fills(forecast: Forecast | None, within: float, watched: bool) -> bool | None:
    """Whether a disk is full within a time. No forecast is good news only after the longest window was watched."""
    if forecast is not None and forecast.seconds < within:
        return True if forecast.filling else None
    return False if watched else None


def _span(seconds: float) -> str:
    """Writes a time for people, in the unit that suits it."""
    if seconds < 2 * _HOUR:
        return f"{seconds / _MINUTE:.0f} minutes"
    return f"{seconds / _HOUR:.1f} hours" if seconds < 2 * _DAY else f"{seconds / _DAY:.1f} days"


def _condition(rule: Rule, holds: bool | None, summary: str, **subject: str) -> Condition:
    return Condition(AlertKey(rule.name, **subject), holds, summary[:ALERT_TEXT_MAX])
