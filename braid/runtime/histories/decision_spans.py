"""Spans of decisions and of the appends that record them. Events keep the context of the span that decided them.

A span is made after the fact. So a leader's own look at a history makes none unless it led to events. Then it goes on
with the trace of what the leader looks at, or is the first span of a trace.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from time import time_ns

from opentelemetry import trace
from opentelemetry.context import Context as Parent

from braid.kernel.decider import Context
from braid.kernel.errors import BraidError
from braid.kernel.limits.telemetry import SPAN_EVENTS_NAMED_MAX
from braid.kernel.ports import HistoryId, TraceContext
from braid.telemetry.tracing import Attribute, answered, cut, parent_of, trace_of, tracer


class DecisionSpans:
    """Makes the spans of one service's decisions."""

    def __init__(self, tracer: trace.Tracer) -> None:
        self._tracer = tracer

    def decide(
        self,
        history: HistoryId,
        decide: Callable[[object, object, Context], Sequence[object]],
        state: object,
        command: object,
        context: Context,
    ) -> tuple[Sequence[object], Context]:
        """Decides, and makes the span. Returns the events, and the context that they are recorded with."""
        began_ns = time_ns()
        try:
            events = decide(state, command, context)
        except BraidError as refusal:
            self._decided(history, command, context, (), began_ns, refusal)
            raise
        return events, self._decided(history, command, context, events, began_ns)

    def _decided(
        self,
        history: HistoryId,
        command: object,
        context: Context,
        events: Sequence[object],
        began_ns: int,
        refusal: BraidError | None = None,
    ) -> Context:
        parent = parent_of(TraceContext(context.trace))
        if not events and not trace.get_current_span().is_recording():
            return context
        named = list(dict.fromkeys(type(each).__name__ for each in events))[:SPAN_EVENTS_NAMED_MAX]
        attributes = {
            **_subject(history),
            "braid.command": type(command).__name__,
            "braid.events": named,
            "braid.events.count": len(events),
            **({"braid.cause": cut(context.cause)} if context.cause else {}),
        }
        span = self._start(f"decide {history.kind}", parent, attributes, began_ns)
        if refusal is not None:
            answered(span, refusal.code)
        span.end()
        return replace(context, trace=trace_of(span).parent)

    def appended(self, history: HistoryId, contexts: Sequence[Context], events: int, seconds: float) -> None:
        """Makes the span of an append, in the trace of the first decision that it records; the others are linked."""
        traces = list(dict.fromkeys(each.trace for each in contexts if each.trace))[:SPAN_EVENTS_NAMED_MAX]
        parents = [parent for each in traces if (parent := parent_of(TraceContext(each))) is not None]
        if not parents:
            return
        others = [trace.Link(trace.get_current_span(each).get_span_context()) for each in parents[1:]]
        attributes = {**_subject(history), "braid.events.count": events}
        self._start(f"append {history.kind}", parents[0], attributes, time_ns() - int(seconds * 1e9), others).end()

    def _start(
        self,
        name: str,
        parent: Parent | None,
        attributes: dict[str, Attribute],
        began_ns: int,
        links: Sequence[trace.Link] = (),
    ) -> trace.Span:
        return self._tracer.start_span(
            name, parent or Parent(), trace.SpanKind.INTERNAL, attributes, links, start_time=began_ns
        )


def decision_spans() -> DecisionSpans | None:
    """Returns what makes the spans; None without tracing."""
    found = tracer()
    return None if found is None else DecisionSpans(found)


def _subject(history: HistoryId) -> dict[str, Attribute]:
    return {
        "braid.service": history.service,
        "braid.history.kind": history.kind,
        "braid.history.id": cut(history.id),
    }
