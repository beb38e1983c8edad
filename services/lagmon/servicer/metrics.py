"""Exports lag as gauges, and the records of the offset logs as counters by outcome. Rows that are gone are removed.

Rows of lag are made by the thread that reads the metrics, from the columns of the newest table. The event loop makes
none of them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import fields
from functools import partial
from typing import Final

from braid.kafka.offset_log.table import OffsetCounts
from braid.kernel.limits.lagmon.sampling import LAG_METRICS_ROWS_MAX
from braid.kernel.metrics import MetricDeclaration
from braid.runtime.metrics.instruments import MetricRegistry
from braid.runtime.metrics.sampled import Rows, SampledMetric
from services.lagmon.columns.shown_lag import ShownLag
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

    def __init__(self, registry: MetricRegistry, exporters: Iterable[Exporter]) -> None:
        """Registers them; `exporters` are those whose names are used, too."""
        self._shown = ShownLag()
        for declared, name in ((GROUP_LAG_SECONDS, "seconds"), (GROUP_LAG_RECORDS, "records")):
            SampledMetric(registry, declared).read_by(partial(self._groups, name))
        self._exporters = ExporterGauges(registry, exporters, lambda: self._shown)
        SampledMetric(registry, LAG_ROWS_LEFT_OUT).read_by(self._left_out)
        self._offsets = SampledMetric(registry, LAGMON_OFFSET_RECORDS)
        self._probes = SampledMetric(registry, LAGMON_PROBES)

    def show(self, shown: ShownLag) -> None:
        """Shows another table; its rows are made at the next read."""
        self._shown = shown

    def _groups(self, column: str) -> Rows:
        groups = self._shown.groups
        for key, value in zip(groups.keys, getattr(groups, column).tolist(), strict=True):
            yield (key.stream, key.lane, key.group, key.cluster), value

    def _left_out(self) -> Rows:
        shown = self._shown
        left = {
            GROUP_LAG_SECONDS.name: shown.groups.left_out,
            GROUP_LAG_RECORDS.name: shown.groups.left_out,
            **self._exporters.left_out(shown),
            "commits": shown.commits_left_out,
        }
        return (((name,), count) for name, count in left.items())

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
