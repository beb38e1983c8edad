"""Logs as OpenTelemetry's records: values are attributes within bounds, traces are kept, exporters' own left out."""

import logging

import pytest
from opentelemetry import trace
from opentelemetry._logs import SeverityNumber
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from braid.kernel.limits.telemetry import LOG_ATTRIBUTES_MAX, LOG_TEXT_CHARS_MAX
from braid.telemetry.logs import LogsHandler
from braid.telemetry.tracing import started, tracer


@pytest.fixture
def exported() -> InMemoryLogRecordExporter:
    return InMemoryLogRecordExporter()  # type: ignore[no-untyped-call]


@pytest.fixture
def log(exported: InMemoryLogRecordExporter, request: pytest.FixtureRequest) -> logging.Logger:
    """A logger whose logs are exported."""
    provider = LoggerProvider(shutdown_on_exit=False)
    provider.add_log_record_processor(SimpleLogRecordProcessor(exported))
    found = logging.Logger(f"braid.{request.node.name}")
    found.addHandler(LogsHandler(provider))
    return found


def test_values_of_a_log_are_attributes_and_its_event_the_text(
    log: logging.Logger, exported: InMemoryLogRecordExporter, spans: InMemorySpanExporter
) -> None:
    found = tracer()
    assert found is not None
    with started(found, "work", trace.SpanKind.INTERNAL, {}) as span:
        log.warning({"event": "stream", "stream": "logs", "lanes": ("live", "bulk")})
    (one,) = (each.log_record for each in exported.get_finished_logs())
    assert (one.body, one.severity_number) == ("stream", SeverityNumber.WARN)
    assert one.attributes is not None
    assert (one.attributes["stream"], one.attributes["lanes"]) == ("logs", "('live', 'bulk')")
    assert (one.trace_id, one.span_id) == (span.get_span_context().trace_id, span.get_span_context().span_id)


def test_a_long_log_is_cut(log: logging.Logger, exported: InMemoryLogRecordExporter) -> None:
    log.info({"event": "e" * 9_000, **{f"k{number}": ["v" * 9_000] for number in range(100)}})
    (one,) = (each.log_record for each in exported.get_finished_logs())
    assert len(str(one.body)) == LOG_TEXT_CHARS_MAX
    assert one.attributes is not None
    assert len(one.attributes) <= LOG_ATTRIBUTES_MAX + 1
    assert max(len(str(each)) for each in one.attributes.values()) <= LOG_TEXT_CHARS_MAX


def test_an_exporters_own_trouble_is_not_exported(exported: InMemoryLogRecordExporter, log: logging.Logger) -> None:
    own = logging.Logger("opentelemetry.exporter")
    own.handlers = log.handlers
    own.error("failed")
    assert not exported.get_finished_logs()


def test_an_errors_traceback_comes_with_its_log(log: logging.Logger, exported: InMemoryLogRecordExporter) -> None:
    try:
        int("bad")
    except ValueError:
        log.exception("failed")
    (one,) = (each.log_record for each in exported.get_finished_logs())
    assert one.attributes is not None
    assert one.attributes["exception.type"] == "ValueError"
    assert "int(" in str(one.attributes["exception.stacktrace"])
