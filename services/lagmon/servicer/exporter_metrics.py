"""Lag under the names and labels of well-known exporters, so that existing dashboards and alerts keep working.

Each exporter's set is switched on by name. Every metric has the label of its cluster beside the exporter's own labels,
because topics of several clusters may have one name. Values are Braid's: records that are done beyond a gap are no lag.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from functools import partial
from typing import Final, NamedTuple

from braid.kernel.limits.lagmon.sampling import LAG_METRICS_ROWS_MAX
from braid.kernel.metrics import MetricDeclaration
from braid.runtime.metrics.instruments import MetricRegistry
from braid.runtime.metrics.sampled import Rows, SampledMetric
from services.lagmon.columns.shown_lag import MOST, TOTAL, Column, Join, ShownLag


class Exporter(StrEnum):
    """An exporter whose names lagmon can use."""

    KAFKA_EXPORTER = "kafka_exporter"
    KAFKA_LAG_EXPORTER = "kafka_lag_exporter"
    KMINION = "kminion"


class _Numbers(NamedTuple):
    """A metric of an exporter: the rows it shows, and their values.

    Attributes:
        fields: What each label is read from, in the order of the labels.
        column: The column of rows that has the values.
        join: How values of rows with the same labels become one.
    """

    declared: MetricDeclaration
    fields: tuple[str, ...]
    column: Column
    join: Join


def _gauge(name: str, unit: str, labels: Mapping[str, str], meaning: str) -> tuple[MetricDeclaration, tuple[str, ...]]:
    """Returns a declaration and what its labels are read from."""
    return MetricDeclaration(name, "gauge", unit, tuple(labels), meaning, LAG_METRICS_ROWS_MAX), tuple(labels.values())


_KAFKA_EXPORTER: Final = {"consumergroup": "group", "topic": "topic", "partition": "partition", "cluster": "cluster"}
_KAFKA_TOPIC: Final = {"topic": "topic", "partition": "partition", "cluster": "cluster"}
_LAG_EXPORTER: Final = {"cluster_name": "cluster", "group": "group", "topic": "topic", "partition": "partition"}
_KMINION: Final = {"group_id": "group", "topic_name": "topic", "partition_id": "partition", "cluster": "cluster"}


def _without(labels: Mapping[str, str], *fields: str) -> dict[str, str]:
    return {label: field for label, field in labels.items() if field not in fields}


_NUMBERS: Final[Mapping[Exporter, Sequence[_Numbers]]] = {
    Exporter.KAFKA_EXPORTER: (
        _Numbers(*_gauge("kafka_consumergroup_lag", "{record}", _KAFKA_EXPORTER,
                         "Records a group has not done in one partition"), "records", MOST),
        _Numbers(*_gauge("kafka_consumergroup_lag_seconds", "s", _KAFKA_EXPORTER,
                         "Age of the oldest record a group has not done in one partition"), "seconds", MOST),
        _Numbers(*_gauge("kafka_consumergroup_lag_sum", "{record}", _without(_KAFKA_EXPORTER, "partition"),
                         "Records a group has not done in one topic"), "records", TOTAL),
        _Numbers(*_gauge("kafka_consumergroup_current_offset", "{record}", _KAFKA_EXPORTER,
                         "Committed offset of a group in one partition"), "committed", MOST),
        _Numbers(*_gauge("kafka_consumergroup_current_offset_sum", "{record}", _without(_KAFKA_EXPORTER, "partition"),
                         "Committed offsets of a group in one topic, added up"), "committed", TOTAL),
        _Numbers(*_gauge("kafka_topic_partition_current_offset", "{record}", _KAFKA_TOPIC,
                         "End offset of a partition that a group reads"), "end", MOST),
    ),
    Exporter.KAFKA_LAG_EXPORTER: (
        _Numbers(*_gauge("kafka_consumergroup_group_offset", "{record}", _LAG_EXPORTER,
                         "Committed offset of a group in one partition"), "committed", MOST),
        _Numbers(*_gauge("kafka_consumergroup_group_lag", "{record}", _LAG_EXPORTER,
                         "Records a group has not done in one partition"), "records", MOST),
        _Numbers(*_gauge("kafka_consumergroup_group_lag_seconds", "s", _LAG_EXPORTER,
                         "Age of the oldest record a group has not done in one partition"), "seconds", MOST),
        _Numbers(*_gauge("kafka_consumergroup_group_max_lag", "{record}", _without(_LAG_EXPORTER, "topic", "partition"),
                         "Records a group has not done in its worst partition"), "records", MOST),
        _Numbers(*_gauge("kafka_consumergroup_group_max_lag_seconds", "s",
                         _without(_LAG_EXPORTER, "topic", "partition"),
                         "Age of the oldest record a group has not done"), "seconds", MOST),
        _Numbers(*_gauge("kafka_consumergroup_group_sum_lag", "{record}", _without(_LAG_EXPORTER, "topic", "partition"),
                         "Records a group has not done on one cluster"), "records", TOTAL),
        _Numbers(*_gauge("kafka_consumergroup_group_topic_sum_lag", "{record}", _without(_LAG_EXPORTER, "partition"),
                         "Records a group has not done in one topic"), "records", TOTAL),
        _Numbers(*_gauge("kafka_partition_latest_offset", "{record}", _without(_LAG_EXPORTER, "group"),
                         "End offset of a partition that a group reads"), "end", MOST),
    ),
    Exporter.KMINION: (
        _Numbers(*_gauge("kminion_kafka_consumer_group_topic_partition_lag", "{record}", _KMINION,
                         "Records a group has not done in one partition"), "records", MOST),
        _Numbers(*_gauge("kminion_kafka_consumer_group_topic_lag", "{record}", _without(_KMINION, "partition"),
                         "Records a group has not done in one topic"), "records", TOTAL),
        _Numbers(*_gauge("kminion_kafka_consumer_group_topic_offset_sum", "{record}", _without(_KMINION, "partition"),
                         "Committed offsets of a group in one topic, added up"), "committed", TOTAL),
        _Numbers(*_gauge("kminion_kafka_topic_partition_high_water_mark", "{record}", _without(_KMINION, "group"),
                         "End offset of a partition that a group reads"), "end", MOST),
    ),
}  # fmt: skip
EXPORTER_METRICS: Final[Mapping[Exporter, tuple[MetricDeclaration, ...]]] = {
    exporter: tuple(each.declared for each in numbers) for exporter, numbers in _NUMBERS.items()
}


class ExporterGauges:
    """The gauges of the exporters that are switched on."""

    def __init__(self, registry: MetricRegistry, exporters: Iterable[Exporter], read: Callable[[], ShownLag]) -> None:
        """Registers the gauges.

        Args:
            registry: Where.
            exporters: Whose names are used.
            read: Returns what the gauges show, at each read.
        """
        self._numbers = [each for exporter in dict.fromkeys(exporters) for each in _NUMBERS[exporter]]
        for each in self._numbers:
            SampledMetric(registry, each.declared).read_by(partial(_rows, each, read))

    def left_out(self, shown: ShownLag) -> dict[str, int]:
        """Returns the rows of partitions that a gauge leaves out, by the gauge's name.

        A sum of rows of which some are left out would be wrong. So the last group that has rows here is in no sum then.
        """
        alone, summed = (each.every - len(each) for each in (shown.partitions, shown.whole_groups))
        return {each.declared.name: alone if "partition" in each.fields else summed for each in self._numbers}


def _rows(numbers: _Numbers, read: Callable[[], ShownLag]) -> Rows:
    """Yields the rows of a gauge; those whose value is not known are left out."""
    table = read().table(numbers.fields)
    for labels, value in zip(table.labels(), table.joined(numbers.column, numbers.join), strict=True):
        if value is not None:
            yield labels, value
