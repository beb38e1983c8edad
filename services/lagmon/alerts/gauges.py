"""Exports alerts as gauges, by rule and severity."""

from collections import Counter
from typing import Final

from braid.kernel.metrics import MetricDeclaration
from braid.runtime.metrics.sampled import SampledMetric
from braid.runtime.telemetry import Metrics
from services.lagmon.alerts.decisions.domain import Alerts

ALERTS_FIRING: Final = MetricDeclaration(
    "braid_alerts_firing", "gauge", "{alert}", ("rule", "severity"), "Alerts that fire, silenced ones too"
)
TARGETS_LEFT_OUT: Final = MetricDeclaration(
    "braid_alert_targets_left_out", "gauge", "{target}", (), "Lag targets beyond what one replica can watch"
)


class AlertGauges:
    """The gauges about alerts of one replica."""

    def __init__(self, metrics: Metrics) -> None:
        registry = metrics.registry
        self._firing = SampledMetric(registry, ALERTS_FIRING)
        self._left_out = SampledMetric(registry, TARGETS_LEFT_OUT)

    def show(self, state: Alerts, left_out: int) -> None:
        """Sets the gauges to the present alerts."""
        counts = Counter((each.key.rule, each.severity.name.lower()) for each in state.open.values())
        self._firing.replace({labels: float(count) for labels, count in counts.items()})
        self._left_out.replace({(): float(left_out)})
