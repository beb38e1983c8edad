"""Exports how many points of pathways the leader keeps, and what became of reports."""

from collections import Counter
from typing import Final

from braid.kernel.metrics import MetricDeclaration
from braid.runtime.metrics.sampled import SampledMetric
from braid.runtime.telemetry import Metrics
from services.lagmon.pathways.store import PathwayStore

PATHWAY_POINTS: Final = MetricDeclaration(
    "braid_pathway_points", "gauge", "{point}", (), "Points of pathways that the leader keeps"
)
PATHWAY_REPORTS: Final = MetricDeclaration(
    "braid_pathway_reports", "counter", "{report}", ("outcome",), "Reports about pathways, by what became of them"
)


class PathwayGauges:
    """The gauge and the counter about pathways of one replica."""

    def __init__(self, metrics: Metrics) -> None:
        registry = metrics.registry
        self._points = SampledMetric(registry, PATHWAY_POINTS)
        self._reports = SampledMetric(registry, PATHWAY_REPORTS)
        self._outcomes: Counter[str] = Counter()

    def show(self, store: PathwayStore, *, merged: bool) -> None:
        """Counts a report, and sets the gauge to the present number."""
        self._outcomes["merged" if merged else "repeated"] += 1
        self._reports.replace({(outcome,): count for outcome, count in self._outcomes.items()})
        self._points.replace({(): len(store.points)})
