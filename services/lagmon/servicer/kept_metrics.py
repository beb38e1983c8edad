"""Exports how keeping lag over time goes: what it takes, what was lost, and whether the disk takes it."""

from typing import Final

from braid.kernel.metrics import MetricDeclaration
from braid.runtime.metrics.sampled import SampledMetric
from braid.runtime.telemetry import Metrics
from services.lagmon.kept.keeper import Keeper

KEPT_LAG_BYTES: Final = MetricDeclaration(
    "braid_kept_lag_bytes", "gauge", "By", ("resolution",), "What kept lag takes, on disk or in memory"
)
KEPT_LAG_OLDEST_TIMESTAMP_SECONDS: Final = MetricDeclaration(
    "braid_kept_lag_oldest_timestamp_seconds", "gauge", "s", ("resolution",), "Start of the oldest row that is kept"
)
KEPT_LAG_SERIES: Final = MetricDeclaration(
    "braid_kept_lag_series", "gauge", "{series}", (), "Lanes of groups whose lag is kept"
)
KEPT_LAG_ROWS_LEFT_OUT: Final = MetricDeclaration(
    "braid_kept_lag_rows_left_out", "gauge", "{row}", (), "Rows of lanes beyond what is kept"
)
KEPT_LAG_FAILING: Final = MetricDeclaration(
    "braid_kept_lag_failing", "gauge", "", (), "1 while the disk takes no rows, and they are kept in memory"
)
KEPT_LAG_FAILURES: Final = MetricDeclaration(
    "braid_kept_lag_failures", "counter", "{write}", (), "Writes of kept lag that failed"
)
KEPT_LAG_DROPPED_CHUNKS: Final = MetricDeclaration(
    "braid_kept_lag_dropped_chunks", "counter", "{chunk}", (), "Chunks dropped before their time, for room"
)
KEPT_LAG_CLOCK_STEPS: Final = MetricDeclaration(
    "braid_kept_lag_clock_steps", "counter", "{step}", (), "Steps of the wall clock seen while lag was kept"
)


class KeptGauges:
    """The gauges and counters of kept lag."""

    def __init__(self, metrics: Metrics) -> None:
        registry = metrics.registry
        self._bytes = SampledMetric(registry, KEPT_LAG_BYTES)
        self._since = SampledMetric(registry, KEPT_LAG_OLDEST_TIMESTAMP_SECONDS)
        self._series = SampledMetric(registry, KEPT_LAG_SERIES)
        self._left_out = SampledMetric(registry, KEPT_LAG_ROWS_LEFT_OUT)
        self._failing = SampledMetric(registry, KEPT_LAG_FAILING)
        self._failures = SampledMetric(registry, KEPT_LAG_FAILURES)
        self._dropped = SampledMetric(registry, KEPT_LAG_DROPPED_CHUNKS)
        self._clock = SampledMetric(registry, KEPT_LAG_CLOCK_STEPS)

    def show(self, keeper: Keeper) -> None:
        """Sets all of them to the present state."""
        store, health, counts = keeper.store, keeper.store.health, keeper.counts
        self._bytes.replace({(name,): size for name, size in store.bytes_kept().items()})
        self._since.replace({(name,): ms / 1000 for name, ms in store.since_ms().items() if ms is not None})
        self._series.replace({(): counts.series})
        self._left_out.replace({(): counts.left_out})
        self._failing.replace({(): float(bool(health.trouble))})
        self._failures.replace({(): health.failures})
        self._dropped.replace({(): health.dropped})
        self._clock.replace({(): counts.clock_steps})
