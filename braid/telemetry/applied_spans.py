"""Spans of what a service pushes to this process: from its arrival until it is acknowledged.

Without tracing here, or in the service, there are none.
"""

from collections.abc import Mapping

from opentelemetry import trace

from braid.kernel.ports import TraceContext
from braid.telemetry.tracing import Attribute, failed, parent_of, tracer


class AppliedSpans:
    """The span of the newest push on one stream of messages; at most one is open."""

    def __init__(self, name: str) -> None:
        """`name` is the spans' name."""
        self._name = name
        self._tracer = tracer()
        self._open: tuple[int, trace.Span] | None = None

    def began(self, number: int, traceparent: str, attributes: Mapping[str, Attribute]) -> None:
        """Begins the span of a push that belongs to a trace. One that was not acknowledged is superseded."""
        self._end("superseded")
        if self._tracer is None or not traceparent or (parent := parent_of(TraceContext(traceparent))) is None:
            return
        self._open = number, self._tracer.start_span(self._name, parent, trace.SpanKind.CONSUMER, attributes)

    def ended(self, number: int) -> None:
        """Ends the span of a push that is acknowledged now."""
        if self._open is not None and number >= self._open[0]:
            span, self._open = self._open[1], None
            span.end()

    def close(self) -> None:
        """Ends the span of a push that will not be acknowledged any more."""
        self._end("stream_ended")

    def _end(self, why: str) -> None:
        if self._open is not None:
            span, self._open = self._open[1], None
            failed(span, why)
            span.end()
