"""Trace context as callers send it, and spans of calls: bounded, without texts of errors, none where none belong."""

import asyncio

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import NoOpTracerProvider, StatusCode

from braid.kernel.errors import Invalid, NotFound, Unavailable
from braid.kernel.limits.telemetry import TRACEPARENT_BYTES_MAX
from braid.kernel.ports import NO_TRACE, TraceContext
from braid.telemetry.calls import call_tracer, called
from braid.telemetry.tracing import (
    continued,
    current_traceparent,
    parent_of,
    server_span,
    started,
    trace_ids,
    trace_of,
    tracer,
    use_provider,
)

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
PATH = "/braid.api.registry.v1.RegistryService/MoveStream"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "garbage",
        PARENT.replace("01", "0", 1),
        f"ff{PARENT[2:]}",
        f"01{PARENT[2:]}-" + "x" * TRACEPARENT_BYTES_MAX,
        "00-" + "0" * 52,
    ],
)
def test_text_that_names_no_span_is_no_parent(text: str) -> None:
    assert parent_of(TraceContext(text)) is None


def test_context_that_is_read_is_written_again() -> None:
    found = parent_of(TraceContext(PARENT, "a=b"))
    assert trace_of(trace.get_current_span(found)) == TraceContext(PARENT, "a=b")


def test_a_client_span_carries_the_code_and_no_message(spans: InMemorySpanExporter) -> None:
    found = tracer()
    assert found is not None
    with (
        started(found, "work", trace.SpanKind.INTERNAL, {}),
        pytest.raises(NotFound),
        called(call_tracer(), PATH, "registry.local:7401") as sent,
    ):
        raise NotFound("there is no stream of a secret name")
    call, work = spans.get_finished_spans()
    assert call.context is not None
    assert sent.parent.split("-")[2] == trace.format_span_id(call.context.span_id)
    assert call.attributes is not None
    assert dict(call.attributes) == {
        "rpc.system.name": "grpc",
        "rpc.method": PATH[1:],
        "server.address": "registry.local",
        "server.port": 7401,
        "rpc.response.status_code": "NOT_FOUND",
        "error.type": "NOT_FOUND",
    }
    assert (call.name, call.kind) == (PATH[1:], trace.SpanKind.CLIENT)
    assert not call.events
    assert "secret" not in call.to_json() + work.to_json()


def test_a_call_outside_of_spans_begins_no_trace(spans: InMemorySpanExporter) -> None:
    with called(call_tracer(), PATH, "registry.local:7401") as sent:
        assert sent == NO_TRACE
    assert not spans.get_finished_spans()


def test_a_server_span_fails_for_the_servers_own_errors_alone(spans: InMemorySpanExporter) -> None:
    found = tracer()
    assert found is not None
    for error in (Invalid("no"), Unavailable("away")):
        with pytest.raises(type(error)), server_span(found, PATH, parent_of(TraceContext(PARENT)), "request-1"):
            raise error
    refused, away = spans.get_finished_spans()
    assert [each.status.status_code for each in (refused, away)] == [StatusCode.UNSET, StatusCode.ERROR]
    assert refused.parent is not None
    assert trace.format_span_id(refused.parent.span_id) == PARENT.split("-")[2]


async def test_a_loop_begun_in_a_call_leaves_its_trace_with_the_call(spans: InMemorySpanExporter) -> None:
    found, ended = tracer(), asyncio.Event()
    assert found is not None
    seen: list[tuple[str, dict[str, str]]] = []

    async def loop() -> None:
        seen.append((current_traceparent(), trace_ids()))
        await ended.wait()
        with called(call_tracer(), PATH, "registry.local:7401"):
            seen.append((current_traceparent(), trace_ids()))

    with server_span(found, PATH, None, ""):
        task = asyncio.create_task(loop())
        await asyncio.sleep(0)
    ended.set()
    await task
    assert seen[0][0].split("-")[1] == seen[0][1]["trace_id"]
    assert seen[1] == ("", {})
    assert len(spans.get_finished_spans()) == 1


def test_what_follows_from_an_event_continues_its_trace() -> None:
    with continued(""):
        assert current_traceparent() == ""
    with continued(PARENT):
        assert current_traceparent() == PARENT
        assert trace_ids() == {"trace_id": PARENT.split("-")[1], "span_id": PARENT.split("-")[2]}
    with continued("garbage"):
        assert trace_ids() == {}
    assert current_traceparent() == ""


def test_a_named_instrumentation_is_switched_off(spans: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch) -> None:
    assert tracer() is not None
    monkeypatch.setenv("OTEL_PYTHON_DISABLED_INSTRUMENTATIONS", "redis, braid")
    assert tracer() is None
    monkeypatch.delenv("OTEL_PYTHON_DISABLED_INSTRUMENTATIONS")
    use_provider(NoOpTracerProvider())
    assert tracer() is None
    use_provider(None)
    assert tracer() is not None
