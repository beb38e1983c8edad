"""Metrics sent by OTLP are those that Prometheus reads: value by value, of the same kind, in the same buckets."""

import logging
import threading
from collections.abc import Iterator, Mapping

import pytest
from opentelemetry.sdk.metrics.export import (
    Gauge,
    Histogram,
    HistogramDataPoint,
    MetricExporter,
    MetricExportResult,
    MetricsData,
    NumberDataPoint,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from prometheus_client import generate_latest
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families

from braid.kernel.metrics import MetricDeclaration
from braid.runtime.metrics.instruments import MetricRegistry, counter, gauge
from braid.runtime.metrics.otlp import MetricPush, metrics_data
from braid.runtime.metrics.sampled import SampledMetric
from braid.runtime.telemetry import make_assigner_metrics, make_dlq_metrics, make_metrics, make_tls_metrics
from braid.telemetry.exporting import resource_of

Key = tuple[str, tuple[tuple[str, str], ...]]
RESOURCE = Resource({"service.name": "braid-registry"})


def busy_registry() -> MetricRegistry:
    """A registry in which metrics of every kind have rows."""
    metrics = make_metrics("registry", "registry-0")
    metrics.conflicts.labels("stream").inc(3)
    metrics.events.labels('quo"ted\\').inc()
    metrics.leader.set(1)
    for seconds in (0.0001, 0.0005, 0.3, 0.3, 11.0):
        metrics.rpc_seconds.labels("ListStreams", "OK").observe(seconds)
    metrics.rpc_seconds.labels("ListStreams", "ABORTED").observe(0.02)
    make_assigner_metrics(metrics).shadow_imbalance.labels("group", "shadow").set(-0.5)
    make_dlq_metrics(metrics).replay_sent.inc(2**40)
    make_tls_metrics(metrics).expiry_seconds.set(1e9)
    counter = MetricDeclaration("braid_lagmon_probes", "counter", "{record}", ("cluster",), "Probes")
    SampledMetric(metrics.registry, counter).replace({("east",): 4.0, ("west",): 5.0})
    return metrics.registry


def scraped(registry: MetricRegistry) -> dict[Key, float]:
    """Samples that Prometheus reads, without the times at which counters were made."""
    families = text_string_to_metric_families(generate_latest(registry).decode())
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
        if not sample.name.endswith("_created")
    }


def pushed(data: MetricsData) -> Iterator[tuple[Key, float]]:
    """Samples that a collector would serve to Prometheus."""
    for metric in data.resource_metrics[0].scope_metrics[0].metrics:
        for point in metric.data.data_points:
            labels = {key: str(value) for key, value in (point.attributes or {}).items()}
            if isinstance(point, NumberDataPoint):
                suffix = "_total" if isinstance(metric.data, Sum) else ""
                yield key(metric.name + suffix, labels), point.value
            else:
                assert isinstance(point, HistogramDataPoint)
                bounds = [*map(str, point.explicit_bounds), "+Inf"]
                for index, bound in enumerate(bounds):
                    yield key(f"{metric.name}_bucket", labels | {"le": bound}), sum(point.bucket_counts[: index + 1])
                yield key(f"{metric.name}_count", labels), point.count
                yield key(f"{metric.name}_sum", labels), point.sum


def key(name: str, labels: Mapping[str, str]) -> Key:
    """Names a sample."""
    return name, tuple(sorted(labels.items()))


def test_otlp_has_every_value_that_prometheus_has() -> None:
    registry = busy_registry()
    (data,) = metrics_data(registry, RESOURCE, 1, 2)
    assert dict(pushed(data)) == scraped(registry)


