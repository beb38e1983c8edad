"""Topics that have lacked copies in step for long, rolling restarts left out. Pure.

In a rolling restart brokers leave one after the other, each once and for less than five minutes. So a topic's time
begins anew when another broker leaves, unless that broker had left within the hour before. Copies that are being added
or taken away are no lack.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from braid.kernel.limits.lagmon.alerts import (
    ALERT_COPIES_GAP_SECONDS,
    ALERT_COPIES_SECONDS,
    ALERT_COPIES_TOPICS_MAX,
    ALERT_RESTART_SECONDS,
)
from services.lagmon.alerts.decisions.facts import CopiesReading, Facts


@dataclass(slots=True)
class _Lack:
    since: float
    seen: float


@dataclass(slots=True)
class _Cluster:
    """The clocks and departures of one cluster.

    Attributes:
        missing: Brokers that were away at the last reading.
        left: When each broker last left.
        restarted: When a broker last left that may be part of a rolling restart.
        lacks: Since when topics lack copies.
    """

    missing: frozenset[int] | None = None
    left: dict[int, float] = field(default_factory=dict)
    restarted: float = float("-inf")
    lacks: dict[str, _Lack] = field(default_factory=dict)


class Lacking(NamedTuple):
    """Topics of one cluster that lack copies.

    Attributes:
        topics: Those named that have lacked copies for long.
        many: Whether so many topics lack copies that one alert is about all of them.
        total: How many topics lack copies now.
    """

    topics: frozenset[str] = frozenset()
    many: bool = False
    total: int = 0


class Copies:
    """The clocks of topics that lack copies, of every cluster."""

    def __init__(self) -> None:
        self._clusters: dict[str, _Cluster] = {}
        self._lacking: dict[str, Lacking] = {}

    def observe(self, facts: Facts, now: float) -> None:
        """Takes the registry's newest readings; clusters without one keep their clocks, and are not known."""
        clusters = facts.clusters or {}
        self._clusters = {name: each for name, each in self._clusters.items() if name in clusters}
        reassigned = {
            place
            for stream in (facts.streams or {}).values()
            for place, topic in stream.topics.items()
            if topic.reassigned
        }
        self._lacking = {
            name: self._observe(name, each.copies, {topic for cluster, topic in reassigned if cluster == name}, now)
            for name, each in clusters.items()
            if each.copies is not None
        }

    def lacking(self, cluster: str) -> Lacking | None:
        """Returns which topics of a cluster lack copies; None if that is not known."""
        return self._lacking.get(cluster)

    def _observe(self, name: str, reading: CopiesReading, reassigned: set[str], now: float) -> Lacking:
        known = self._clusters.setdefault(name, _Cluster())
        for broker in reading.missing_brokers - (reading.missing_brokers if known.missing is None else known.missing):
            if now - known.left.get(broker, float("-inf")) >= ALERT_RESTART_SECONDS:
                known.restarted = now
            known.left[broker] = now
        known.missing = reading.missing_brokers
        known.left = {broker: at for broker, at in known.left.items() if now - at < ALERT_RESTART_SECONDS}
        for topic in reading.topics:
            lack = known.lacks.setdefault(topic, _Lack(now, now))
            lack.seen = now
        known.lacks = {topic: each for topic, each in known.lacks.items() if now - each.seen < ALERT_COPIES_GAP_SECONDS}
        present = [topic for topic in reading.topics if topic not in reassigned]
        lasting = frozenset(
            topic for topic in present if now - max(known.lacks[topic].since, known.restarted) >= ALERT_COPIES_SECONDS
        )
        total = reading.total - (len(reading.topics) - len(present))
        return Lacking(lasting, len(lasting) > ALERT_COPIES_TOPICS_MAX, total)


def topics_by_lane(facts: Facts) -> Mapping[tuple[str, str], tuple[tuple[str, str], ...]]:
    """Returns the topics of each stream's lane, as (cluster, topic)."""
    found: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for name, stream in (facts.streams or {}).items():
        for place, topic in stream.topics.items():
            found.setdefault((name, topic.lane), []).append(place)
    return {lane: tuple(places) for lane, places in found.items()}
