"""A replica's metrics reach a collector over gRPC, value by value, where OpenTelemetry's variables ask for it."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import grpc
import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from braid.kernel.errors import Invalid
from braid.runtime.metrics.export import start_metrics
from braid.runtime.metrics.instruments import MetricRegistry
from braid.runtime.telemetry import make_metrics
from braid.telemetry.exporting import Telemetry


@contextmanager
def collector(got: list[ExportMetricsServiceRequest], first: threading.Event) -> Iterator[str]:
    """Runs a collector that keeps what it gets; gives its endpoint."""

    def take(request: ExportMetricsServiceRequest, _: object) -> ExportMetricsServiceResponse:
        got.append(request)
        first.set()
        return ExportMetricsServiceResponse()

    handler: grpc.RpcMethodHandler[ExportMetricsServiceRequest, ExportMetricsServiceResponse] = (
        grpc.unary_unary_rpc_method_handler(
            take,
            request_deserializer=ExportMetricsServiceRequest.FromString,
            response_serializer=lambda answer: answer.SerializeToString(),
        )
    )
    server = grpc.server(ThreadPoolExecutor(1))
    service = "opentelemetry.proto.collector.metrics.v1.MetricsService"
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {"Export": handler}),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.stop(0).wait()


def busy() -> MetricRegistry:
    """A registry with a counter, a gauge and a histogram in use."""
    metrics = make_metrics("registry", "registry-0")
    metrics.elections.inc(3)
    metrics.rpc_seconds.labels("ListStreams", "OK").observe(0.02)
    return metrics.registry


def test_a_collector_gets_what_prometheus_would_scrape(monkeypatch: pytest.MonkeyPatch) -> None:
    got: list[ExportMetricsServiceRequest] = []
    first = threading.Event()
    registry, telemetry = busy(), Telemetry("braid-registry", "registry-0", {})
    with collector(got, first) as endpoint:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
        assert start_metrics(
            telemetry, registry, "registry", "registry-0",
            {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_METRIC_EXPORT_INTERVAL": "10"},
        )  # fmt: skip
        assert first.wait(20)
        telemetry.close(20)
    resource = got[0].resource_metrics[0].resource
    assert {each.key: each.value.string_value for each in resource.attributes}["service.name"] == "braid-registry"
    arrived = {each.name: each for each in got[0].resource_metrics[0].scope_metrics[0].metrics}
    scraped = {each.name for each in text_string_to_metric_families(generate_latest(registry).decode()) if each.samples}
    assert set(arrived) == {name for name in scraped if not name.endswith("_created")}
    elections, rpc = arrived["braid_elections_won"].sum, arrived["braid_rpc_seconds"].histogram
    assert elections.is_monotonic and elections.data_points[0].as_double == 3
    assert sum(rpc.data_points[0].bucket_counts) == rpc.data_points[0].count == 1
    assert not rpc.data_points[0].HasField("min")


def test_nothing_is_sent_unless_a_variable_says_where() -> None:
    telemetry = Telemetry("braid-registry", "registry-0", {})
    assert not start_metrics(telemetry, busy(), "registry", "registry-0", {})
    assert not start_metrics(telemetry, busy(), "registry", "registry-0", {"OTEL_METRICS_EXPORTER": "none"})


@pytest.mark.parametrize("interval", ["0", "-5", "soon"])
def test_an_interval_that_is_none_is_refused(interval: str) -> None:
    environ = {"OTEL_METRICS_EXPORTER": "console", "OTEL_METRIC_EXPORT_INTERVAL": interval}
    with pytest.raises(Invalid) as refused:
        start_metrics(Telemetry("braid-registry", "", {}), busy(), "registry", "", environ)
    assert refused.value.field == "OTEL_METRIC_EXPORT_INTERVAL"