@pytest.mark.parametrize("most", [1, 2, 3, 1_000])
def test_parts_of_a_state_hold_each_point_once_within_bounds(most: int) -> None:
    registry = busy_registry()
    parts = list(metrics_data(registry, RESOURCE, 1, 2, most))
    metrics = [metric for part in parts for metric in part.resource_metrics[0].scope_metrics[0].metrics]
    assert all(
        0 < sum(len(each.data.data_points) for each in part.resource_metrics[0].scope_metrics[0].metrics) <= most
        for part in parts
    )
    assert len(parts) == -(-sum(len(each.data.data_points) for each in metrics) // most)
    found = [sample for part in parts for sample in pushed(part)]
    assert len(found) == len(dict(found)) and dict(found) == scraped(registry)


def test_kinds_units_and_times_reach_otlp() -> None:
    (data,) = metrics_data(busy_registry(), RESOURCE, 1, 2)
    metrics = {each.name: each for each in data.resource_metrics[0].scope_metrics[0].metrics}
    conflicts, leader, rpc = (
        metrics[name].data for name in ("braid_append_conflicts", "braid_leader", "braid_rpc_seconds")
    )
    assert isinstance(conflicts, Sum) and conflicts.is_monotonic and isinstance(leader, Gauge)
    assert isinstance(rpc, Histogram)
    assert metrics["braid_rpc_seconds"].unit == "s" and metrics["braid_append_conflicts"].unit == "{append}"
    assert {(point.start_time_unix_nano, point.time_unix_nano) for point in rpc.data_points} == {(1, 2)}
    assert data.resource_metrics[0].resource is RESOURCE
    assert "braid_dead_letters" not in metrics, "a metric without rows has no data"


class Collector(MetricExporter):
    """Stands in for an exporter: answers as it is told, and keeps what it got."""

    def __init__(self, *answers: MetricExportResult | Exception) -> None:
        super().__init__()
        self.answers = list(answers)
        self.got: list[MetricsData] = []
        self.asked = threading.Event()

    def export(self, metrics_data: MetricsData, timeout_millis: float = 10_000, **kwargs: object) -> MetricExportResult:
        """Takes a state, refuses it, or fails."""
        self.got.append(metrics_data)
        answer = self.answers.pop(0) if self.answers else MetricExportResult.SUCCESS
        if not self.answers:
            self.asked.set()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def force_flush(self, timeout_millis: float = 10_000) -> bool:
        """There is nothing to flush."""
        return True

    def shutdown(self, timeout_millis: float = 30_000, **kwargs: object) -> None:
        """Takes nothing more."""


def test_a_failing_collector_is_told_once_and_gets_the_rest(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "braid.metrics")
    collector = Collector(RuntimeError("away"), MetricExportResult.FAILURE, MetricExportResult.SUCCESS)
    push = MetricPush(busy_registry(), collector, RESOURCE, interval_seconds=0.001)
    assert collector.asked.wait(10)
    push.shutdown(5_000)
    assert [record.message for record in caplog.records] == [
        "metrics are not taken by OTLP: RuntimeError: away",
        "metrics are taken by OTLP again",
    ]


def test_the_last_state_is_sent_at_the_end() -> None:
    registry, collector = busy_registry(), Collector()
    push = MetricPush(registry, collector, RESOURCE, interval_seconds=3_600)
    assert not collector.got
    push.shutdown(5_000)
    assert dict(pushed(collector.got[-1])) == scraped(registry)


class UnreadableAtFirst(MetricRegistry):
    """A registry that cannot be read once."""

    reads = 0

    def collect(self) -> Iterator[Metric]:
        """Fails the first time."""
        self.reads += 1
        if self.reads == 1:
            raise RuntimeError("changed while it was read")
        yield from super().collect()


def test_a_registry_that_cannot_be_read_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    collector = Collector()
    registry = UnreadableAtFirst()
    counter(registry, MetricDeclaration("braid_x", "counter", "", (), "X")).inc()
    push = MetricPush(registry, collector, RESOURCE, interval_seconds=0.001)
    assert collector.asked.wait(10)
    push.shutdown(5_000)
    assert [record.message for record in caplog.records][:1] == [
        "metrics are not taken by OTLP: RuntimeError: changed while it was read"
    ]


def test_a_label_that_the_resource_has_is_sent_once() -> None:
    registry = make_metrics("registry", "registry-0").registry
    peers = MetricDeclaration("braid_peer_rows", "gauge", "{row}", ("instance",), "Rows")
    SampledMetric(registry, peers).replace({("registry-0",): 1.0, ("registry-1",): 2.0})
    (data,) = metrics_data(registry, resource_of("braid-registry", "registry-0"), 1, 2)
    found = dict(pushed(data))
    assert found[key("braid_service_info", {"service": "registry"})] == 1.0
    assert (found[key("braid_peer_rows", {})], found[key("braid_peer_rows", {"instance": "registry-1"})]) == (1.0, 2.0)


def test_a_rates_unit_is_in_its_name_alone() -> None:
    registry = MetricRegistry()
    for name, unit in (("braid_taken_bytes_per_second", "By/s"), ("braid_taken_bytes", "By")):
        gauge(registry, MetricDeclaration(name, "gauge", unit, (), "Bytes")).set(1)
    (data,) = metrics_data(registry, RESOURCE, 1, 2)
    units = {each.name: each.unit for each in data.resource_metrics[0].scope_metrics[0].metrics}
    assert units == {"braid_taken_bytes_per_second": "", "braid_taken_bytes": "By"}
