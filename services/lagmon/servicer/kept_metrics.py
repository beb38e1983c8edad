"""Exports how keeping lag over time goes: what it takes, what was lost, and whether the disk takes it."""

from braid.runtime.sampled import SampledMetric
from braid.runtime.telemetry import Metrics
from services.lagmon.kept.keeper import Keeper


class KeptGauges:
    """The gauges and counters of kept lag."""

    def __init__(self, metrics: Metrics) -> None:
        registry = metrics.registry
        self._bytes = SampledMetric(
            registry, "braid_kept_lag_bytes", "What kept lag takes, on disk or in memory", ("resolution",)
        )
        self._since = SampledMetric(
            registry, "braid_kept_lag_oldest_timestamp_seconds", "Start of the oldest row that is kept", ("resolution",)
        )
        self._series = SampledMetric(registry, "braid_kept_lag_series", "Lanes of groups whose lag is kept", ())
        self._left_out = SampledMetric(
            registry, "braid_kept_lag_rows_left_out", "Rows of lanes beyond what is kept", ()
        )
        self._failing = SampledMetric(
            registry, "braid_kept_lag_failing", "1 while the disk takes no rows, and they are kept in memory", ()
        )
        self._failures = SampledMetric(
            registry, "braid_kept_lag_failures", "Writes of kept lag that failed", (), counter=True
        )
        self._dropped = SampledMetric(
            registry, "braid_kept_lag_dropped_chunks", "Chunks dropped before their time, for room", (), counter=True
        )
        self._clock = SampledMetric(
            registry, "braid_kept_lag_clock_steps", "Steps of the wall clock seen while lag was kept", (), counter=True
        )

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
