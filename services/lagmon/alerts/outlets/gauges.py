"""Exports how sending alerts goes, by outlet: the names are an operator's, and few."""

from collections import Counter
from collections.abc import Mapping
from typing import Final

from braid.kernel.metrics import MetricDeclaration
from braid.runtime.metrics.sampled import Labels, SampledMetric
from braid.runtime.telemetry import Metrics

POSTS: Final = MetricDeclaration(
    "braid_alert_posts",
    "counter",
    "{post}",
    ("outlet", "outcome"),
    "Alerts that outlets took, and posts that they did not take",
)
FAILING: Final = MetricDeclaration(
    "braid_alert_outlet_failing", "gauge", "", ("outlet",), "1 while an outlet takes no alerts"
)
WAITING: Final = MetricDeclaration(
    "braid_alert_notifications_waiting",
    "gauge",
    "{notification}",
    ("outlet",),
    "Notifications that a webhook has yet to take",
)


class OutletGauges:
    """The counters and gauges of the outlets of one replica; gauges have rows only while it leads."""

    def __init__(self, metrics: Metrics) -> None:
        registry = metrics.registry
        self._counts: Counter[Labels] = Counter()
        self._posted = SampledMetric(registry, POSTS)
        self._failing = SampledMetric(registry, FAILING)
        self._waiting = SampledMetric(registry, WAITING)

    def count(self, outlet: str, outcome: str, count: int) -> None:
        """Adds to how often something was sent, failed, was refused or given up."""
        self._counts[outlet, outcome] += count
        self._posted.replace({labels: float(each) for labels, each in self._counts.items()})

    def show(self, failing: Mapping[str, bool], waiting: Mapping[str, int]) -> None:
        """Sets the gauges, by outlet; empty tables remove all rows."""
        self._failing.replace({(name,): float(each) for name, each in failing.items()})
        self._waiting.replace({(name,): float(each) for name, each in waiting.items()})
