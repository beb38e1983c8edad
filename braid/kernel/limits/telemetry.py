"""Bounds of traces and logs that go out by OpenTelemetry. Queues of exporters have the SDK's own (`OTEL_BSP_…`)."""

from typing import Final

TRACEPARENT_BYTES_MAX: Final = 128  # 55 today; a later version of W3C's format may be longer
TRACESTATE_BYTES_MAX: Final = 512  # what W3C asks of everybody who passes it on; longer is dropped
SPAN_TEXT_CHARS_MAX: Final = 200  # of one attribute: names are shorter, causes are cut
SPAN_EVENTS_NAMED_MAX: Final = 16  # types of events that one span names
PUSH_SPANS_MAX: Final = 1_000  # pushes that wait for acknowledgements in one replica; others have no span
EXPORT_SHUTDOWN_SECONDS: Final = 2.0  # for what waits when a process ends; the rest is dropped
CLI_EXPORT_SECONDS: Final = 1.0  # for the spans of one command, after its output: a collector may be down
LOG_ATTRIBUTES_MAX: Final = 32  # values of one exported log
LOG_TEXT_CHARS_MAX: Final = 4_096  # of its text, of each value, and of a traceback, whose end counts
CHANNEL_TRACES_MAX: Final = 10_000  # channels whose newest trace the registry remembers
TRACE_CONTINUED_SECONDS: Final = 600.0  # after a channel's last traced event: later steps begin traces of their own
