"""Lag under the names and labels of well-known exporters, so that existing dashboards and alerts keep working.

Each exporter's set is switched on by name. Every metric has the label of its cluster beside the exporter's own labels,
because topics of several clusters may have one name. Values are Braid's: records that are done beyond a gap are no lag.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from operator import attrgetter
from typing import Final, NamedTuple

from braid.kernel.limits.lagmon.sampling import LAG_METRICS_ROWS_MAX
from braid.kernel.metrics import MetricDeclaration
from braid.runtime.metrics.instruments import MetricRegistry
from braid.runtime.metrics.sampled import SampledMetric
from services.lagmon.columns.pages import Shown
from services.lagmon.model.lag import LagRow, RowKey


class Exporter(StrEnum):
    """An exporter whose names lagmon can use."""

    KAFKA_EXPORTER = "kafka_exporter"
    KAFKA_LAG_EXPORTER = "kafka_lag_exporter"
    KMINION = "kminion"


Key = tuple[str | int, ...]  # of a row: what its labels are made of
Cells = list[float | None]  # its values in each gauge


class _Numbers(NamedTuple):
    """A metric of an exporter: the rows it shows, and their values.

    Attributes:
        fields: What each label is read from, in the order of the labels.
        value: Of one row; None where it is not known.
        join: How values of rows with the same labels become one.
    """

    declared: MetricDeclaration
    fields: tuple[str, ...]
    value: Callable[[LagRow], float | None]
    join: Callable[[float, float], float]


def _lag(row: LagRow) -> float:
    return row.lag_records


def _seconds(row: LagRow) -> float:
    return row.lag_seconds


def _committed(row: LagRow) -> float | None:
    return row.committed_offset if row.committed_offset >= 0 else None


def _end(row: LagRow) -> float | None:
    return row.end_offset if row.end_offset >= 0 else None


def _added(one: float, other: float) -> float:
    return one + other


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
                         "Records a group has not done in one partition"), _lag, max),
        _Numbers(*_gauge("kafka_consumergroup_lag_seconds", "s", _KAFKA_EXPORTER,
                         "Age of the oldest record a group has not done in one partition"), _seconds, max),
        _Numbers(*_gauge("kafka_consumergroup_lag_sum", "{record}", _without(_KAFKA_EXPORTER, "partition"),
                         "Records a group has not done in one topic"), _lag, _added),
        _Numbers(*_gauge("kafka_consumergroup_current_offset", "{record}", _KAFKA_EXPORTER,
                         "Committed offset of a group in one partition"), _committed, max),
        _Numbers(*_gauge("kafka_consumergroup_current_offset_sum", "{record}", _without(_KAFKA_EXPORTER, "partition"),
                         "Committed offsets of a group in one topic, added up"), _committed, _added),
        _Numbers(*_gauge("kafka_topic_partition_current_offset", "{record}", _KAFKA_TOPIC,
                         "End offset of a partition that a group reads"), _end, max),
    ),
    Exporter.KAFKA_LAG_EXPORTER: (
        _Numbers(*_gauge("kafka_consumergroup_group_offset", "{record}", _LAG_EXPORTER,
                         "Committed offset of a group in one partition"), _committed, max),
        _Numbers(*_gauge("kafka_consumergroup_group_lag", "{record}", _LAG_EXPORTER,
                         "Records a group has not done in one partition"), _lag, max),
        _Numbers(*_gauge("kafka_consumergroup_group_lag_seconds", "s", _LAG_EXPORTER,
                         "Age of the oldest record a group has not done in one partition"), _seconds, max),
        _Numbers(*_gauge("kafka_consumergroup_group_max_lag", "{record}", _without(_LAG_EXPORTER, "topic", "partition"),
                         "Records a group has not done in its worst partition"), _lag, max),
        _Numbers(*_gauge("kafka_consumergroup_group_max_lag_seconds", "s",
                         _without(_LAG_EXPORTER, "topic", "partition"),
                         "Age of the oldest record a group has not done"), _seconds, max),
        _Numbers(*_gauge("kafka_consumergroup_group_sum_lag", "{record}", _without(_LAG_EXPORTER, "topic", "partition"),
                         "Records a group has not done on one cluster"), _lag, _added),
        _Numbers(*_gauge("kafka_consumergroup_group_topic_sum_lag", "{record}", _without(_LAG_EXPORTER, "partition"),
                         "Records a group has not done in one topic"), _lag, _added),
        _Numbers(*_gauge("kafka_partition_latest_offset", "{record}", _without(_LAG_EXPORTER, "group"),
                         "End offset of a partition that a group reads"), _end, max),
    ),
    Exporter.KMINION: (
        _Numbers(*_gauge("kminion_kafka_consumer_group_topic_partition_lag", "{record}", _KMINION,
                         "Records a group has not done in one partition"), _lag, max),
        _Numbers(*_gauge("kminion_kafka_consumer_group_topic_lag", "{record}", _without(_KMINION, "partition"),
                         "Records a group has not done in one topic"), _lag, _added),
        _Numbers(*_gauge("kminion_kafka_consumer_group_topic_offset_sum", "{record}", _without(_KMINION, "partition"),
                         "Committed offsets of a group in one topic, added up"), _committed, _added),
        _Numbers(*_gauge("kminion_kafka_topic_partition_high_water_mark", "{record}", _without(_KMINION, "group"),
                         "End offset of a partition that a group reads"), _end, max),
    ),
}  # fmt: skip
EXPORTER_METRICS: Final[Mapping[Exporter, tuple[MetricDeclaration, ...]]] = {
    exporter: tuple(each.declared for each in numbers) for exporter, numbers in _NUMBERS.items()
}


class ExporterGauges:
    """The gauges of the exporters that are switched on."""

    def __init__(self, registry: MetricRegistry, exporters: Iterable[Exporter]) -> None:
        """Registers the gauges, without rows."""
        by_fields: dict[tuple[str, ...], list[_Numbers]] = {}
        for exporter in dict.fromkeys(exporters):
            for each in _NUMBERS[exporter]:
                by_fields.setdefault(each.fields, []).append(each)
        self._tables = [_Table(registry, fields, numbers) for fields, numbers in by_fields.items()]

    def show(self, partitions: Shown) -> dict[str, int]:
        """Sets the gauges to the present rows of single partitions, which are bounded.

        A sum of rows of which some are left out would be wrong. So the last group that has rows here is in no sum then.

        Returns:
            Rows of partitions that a gauge leaves out, by the gauge's name.
        """
        rows = partitions.rows
        whole = rows if partitions.every == len(rows) else _without_last_group(rows)
        left: dict[str, int] = {}
        for table in self._tables:
            left |= table.show(whole if table.sums else rows, partitions.every)
        return left


def _without_last_group(rows: Sequence[LagRow]) -> Sequence[LagRow]:
    return [row for row in rows if row.key.group != rows[-1].key.group]


class _Table:
    """Gauges whose labels are read from the same fields.

    Attributes:
        sums: Whether one of its rows stands for several partitions of a group.
    """

    def __init__(self, registry: MetricRegistry, fields: Sequence[str], numbers: Sequence[_Numbers]) -> None:
        self.sums = "partition" not in fields
        self._key: Callable[[RowKey], Key] = attrgetter(*fields)
        self._numbers = numbers
        self._gauges = [SampledMetric(registry, each.declared) for each in numbers]

    def show(self, rows: Sequence[LagRow], every: int) -> dict[str, int]:
        """Sets the gauges; returns the rows of partitions left out, by gauge. `every` is the number of all rows."""
        found = self._joined(rows)
        labels = {key: tuple(map(str, key)) for key in found}
        for index, gauge in enumerate(self._gauges):
            values = ((labels[key], cells[index]) for key, cells in found.items())
            gauge.replace({label: value for label, value in values if value is not None})
        return {each.declared.name: every - len(rows) for each in self._numbers}

    def _joined(self, rows: Iterable[LagRow]) -> dict[Key, Cells]:
        """Returns the values of each key."""
        found: dict[Key, Cells] = {}
        for row in rows:
            cells = found.setdefault(self._key(row.key), [None] * len(self._numbers))
            for index, numbers in enumerate(self._numbers):
                value, known = numbers.value(row), cells[index]
                if value is not None:
                    cells[index] = value if known is None else numbers.join(known, value)
        return found
