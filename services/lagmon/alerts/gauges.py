"""Exports alerts as gauges, by rule and severity."""

from collections import Counter

from braid.runtime.sampled import SampledMetric
from braid.runtime.telemetry import Metrics
from services.lagmon.alerts.decisions.domain import Alerts


class AlertGauges:
    """The gauges about alerts of one replica."""

    def __init__(self, metrics: Metrics) -> None:
        registry = metrics.registry
        self._firing = SampledMetric(
            registry, "braid_alerts_firing", "Alerts that fire, silenced ones too", ("rule", "severity")
        )
        self._left_out = SampledMetric(
            registry, "braid_alert_targets_left_out", "Lag targets beyond what one replica can watch", ()
        )

    def show(self, state: Alerts, left_out: int) -> None:
        """Sets the gauges to the present alerts."""
        counts = Counter((each.key.rule, each.severity.name.lower()) for each in state.open.values())
        self._firing.replace({labels: float(count) for labels, count in counts.items()})
        self._left_out.replace({(): float(left_out)})
