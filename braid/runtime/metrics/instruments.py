"""Prometheus instruments made from declarations, in a registry that knows the declaration of each."""

from collections.abc import Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from braid.kernel.metrics import LABELS, MetricDeclaration

SECONDS_BUCKETS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class MetricRegistry(CollectorRegistry):
    """The metrics of one replica, each of which was declared."""

    def __init__(self) -> None:
        super().__init__()
        self._declared: dict[str, MetricDeclaration] = {}

    @property
    def declared(self) -> Mapping[str, MetricDeclaration]:
        """Declarations by the name of their metric."""
        return self._declared

    def declare(self, declared: MetricDeclaration) -> MetricDeclaration:
        """Notes the declaration of an instrument that is being made.

        Raises:
            ValueError: it has a label whose values nothing bounds; see `braid.kernel.metrics.LABELS`.
        """
        if unbounded := [label for label in declared.labels if label not in LABELS]:
            raise ValueError(f"{declared.name}: labels without a bound: {unbounded}")
        self._declared[declared.name] = declared
        return declared


def counter(registry: MetricRegistry, declared: MetricDeclaration) -> Counter:
    """Creates a declared counter."""
    registry.declare(declared)
    return Counter(declared.name, declared.meaning, declared.labels, registry=registry)


def gauge(registry: MetricRegistry, declared: MetricDeclaration) -> Gauge:
    """Creates a declared gauge."""
    registry.declare(declared)
    return Gauge(declared.name, declared.meaning, declared.labels, registry=registry)


def histogram(registry: MetricRegistry, declared: MetricDeclaration) -> Histogram:
    """Creates a declared histogram of seconds."""
    registry.declare(declared)
    return Histogram(declared.name, declared.meaning, declared.labels, registry=registry, buckets=SECONDS_BUCKETS)
