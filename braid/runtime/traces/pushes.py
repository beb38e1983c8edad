"""Spans of messages that a service pushes to members and producers. Each ends with its acknowledgement.

The number of open ones is bounded. A push beyond the bound goes out in the trace of its event, without its own span.
"""

from collections.abc import Hashable, Mapping

from opentelemetry import trace

from braid.kernel.limits.telemetry import PUSH_SPANS_MAX
from braid.kernel.ports import TraceContext
from braid.telemetry.tracing import Attribute, failed, parent_of, trace_of, tracer


class PushSpans:
    """The pushes of one term that wait for their acknowledgements, by stream of messages and number."""

    def __init__(self) -> None:
        self._tracer = tracer()
        self._open: dict[Hashable, dict[int, trace.Span]] = {}
        self._count = 0

    def begin(
        self, key: Hashable, number: int, name: str, traceparent: str, attributes: Mapping[str, Attribute]
    ) -> str:
        """Begins the span of a push that belongs to a trace; returns the context to send with it, empty without one."""
        parent = parent_of(TraceContext(traceparent)) if traceparent else None
        if self._tracer is None or parent is None or self._count >= PUSH_SPANS_MAX:
            return traceparent
        span = self._tracer.start_span(name, parent, trace.SpanKind.PRODUCER, attributes)
        self._open.setdefault(key, {})[number] = span
        self._count += 1
        return trace_of(span).parent

    def acknowledged(self, key: Hashable, number: int) -> None:
        """Ends the spans of all pushes on a stream that an acknowledgement of this number covers."""
        waiting = self._open.get(key)
        for each in [each for each in waiting or () if each <= number]:
            span = self._pop(key, each)
            span.set_attribute("braid.acknowledged", True)
            span.end()

    def gone(self, key: Hashable) -> None:
        """Ends the spans of pushes whose stream ended before their acknowledgements."""
        for each in [*self._open.get(key, ())]:
            span = self._pop(key, each)
            failed(span, "stream_ended")
            span.end()

    def _pop(self, key: Hashable, number: int) -> trace.Span:
        waiting = self._open[key]
        span = waiting.pop(number)
        if not waiting:
            del self._open[key]
        self._count -= 1
        return span
