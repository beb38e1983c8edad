"""Exports lag as gauges, and the records of the offset logs as counters by outcome. Rows that are gone are removed."""

from collections.abc import Mapping
from dataclasses import fields

from braid.kafka.offset_log.table import OffsetCounts
from braid.runtime.sampled import Labels, SampledMetric
from braid.runtime.telemetry import Metrics
from services.lagmon.columns.pages import Shown

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
        kafka: dict[Labels, float] = {
            (row.key.group, row.key.topic, str(row.key.partition), row.key.cluster): row.lag_records
            for row in partitions.rows
        }
        self._seconds.replace(seconds)
        self._records.replace(records)
        self._kafka.replace(kafka)
        shown = {"braid_group_lag_seconds": channels, "kafka_consumergroup_lag": partitions}
        beyond: dict[Labels, float] = {(name,): of.every - len(of.rows) for name, of in shown.items()}
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
