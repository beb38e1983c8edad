"""Bounds of traces and logs that go out by OpenTelemetry. Queues of exporters have the SDK's own (`OTEL_BSP_…`)."""

from typing import Final

TRACEPARENT_BYTES_MAX: Final = 128  # 55 today; a later version of W3C's format may be longer
TRACESTATE_BYTES_MAX: Final = 512  # what W3C asks of everybody who passes it on; longer is dropped
SPAN_TEXT_CHARS_MAX: Final = 200  # of one attribute: names are shorter, causes are cut
SPAN_EVENTS_NAMED_MAX: Final = 16  # types of events that one span names
PUSH_SPANS_MAX: Final = 1_000  # pushes that wait for acknowledgements in one replica; others have no span
EXPORT_SHUTDOWN_SECONDS: Final = 2.0  # for what waits when a process ends; the rest is dropped
EXPORT_CALL_SECONDS: Final = 1.0  # one export at that end: a collector that hangs holds nobody up
CLI_EXPORT_SECONDS: Final = 2.0  # for the spans of one command, after its output
AUDIT_LOGS_WAITING_MAX: Final = 2_048  # records that wait for one export; the SDK drops the oldest then
