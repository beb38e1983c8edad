"""The span of one command line, and the exporter that takes it."""

import importlib.util
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from opentelemetry import trace

from braid.kernel.errors import BraidError
from braid.kernel.limits.telemetry import CLI_EXPORT_SECONDS
from braid.kernel.ports import TraceContext
from braid.telemetry.exporting import Telemetry, exporter_named
from braid.telemetry.tracing import failed, parent_of, started, tracer


@contextmanager
def command_span(name: str, environ: Mapping[str, str]) -> Iterator[None]:
    """Surrounds a command; its span continues the trace in `TRACEPARENT`, where there is one.

    Without OpenTelemetry's SDK (Braid's extra `mesh` brings it) there is no span.

    Raises:
        Invalid: the environment names an exporter that is not known or not installed.
    """
    if not exporter_named("traces", environ) or importlib.util.find_spec("opentelemetry.sdk") is None:
        yield
        return
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)  # a collector that is down spoils no output
    telemetry = Telemetry("braid-cli", environ=environ)
    telemetry.start_traces()
    found = tracer()
    assert found is not None, "it was set up above"
    parent = parent_of(TraceContext(environ.get("TRACEPARENT", ""), environ.get("TRACESTATE", "")))
    try:
        with started(found, name, trace.SpanKind.INTERNAL, {}, parent) as span:
            try:
                yield
            except BraidError as error:
                failed(span, error.reason)
                raise
    finally:
        telemetry.close(CLI_EXPORT_SECONDS)
