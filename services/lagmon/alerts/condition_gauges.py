"""Exports conditions of alerts and targets of lag, for rules that Prometheus evaluates."""

from collections.abc import Iterable
from typing import Final

from braid.kernel.limits.lagmon.alerts import ALERTS_OPEN_MAX
from braid.kernel.limits.lagmon.sampling import LAG_METRICS_ROWS_MAX
from braid.kernel.metrics import MetricDeclaration
from braid.runtime.metrics.sampled import Labels, SampledMetric
from braid.runtime.telemetry import Metrics
from services.lagmon.alerts.decisions.facts import Facts
from services.lagmon.alerts.decisions.model import RULES, AlertKey, Severity

CONDITION: Final = MetricDeclaration(
    "braid_alert_condition",
    "gauge",
    "",
    ("rule", "severity", "stream", "lane", "group", "cluster", "certificate"),
    "1 while the condition of an alert holds, as this replica sees it, silenced or not",
    ALERTS_OPEN_MAX,
)
TARGET_SECONDS: Final = MetricDeclaration(
    "braid_lag_target_seconds",
    "gauge",
    "s",
    ("stream", "lane", "group"),
    "How far groups may be behind; without a group, all that have no target of their own",
    LAG_METRICS_ROWS_MAX,
)
TARGET_BUDGET: Final = MetricDeclaration(
    "braid_lag_target_budget", "gauge", "", ("stream",), "Share of time in which a stream's lag targets may be missed"
)
CONDITIONS_LEFT_OUT: Final = MetricDeclaration(
    "braid_alert_conditions_left_out", "gauge", "{condition}", (), "Conditions beyond what the gauge may show"
)


class ConditionGauges:
    """The gauges about conditions and targets of one replica."""

    def __init__(self, metrics: Metrics) -> None:
        registry = metrics.registry
        self._conditions = SampledMetric(registry, CONDITION)
        self._targets = SampledMetric(registry, TARGET_SECONDS)
        self._budgets = SampledMetric(registry, TARGET_BUDGET)
        self._left_out = SampledMetric(registry, CONDITIONS_LEFT_OUT)

    def show(self, held: Iterable[AlertKey], facts: Facts) -> None:
        """Sets the gauges to what holds, pages first, and to the targets that streams declare."""
        keys = sorted(set(held), key=lambda key: (_severity(key), key))
        rows: dict[Labels, float] = {}
        for key in keys[:ALERTS_OPEN_MAX]:
            subject = key.stream, key.lane, key.group, key.cluster, key.certificate
            rows[key.rule, _severity(key).name.lower(), *subject] = 1.0
        self._conditions.replace(rows)
        self._left_out.replace({(): float(max(0, len(keys) - ALERTS_OPEN_MAX))})
        targets: dict[Labels, float] = {}
        budgets: dict[Labels, float] = {}
        for name, stream in (facts.streams or {}).items():
            if not stream.targets or len(targets) + len(stream.targets) > LAG_METRICS_ROWS_MAX:
                continue
            budgets[(name,)] = stream.budget
            for place, seconds in stream.targets.items():
                lane, _, group = place.partition("/")
                targets[name, lane, group] = seconds
        self._targets.replace(targets)
        self._budgets.replace(budgets)


def _severity(key: AlertKey) -> Severity:
    rule = RULES.get(key.rule)  # None for one that a newer release fired
    return rule.severity if rule is not None else Severity.PAGE
