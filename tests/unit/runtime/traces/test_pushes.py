"""Spans of pushes: they end with acknowledgements or with their streams, and their number is bounded."""

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from braid.runtime.traces import pushes as push_spans
from braid.runtime.traces.pushes import PushSpans

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_an_acknowledgement_ends_all_pushes_that_it_covers(spans: InMemorySpanExporter) -> None:
    pushes = PushSpans()
    for number in (1, 2, 3):
        assert pushes.begin("stream", number, f"push {number}", PARENT, {}) != PARENT
    pushes.acknowledged("other", 9)
    assert not spans.get_finished_spans()
    pushes.acknowledged("stream", 2)
    pushes.acknowledged("stream", 2)  # told twice
    assert [each.name for each in spans.get_finished_spans()] == ["push 1", "push 2"]
    pushes.gone("stream")
    pushes.acknowledged("stream", 3)  # told late
    assert [(each.attributes or {}).get("error.type") for each in spans.get_finished_spans()] == [
        None,
        None,
        "stream_ended",
    ]


def test_pushes_beyond_the_bound_go_out_without_a_span(
    spans: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(push_spans, "PUSH_SPANS_MAX", 2)
    pushes = PushSpans()
    sent = [pushes.begin(number, 1, "push", PARENT, {}) for number in range(3)]
    assert [each == PARENT for each in sent] == [False, False, True]
    pushes.gone(0)
    assert pushes.begin(3, 1, "push", PARENT, {}) != PARENT


@pytest.mark.parametrize("parent", ["", "garbage"])
def test_a_push_that_belongs_to_no_trace_has_no_span(spans: InMemorySpanExporter, parent: str) -> None:
    pushes = PushSpans()
    assert pushes.begin("stream", 1, "push", parent, {}) == parent
    pushes.gone("stream")
    assert not spans.get_finished_spans()
