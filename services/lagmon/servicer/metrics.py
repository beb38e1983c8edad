"""Exports lag as gauges, and the records of the offset logs as counters by outcome. Rows that are gone are removed."""

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Final

from braid.kafka.offset_log.table import OffsetCounts
from braid.kernel.limits.lagmon.sampling import LAG_METRICS_ROWS_MAX
from braid.kernel.metrics import MetricDeclaration
from braid.runtime.metrics.sampled import Labels, SampledMetric
from braid.runtime.telemetry import Metrics
from services.lagmon.columns.pages import Shown
from services.lagmon.servicer.exporter_metrics import Exporter, ExporterGauges

_GROUP_LABELS = ("stream", "lane", "group", "cluster")
GROUP_LAG_SECONDS: Final = MetricDeclaration(
    "braid_group_lag_seconds",
    "gauge",
    "s",
    _GROUP_LABELS,
    "Age of the oldest record a group has not done",
    LAG_METRICS_ROWS_MAX,
)
GROUP_LAG_RECORDS: Final = MetricDeclaration(
    "braid_group_lag_records", "gauge", "{record}", _GROUP_LABELS, "Records a group has not done", LAG_METRICS_ROWS_MAX
)
LAG_ROWS_LEFT_OUT: Final = MetricDeclaration(
    "braid_lag_rows_left_out", "gauge", "{row}", ("gauge",), "Rows beyond what one gauge may show"
)
LAGMON_OFFSET_RECORDS: Final = MetricDeclaration(
    "braid_lagmon_offset_records",
    "counter",
    "{record}",
    ("cluster", "outcome"),
    "Records of offset logs, by what became of them",
)
LAGMON_PROBES: Final = MetricDeclaration(
    "braid_lagmon_probes", "counter", "{record}", ("cluster",), "Records read for their time"
)


class Gauges:
    """The gauges and counters of the lag monitor, and those that other exporters have."""

    def __init__(self, metrics: Metrics, exporters: Iterable[Exporter]) -> None:
        """Registers them; `exporters` are those whose names are used, too."""
        registry = metrics.registry
        self._seconds = SampledMetric(registry, GROUP_LAG_SECONDS)
        self._records = SampledMetric(registry, GROUP_LAG_RECORDS)
        self._exporters = ExporterGauges(registry, exporters)
        self._left_out = SampledMetric(registry, LAG_ROWS_LEFT_OUT)
        self._offsets = SampledMetric(registry, LAGMON_OFFSET_RECORDS)
        self._probes = SampledMetric(registry, LAGMON_PROBES)

    def show(self, channels: Shown, partitions: Shown, left_out: int) -> None:
        """Sets the gauges to the present rows; channels of one lane and cluster are one row.

        Args:
            channels: Rows of groups in channels.
            partitions: Rows of single partitions.
            left_out: Commits that found no room even before.
        """
        seconds: dict[Labels, float] = {}
        records: dict[Labels, float] = {}
        for row in channels.rows:
            labels = (row.key.stream, row.key.lane, row.key.group, row.key.cluster)
            seconds[labels] = max(row.lag_seconds, seconds.get(labels, 0.0))
            records[labels] = row.lag_records + records.get(labels, 0.0)
        self._seconds.replace(seconds)
        self._records.replace(records)
        left = {
            GROUP_LAG_SECONDS.name: channels.every - len(channels.rows),
            GROUP_LAG_RECORDS.name: channels.every - len(channels.rows),
            **self._exporters.show(partitions),
            "commits": left_out,
        }
        self._left_out.replace({(name,): count for name, count in left.items()})

    def show_counts(self, counts: Mapping[str, OffsetCounts], probes: Mapping[str, int]) -> None:
        """Sets the counters, by cluster."""
        self._offsets.replace(
            {
                (cluster, field.name): getattr(each, field.name)
                for cluster, each in counts.items()
                for field in fields(OffsetCounts)
                if field.name != "records"
            }
        )
        self._probes.replace({(cluster,): count for cluster, count in probes.items()})
