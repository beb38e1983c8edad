"""Spans of messages that a service pushes to members and producers. Each ends with its acknowledgement.

The number of open ones is bounded. A push beyond the bound goes out in the trace of its event, without its own span.
"""

from collections.abc import Hashable, Mapping
from typing import NamedTuple

from opentelemetry import trace

from braid.kernel.limits.telemetry import PUSH_SPANS_MAX
from braid.kernel.ports import TraceContext
from braid.telemetry.tracing import Attribute, failed, parent_of, trace_of, tracer


class _Pushed(NamedTuple):
    """An open span, and the number that its acknowledgement names."""

    number: int
    span: trace.Span


class PushSpans:
    """The open pushes of one term, at most one for each stream of messages."""

    def __init__(self) -> None:
        self._tracer = tracer()
        self._open: dict[Hashable, _Pushed] = {}

    def begin(
        self, key: Hashable, number: int, name: str, traceparent: str, attributes: Mapping[str, Attribute]
    ) -> str:
        """Begins the span of a push that belongs to a trace; returns the context to send with it, empty without one.

        A push on the same stream that was not acknowledged yet ends as superseded.
        """
        self._end(key, "superseded")
        parent = parent_of(TraceContext(traceparent)) if traceparent else None
        if self._tracer is None or parent is None or len(self._open) >= PUSH_SPANS_MAX:
            return traceparent
        span = self._tracer.start_span(name, parent, trace.SpanKind.PRODUCER, attributes)
        self._open[key] = _Pushed(number, span)
        return trace_of(span).parent

    def acknowledged(self, key: Hashable, number: int) -> None:
        """Ends the span of the push that an acknowledgement covers."""
        pushed = self._open.get(key)
        if pushed is not None and number >= pushed.number:
            del self._open[key]
            pushed.span.set_attribute("braid.acknowledged", True)
            pushed.span.end()

    def gone(self, key: Hashable) -> None:
        """Ends the span of a push whose stream ended before its acknowledgement."""
        self._end(key, "stream_ended")

    def _end(self, key: Hashable, why: str) -> None:
        pushed = self._open.pop(key, None)
        if pushed is not None:
            failed(pushed.span, why)
            pushed.span.end()
