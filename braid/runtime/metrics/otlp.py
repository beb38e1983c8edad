"""Sends a replica's metrics by OTLP: the same registry that Prometheus scrapes, as OpenTelemetry's data.

Counters stay monotonic sums and histograms keep their buckets, which observable instruments could not do. This module
imports OpenTelemetry's SDK, so processes import it only where OTLP is switched on.
"""

import logging
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricExporter,
    MetricExportResult,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from prometheus_client.core import Metric as Family
from prometheus_client.samples import Sample

from braid.kernel.limits.runtime import METRICS_PUSH_POINTS_MAX, METRICS_PUSH_SECONDS, METRICS_PUSH_TIMEOUT_SECONDS
from braid.runtime.metrics.instruments import MetricRegistry

Point = NumberDataPoint | HistogramDataPoint
_OF_RESOURCE: Final = "service.instance.id"
_SCOPE: Final = InstrumentationScope("braid")
_log: Final = logging.getLogger("braid.metrics")


def metrics_data(
    registry: MetricRegistry,
    resource: Resource,
    started_ns: int,
    now_ns: int,
    points_max: int = METRICS_PUSH_POINTS_MAX,
) -> Iterator[MetricsData]:
    """Reads a registry as OpenTelemetry's data, in parts: a state of 100,000 points would be many objects at once.

    Args:
        registry: Whose metrics; metrics without rows are left out.
        resource: Whose they are.
        started_ns: When counters and histograms began at 0, in nanoseconds since 1970: when the process started.
        now_ns: When they are read.
        points_max: In one part. The points of one metric may be in several.
    """
    metrics: list[Metric] = []
    room, instance = points_max, str(resource.attributes.get(_OF_RESOURCE, ""))
    for family in registry.collect():
        declared = registry.declared.get(family.name)
        if declared is None:
            continue
        points = _points(declared.kind, family, instance, started_ns, now_ns)
        while some := list(islice(points, room)):
            metrics.append(Metric(declared.name, declared.meaning, _unit(declared.unit), _data(declared.kind, some)))
            room -= len(some)
            if not room:
                yield _state(resource, metrics)
                metrics, room = [], points_max
    if metrics:
        yield _state(resource, metrics)


def _state(resource: Resource, metrics: Sequence[Metric]) -> MetricsData:
    return MetricsData([ResourceMetrics(resource, [ScopeMetrics(_SCOPE, metrics, "")], "")])


def _unit(unit: str) -> str:
    """Returns a unit; none for a rate, which translators to Prometheus would append to a name that ends with it."""
    return "" if "/" in unit else unit


def _attributes(labels: Mapping[str, str], instance: str) -> dict[str, str]:
    """Returns labels as attributes, without the instance that the resource names.

    Translators make the label `instance` of the resource, and a collector drops metrics that have one label twice.
    """
    return {name: value for name, value in labels.items() if (name, value) != ("instance", instance)}


def _points(kind: str, family: Family, instance: str, started_ns: int, now_ns: int) -> Iterator[Point]:
    if kind == "histogram":
        yield from (_histogram(rows, instance, started_ns, now_ns) for rows in _by_labels(family.samples))
        return
    for each in family.samples:
        if not each.name.endswith("_created"):
            yield NumberDataPoint(_attributes(each.labels, instance), started_ns, now_ns, each.value)


def _data(kind: str, points: Sequence[Point]) -> Sum | Gauge | Histogram:
    if kind == "histogram":
        rows = [point for point in points if isinstance(point, HistogramDataPoint)]
        return Histogram(rows, AggregationTemporality.CUMULATIVE)
    numbers = [point for point in points if isinstance(point, NumberDataPoint)]
    return Sum(numbers, AggregationTemporality.CUMULATIVE, True) if kind == "counter" else Gauge(numbers)


def _by_labels(samples: Sequence[Sample]) -> Iterator[list[Sample]]:
    """Yields the samples of each row of a histogram: those whose labels agree but for the bucket's bound."""
    rows: dict[tuple[tuple[str, str], ...], list[Sample]] = {}
    for each in samples:
        rows.setdefault(tuple(item for item in each.labels.items() if item[0] != "le"), []).append(each)
    yield from rows.values()


def _histogram(row: Sequence[Sample], instance: str, started_ns: int, now_ns: int) -> HistogramDataPoint:
    """One row as a point: Prometheus' buckets count everything up to their bound, OpenTelemetry's what is in them."""
    buckets = sorted((float(each.labels["le"]), int(each.value)) for each in row if each.name.endswith("_bucket"))
    counts = [count for _, count in buckets]
    return HistogramDataPoint(
        attributes={name: value for name, value in _attributes(row[0].labels, instance).items() if name != "le"},
        start_time_unix_nano=started_ns,
        time_unix_nano=now_ns,
        count=counts[-1],
        sum=next(each.value for each in row if each.name.endswith("_sum")),
        bucket_counts=[count - before for before, count in zip([0, *counts], counts, strict=False)],
        explicit_bounds=[bound for bound, _ in buckets[:-1]],
        min=None,  # type: ignore[arg-type]  # not known; the field is optional in OTLP
        max=None,  # type: ignore[arg-type]
    )


class MetricPush:
    """Sends a registry's metrics at intervals, in a thread of its own, until `shutdown`.

    A collector that is away costs nothing but its own attempts: what is not sent is not kept, and the next state is as
    good, because counters only grow.
    """

    def __init__(
        self,
        registry: MetricRegistry,
        exporter: MetricExporter,
        resource: Resource,
        interval_seconds: float = METRICS_PUSH_SECONDS,
    ) -> None:
        """Starts to send."""
        self._registry = registry
        self._exporter = exporter
        self._resource = resource
        self._interval_seconds = interval_seconds
        self._started_ns = time.time_ns()
        self._ending = threading.Event()
        self._failing = False
        self._thread = threading.Thread(target=self._run, name="metrics by OTLP", daemon=True)
        self._thread.start()

    def shutdown(self, timeout_millis: float) -> None:
        """Sends the last state, and ends; a collector that does not answer holds it up no longer than so long."""
        self._ending.set()
        self._thread.join(timeout_millis / 1000)
        self._exporter.shutdown(timeout_millis=0.0)

    def _run(self) -> None:
        while not self._ending.wait(self._interval_seconds):
            self._send()
        self._send()

    def _send(self) -> None:
        """Sends the present state; what follows a failure is logged once, and so is its end."""
        try:
            trouble = "" if self._sent() else "refused, or the collector is away"
        except Exception as error:  # noqa: BLE001  # no fault of an exporter or a metric ends the sending
            trouble = f"{type(error).__name__}: {error}"
        if trouble and not self._failing:
            _log.warning("metrics are not taken by OTLP: %s", trouble)
        elif self._failing and not trouble:
            _log.info("metrics are taken by OTLP again")
        self._failing = bool(trouble)

    def _sent(self) -> bool:
        """Sends the present state part by part until one is refused, and says whether all were taken."""
        until = time.monotonic() + METRICS_PUSH_TIMEOUT_SECONDS
        for part in metrics_data(self._registry, self._resource, self._started_ns, time.time_ns()):
            left_ms = (until - time.monotonic()) * 1000
            if left_ms <= 0 or self._exporter.export(part, left_ms) is not MetricExportResult.SUCCESS:
                return False
        return True
