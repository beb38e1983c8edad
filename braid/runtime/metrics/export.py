"""Sends a replica's metrics by OTLP where OpenTelemetry's variables ask for it; else the SDK is not imported."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from braid.kernel.errors import Invalid
from braid.kernel.limits.runtime import METRICS_PUSH_SECONDS
from braid.kernel.limits.telemetry import EXPORT_SHUTDOWN_SECONDS
from braid.runtime.metrics.instruments import MetricRegistry
from braid.telemetry.exporting import CONSOLE, Telemetry, exporter_named, http_exporter, resource_of, speaks_http

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import MetricExporter

INTERVAL_VARIABLE = "OTEL_METRIC_EXPORT_INTERVAL"


def start_metrics(
    telemetry: Telemetry,
    registry: MetricRegistry,
    service: str,
    instance: str,
    environ: Mapping[str, str] = os.environ,
) -> bool:
    """Begins to send a registry's metrics, until `telemetry` is closed; returns whether it does.

    Raises:
        Invalid: the environment names what is not known or not installed, or an interval that is none.
    """
    named = exporter_named("metrics", environ)
    if not named:
        return False
    from braid.runtime.metrics.otlp import MetricPush

    interval = _interval_seconds(environ)
    exporter = _exporter(named, speaks_http("metrics", environ))
    push = MetricPush(registry, exporter, resource_of(f"braid-{service}", instance), interval)
    telemetry.add_ending(lambda: push.shutdown(EXPORT_SHUTDOWN_SECONDS * 1000))
    return True


def _interval_seconds(environ: Mapping[str, str]) -> float:
    said = environ.get(INTERVAL_VARIABLE, "").strip()
    if not said:
        return METRICS_PUSH_SECONDS
    if not said.isdigit() or int(said) < 1:
        raise Invalid(f"{INTERVAL_VARIABLE} is {said!r}", field=INTERVAL_VARIABLE, remedy="set milliseconds, 1 or more")
    return int(said) / 1000


def _exporter(named: str, http: bool) -> "MetricExporter":
    if named == CONSOLE:
        from opentelemetry.sdk.metrics.export import ConsoleMetricExporter

        return ConsoleMetricExporter()
    if http:
        return cast("MetricExporter", http_exporter("metric_exporter.OTLPMetricExporter"))
    from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter

    return OTLPMetricExporter()
