"""Exports lag as gauges, and the records of the offset logs as counters by outcome. Rows that are gone are removed."""

from collections.abc import Iterable, Mapping
from dataclasses import fields

from braid.kafka.offset_log.table import OffsetCounts
from braid.kernel.limits.lagmon import LAG_METRICS_ROWS_MAX
from braid.runtime.sampled import Labels, SampledMetric
from braid.runtime.telemetry import Metrics
from services.lagmon.model.lag import Detail, LagRow, summed

_GROUP_LABELS = ("stream", "lane", "group", "cluster")


class Gauges:
    """The gauges and counters of the lag monitor. `kafka_consumergroup_lag` has the name that other exporters use."""

    def __init__(self, metrics: Metrics) -> None:
        registry = metrics.registry
        self._seconds = SampledMetric(
            registry, "braid_group_lag_seconds", "Age of the oldest record a group has not done", _GROUP_LABELS
        )
        self._records = SampledMetric(
            registry, "braid_group_lag_records", "Records a group has not done", _GROUP_LABELS
        )
        self._kafka = SampledMetric(
            registry,
            "kafka_consumergroup_lag",
            "Records a group has not done in one partition",
            ("consumergroup", "topic", "partition", "cluster"),
        )
        self._left_out = SampledMetric(
            registry, "braid_lag_rows_left_out", "Rows beyond what one gauge may show", ("gauge",)
        )
        self._offsets = SampledMetric(
            registry,
            "braid_lagmon_offset_records",
            "Records of offset logs, by what became of them",
            ("cluster", "outcome"),
            counter=True,
        )
        self._probes = SampledMetric(
            registry, "braid_lagmon_probes", "Records read for their time", ("cluster",), counter=True
        )

    def show(self, rows: Iterable[LagRow], left_out: int) -> None:
        """Sets the gauges to the present rows of single partitions; channels of one lane and cluster are one row.

        Args:
            rows: Those.
            left_out: Commits that found no room even before.
        """
        rows = list(rows)
        seconds: dict[Labels, float] = {}
        records: dict[Labels, float] = {}
        for row in summed((row for row in rows if row.key.stream), Detail.CHANNEL):
            labels = (row.key.stream, row.key.lane, row.key.group, row.key.cluster)
            seconds[labels] = max(row.lag_seconds, seconds.get(labels, 0.0))
            records[labels] = row.lag_records + records.get(labels, 0.0)
        kafka: dict[Labels, float] = {
            (row.key.group, row.key.topic, str(row.key.partition), row.key.cluster): row.lag_records for row in rows
        }
        self._seconds.replace(_bounded(seconds))
        self._records.replace(_bounded(records))
        self._kafka.replace(_bounded(kafka))
        over = {"braid_group_lag_seconds": len(seconds), "kafka_consumergroup_lag": len(kafka)}
        beyond: dict[Labels, float] = {(name,): max(0, count - LAG_METRICS_ROWS_MAX) for name, count in over.items()}
        self._left_out.replace({**beyond, ("commits",): left_out})

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


def _bounded(rows: Mapping[Labels, float]) -> Mapping[Labels, float]:
    """Returns the rows, or the first ones by name if there are too many."""
    if len(rows) <= LAG_METRICS_ROWS_MAX:
        return rows
    return {labels: rows[labels] for labels in sorted(rows)[:LAG_METRICS_ROWS_MAX]}
