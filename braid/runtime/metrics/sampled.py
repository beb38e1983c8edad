"""Metrics whose rows come and go: the whole table is replaced at once, so that a removed row disappears.

The scraping thread reads the table that the loop's thread replaced; a table is never changed in place. A long table is
made where it is read, row by row: the loop does not wait for it, and no row outlives its line.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import cast

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from braid.kernel.metrics import MetricDeclaration
from braid.runtime.metrics.instruments import MetricRegistry

Labels = tuple[str, ...]
Rows = Iterable[tuple[Labels, float]]


class SampledMetric(Collector):
    """One gauge, or one counter maintained elsewhere, with a row for each combination of labels."""

    def __init__(self, registry: MetricRegistry, declared: MetricDeclaration) -> None:
        """Registers the metric, without rows."""
        self._declared = registry.declare(declared)
        self._rows: Mapping[Labels, float] = {}
        self._read: Callable[[], Rows] | None = None
        registry.register(self)

    def replace(self, rows: Mapping[Labels, float]) -> int:
        """Replaces all rows; the mapping must not be changed afterwards.

        Returns:
            How many rows were left out, because the metric may show no more than `rows_max`. Rows that it shows
            already stay.
        """
        most = self._declared.rows_max
        left_out = max(0, len(rows) - most) if most else 0
        self._rows = self._bounded(rows, most) if left_out else rows
        return left_out

    def read_by(self, read: Callable[[], Rows]) -> None:
        """Makes the rows of a gauge at each read, in the reader's thread.

        Labels must differ from row to row. Rows beyond the bound of the metric are left out.
        """
        assert self._declared.kind == "gauge", "the samples of a counter have another name"
        self._read = read

    def _bounded(self, rows: Mapping[Labels, float], most: int) -> Mapping[Labels, float]:
        stay = [labels for labels in self._rows if labels in rows][:most]
        come = (labels for labels in rows if labels not in self._rows)
        return {labels: rows[labels] for labels in (*stay, *islice(come, most - len(stay)))}

    def describe(self) -> Iterator[Metric]:
        """The metric's description, without rows."""
        yield self._family()

    def collect(self) -> Iterator[Metric]:
        """The metric with its present rows."""
        family = self._family()
        read, rows = self._read, self._rows
        if read is None:
            for labels, value in rows.items():
                family.add_metric(labels, value)
        else:
            samples = _Samples(family.name, self._declared.labels, read, self._declared.rows_max or None)
            family.samples = cast("list[Sample]", samples)  # readers iterate over it, no more
        yield family

    def _family(self) -> GaugeMetricFamily | CounterMetricFamily:
        name, meaning, labels = self._declared.name, self._declared.meaning, self._declared.labels
        if self._declared.kind == "counter":
            return CounterMetricFamily(name, meaning, labels=labels)
        return GaugeMetricFamily(name, meaning, labels=labels)


@dataclass(frozen=True)
class _Samples:
    """Samples of a gauge, made one by one at each iteration."""

    name: str
    labels: tuple[str, ...]
    read: Callable[[], Rows]
    most: int | None

    def __iter__(self) -> Iterator[Sample]:
        for labels, value in islice(self.read(), self.most):
            yield Sample(self.name, dict(zip(self.labels, labels, strict=True)), value)
