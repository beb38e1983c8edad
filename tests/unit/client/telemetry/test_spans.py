"""Spans where tracing is set up, and nothing where it is not."""

import asyncio

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from braid.client.consumer_settings import Retry
from braid.client.records.record import Record
from braid.telemetry.tracing import tracer
from tests.support.scripted_control import until
from tests.support.virtual_time import run_virtual
from tests.unit.client.scripted_member import LIVE, TOPIC, bench, member


async def send_and_handle() -> None:
    """One record is sent, fails once, is handled."""

    async def handle(record: Record) -> None:
        at.sunk(record)
        if record.attempt == 1:
            raise ValueError("once")

    async with bench() as at, at.control.client("web").mesh as mesh, mesh.producer("logs") as producer:
        receipt = await producer.send(b"x", key=b"k")
        retry = Retry(backoff_seconds=(0.1, 0.1))
        lease = f"{LIVE}/{receipt.partition}"
        async with member(at, "m", lease, retry=retry) as (consumer, _):
            running = asyncio.ensure_future(consumer.run(handle))
            await until(lambda: len(at.sink) == 2)
        await running


def named(exporter: InMemorySpanExporter, name: str) -> list[ReadableSpan]:
    """Finished spans of a name."""
    return [span for span in exporter.get_finished_spans() if span.name == name]


def test_a_record_is_traced_from_send_to_handler(spans: InMemorySpanExporter) -> None:
    run_virtual(send_and_handle())
    [sent] = named(spans, f"send {TOPIC}")
    failed, handled = named(spans, f"process {TOPIC}")
    assert (sent.kind, handled.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
    assert [link.context.span_id for link in handled.links] == [sent.context.span_id]
    assert (failed.status.status_code, handled.status.status_code) == (StatusCode.ERROR, StatusCode.UNSET)
    for span in (sent, failed, handled):
        assert span.attributes is not None
        assert span.attributes["messaging.system.name"] == "kafka"
        assert span.attributes["messaging.destination.name"] == TOPIC
        assert span.attributes["kafka.offset"] == 0
        assert span.attributes["kafka.cluster.id"] == "east-1"
    assert failed.attributes is not None
    assert failed.attributes["error.type"] == "ValueError"
    assert handled.attributes is not None
    assert handled.attributes["messaging.consumer.group.name"] == "g"


def test_without_tracing_there_is_no_tracer_and_no_header() -> None:
    async def run() -> list[str]:
        async with bench() as at, at.control.client("web").mesh as mesh, mesh.producer("logs") as producer:
            await producer.send(b"x")
            return [name for name, _ in at.control.records(LIVE)[0].headers]

    assert tracer() is None
    assert run_virtual(run()) == ["braid-id", "braid-ts", "braid-lane"]
