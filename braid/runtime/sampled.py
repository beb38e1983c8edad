"""Metrics whose rows come and go: the whole table is replaced at once, so that a removed row disappears.

The scraping thread reads the table that the loop's thread replaced; a table is never changed in place.
"""

from collections.abc import Iterator, Mapping, Sequence

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

Labels = tuple[str, ...]


class SampledMetric(Collector):
    """One gauge, or one counter maintained elsewhere, with a row for each combination of labels."""

    def __init__(
        self, registry: CollectorRegistry, name: str, text: str, labels: Sequence[str], *, counter: bool = False
    ) -> None:
        """Registers the metric, without rows. A counter's name is given without `_total`."""
        self._name = name
        self._text = text
        self._labels = tuple(labels)
        self._counter = counter
        self._rows: Mapping[Labels, float] = {}
        registry.register(self)

    def replace(self, rows: Mapping[Labels, float]) -> None:
        """Replaces all rows; the mapping must not be changed afterwards."""
        self._rows = rows

    def describe(self) -> Iterator[Metric]:
        """The metric's description, without rows."""
        yield self._family()

    def collect(self) -> Iterator[Metric]:
        """The metric with its present rows."""
        family = self._family()
        for labels, value in self._rows.items():
            family.add_metric(labels, value)
        yield family

    def _family(self) -> GaugeMetricFamily | CounterMetricFamily:
        kind = CounterMetricFamily if self._counter else GaugeMetricFamily
        return kind(self._name, self._text, labels=self._labels)
