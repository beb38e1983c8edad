"""The SDK's metrics as Prometheus reads them behind a collector: real instruments, each used once, served over HTTP."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader, MetricReader, NumberDataPoint
from opentelemetry.util.types import Attributes

from braid.client.telemetry.metrics import CATALOGUE, Instruments
from braid.client.telemetry.zone_bytes import ZONE_IO
from braid.kernel.metrics import MetricDeclaration, prometheus_name

KINDS = {"up-down counter": "gauge"}


def used_once(reader: MetricReader) -> MeterProvider:
    """Uses each declared instrument of the SDK once, for a reader."""
    provider = MeterProvider([reader])
    meter = provider.get_meter("braid")
    made = vars(Instruments(meter))
    zone = meter.create_counter(ZONE_IO.name, ZONE_IO.unit, ZONE_IO.meaning)
    declared = _declared()
    for instrument in (*made.values(), zone):
        use = instrument.record if hasattr(instrument, "record") else instrument.add
        use(1, {name: "x" for name in declared[instrument.name].labels})
    return provider


def exposition() -> str:
    """Uses each declared instrument once, and returns what a collector's exporter of Prometheus would serve."""
    reader = InMemoryMetricReader()
    provider = used_once(reader)
    declared = _declared()
    data = reader.get_metrics_data()
    assert data is not None
    lines: list[str] = []
    for metric in data.resource_metrics[0].scope_metrics[0].metrics:
        lines += _family(declared.pop(metric.name), metric.data.data_points)
    assert not declared, f"declared, but never made: {sorted(declared)}"
    provider.shutdown()
    return "\n".join(lines) + "\n"


def _declared() -> dict[str, MetricDeclaration]:
    return {each.name: each for each in (*CATALOGUE, ZONE_IO)}


def _family(declared: MetricDeclaration, points: object) -> Iterator[str]:
    name = prometheus_name(declared)
    yield f"# TYPE {name} {KINDS.get(declared.kind, declared.kind)}"
    assert isinstance(points, list | tuple)
    for point in points:
        if isinstance(point, NumberDataPoint):
            yield f"{name}{_labels(point.attributes)} {point.value}"
        elif isinstance(point, HistogramDataPoint):
            bounds = (*map(str, point.explicit_bounds), "+Inf")
            for index, bound in enumerate(bounds):
                labels = _labels({**(point.attributes or {}), "le": bound})
                yield f"{name}_bucket{labels} {sum(point.bucket_counts[: index + 1])}"
            yield f"{name}_sum{_labels(point.attributes)} {point.sum}"
            yield f"{name}_count{_labels(point.attributes)} {point.count}"


def _labels(attributes: Attributes) -> str:
    return "{" + ",".join(f'{key.replace(".", "_")}="{value!s}"' for key, value in (attributes or {}).items()) + "}"


@contextmanager
def served() -> Iterator[str]:
    """Serves the SDK's metrics; gives the address of the page."""
    text = exposition().encode()

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *args: object) -> None:
            """Says nothing."""

    with HTTPServer(("127.0.0.1", 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/metrics"
        finally:
            server.shutdown()
            thread.join()
