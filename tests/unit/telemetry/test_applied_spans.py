"""Spans of what is pushed to a process: from its arrival to its acknowledgement, one at a time."""

from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from braid.telemetry.applied_spans import AppliedSpans

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_an_acknowledgement_ends_the_span_of_its_push(spans: InMemorySpanExporter) -> None:
    applied = AppliedSpans("apply route")
    applied.began(4, PARENT, {"braid.stream": "logs"})
    applied.ended(3)
    assert not spans.get_finished_spans()
    applied.ended(4)
    applied.ended(4)
    (one,) = spans.get_finished_spans()
    assert one.parent is not None
    assert f"{one.parent.span_id:016x}" == PARENT.split("-")[2]


def test_a_newer_push_and_the_end_of_a_stream_end_it_as_failed(spans: InMemorySpanExporter) -> None:
    applied = AppliedSpans("apply route")
    applied.began(4, PARENT, {})
    applied.began(5, PARENT, {})
    applied.close()
    applied.close()
    assert [(each.attributes or {})["error.type"] for each in spans.get_finished_spans()] == [
        "superseded",
        "stream_ended",
    ]


def test_a_push_without_a_trace_has_no_span(spans: InMemorySpanExporter) -> None:
    applied = AppliedSpans("apply route")
    for told in ("", "garbage"):
        applied.began(1, told, {})
        applied.ended(1)
    assert not spans.get_finished_spans()
