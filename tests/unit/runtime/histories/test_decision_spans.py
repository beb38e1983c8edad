"""Spans of decisions and appends: none for a look that leads to nothing, and events in the trace that decided them."""

from collections.abc import Sequence

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from braid.kernel.decider import Context
from braid.kernel.errors import BraidError, Invalid
from braid.kernel.ports import HistoryId
from braid.runtime.histories.decision_spans import DecisionSpans, decision_spans
from braid.telemetry.tracing import started, tracer

HISTORY = HistoryId("registry", "counter", "total")
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
OTHER = "00-1af7651916cd43dd8448eb211c80319c-c7ad6b7169203331-01"


@pytest.fixture
def decisions(spans: InMemorySpanExporter) -> DecisionSpans:
    """Makes spans for the exporter of the test."""
    found = decision_spans()
    assert found is not None
    return found


def decide(decisions: DecisionSpans, context: Context, *events: object, error: BraidError | None = None) -> Context:
    """Decides a command that leads to these events, or is refused; returns the context they are recorded with."""

    def decider(state: object, command: object, context: Context) -> Sequence[object]:
        if error is not None:
            raise error
        return events

    return decisions.decide(HISTORY, decider, 0, "command", context)[1]


@pytest.mark.parametrize("parent", ["", PARENT])
def test_a_look_that_leads_to_nothing_has_no_span(
    decisions: DecisionSpans, spans: InMemorySpanExporter, parent: str
) -> None:
    assert decide(decisions, Context(1, "registry-0", trace=parent)).trace == parent
    assert not spans.get_finished_spans()


def test_events_are_recorded_in_the_trace_that_decided_them(
    decisions: DecisionSpans, spans: InMemorySpanExporter
) -> None:
    kept = decide(decisions, Context(1, "registry-0", cause="c" * 999, trace=PARENT), "event", 2)
    (one,) = spans.get_finished_spans()
    assert one.context is not None
    assert kept.trace.split("-")[1:3] == [PARENT.split("-")[1], f"{one.context.span_id:016x}"]
    assert dict(one.attributes or {}) == {
        "braid.service": "registry",
        "braid.history.kind": "counter",
        "braid.history.id": "total",
        "braid.command": "str",
        "braid.events": ("str", "int"),
        "braid.events.count": 2,
        "braid.cause": "c" * 200,
    }


def test_a_decision_without_a_trace_begins_one(decisions: DecisionSpans, spans: InMemorySpanExporter) -> None:
    kept = decide(decisions, Context(1, "registry-0"), "event")
    (one,) = spans.get_finished_spans()
    assert one.parent is None
    assert one.context is not None
    assert kept.trace.split("-")[1] == f"{one.context.trace_id:032x}"


def test_a_refusal_in_a_call_is_shown_by_its_code(decisions: DecisionSpans, spans: InMemorySpanExporter) -> None:
    found, error = tracer(), Invalid("a text")
    assert found is not None
    with started(found, "call", trace.SpanKind.SERVER, {}), pytest.raises(Invalid):
        decide(decisions, Context(1, "ann", trace=PARENT), error=error)
    refused = spans.get_finished_spans()[0]
    assert (refused.attributes or {})["error.type"] == "INVALID_ARGUMENT"
    assert "a text" not in refused.to_json()


def test_an_append_of_several_decisions_links_to_the_others(
    decisions: DecisionSpans, spans: InMemorySpanExporter
) -> None:
    decisions.appended(HISTORY, [Context(1, "a")], 1, 0.1)
    assert not spans.get_finished_spans()
    contexts = [Context(1, "a", trace=each) for each in ("", PARENT, PARENT, OTHER)]
    decisions.appended(HISTORY, contexts, 4, 0.25)
    (one,) = spans.get_finished_spans()
    assert one.parent is not None
    assert f"{one.parent.span_id:016x}" == PARENT.split("-")[2]
    assert [f"{each.context.trace_id:032x}" for each in one.links] == [OTHER.split("-")[1]]
    assert one.start_time is not None
    assert one.end_time is not None
    assert one.end_time - one.start_time >= 250_000_000
