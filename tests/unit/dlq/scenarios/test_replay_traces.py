"""A replayed record begins a trace of its own, linked to the span that sent it before it died."""

import asyncio
from pathlib import Path
from typing import Final

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from braid.client.consumer_settings import Retry
from braid.client.producing.producer import Producer
from braid.client.records.outgoing import Copy
from braid.client.records.record import Record
from braid.client.telemetry.spans import Resending
from braid.kernel.errors import RecordTooLarge
from braid.kernel.ports import TopicPartition
from services.dlq.reconciler import replay
from tests.unit.dlq.mesh import Mesh
from tests.unit.dlq.scenarios.replay_scenes import over, play

LIVE: Final = TopicPartition("braid.logs.live.1", 0)
PARENT: Final = b"00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"
SENDER: Final = 0x0123456789ABCDEF


def parents(mesh: Mesh) -> list[tuple[str, bytes | None]]:
    """The id and the trace context of each replayed record."""
    batches = mesh.kafka.named("east").log(LIVE).batches
    headers = [dict(record.headers) for batch in batches for record in batch.records]
    return [
        (each["braid-id"].decode(), each.get("traceparent")) for each in headers if each.get("braid-replays") == b"1"
    ]


def context_of(span: ReadableSpan) -> bytes:
    """A span's context in the form of a header."""
    return b"00-%032x-%016x-%02x" % (span.context.trace_id, span.context.span_id, span.context.trace_flags)


def resent(spans: InMemorySpanExporter) -> list[ReadableSpan]:
    """The spans of replayed records: no other has both this kind and links."""
    return [span for span in spans.get_finished_spans() if span.kind is SpanKind.PRODUCER and span.links]


def test_a_replayed_record_starts_a_trace_linked_to_its_origin(tmp_path: Path, spans: InMemorySpanExporter) -> None:
    async def scene(mesh: Mesh) -> None:
        await mesh.park(2, headers=(("traceparent", PARENT), ("tracestate", b"vendor=1"), ("baggage", b"tenant=7")))
        await mesh.indexed(2)
        await over(mesh, (await mesh.replay()).id)
        carried.extend(parents(mesh))

    carried: list[tuple[str, bytes | None]] = []
    play(tmp_path, scene)
    found = resent(spans)
    assert [[link.context.span_id for link in span.links] for span in found] == [[SENDER], [SENDER]]
    assert len({span.context.trace_id for span in found}) == 2
    assert all(span.parent is None and span.name == f"send {LIVE.topic}" for span in found)
    assert sorted(parent or b"" for _, parent in carried) == sorted(map(context_of, found))
    assert all((span.attributes or {})["messaging.destination.partition.id"] == "0" for span in found)


def test_a_record_is_traced_from_its_send_to_death_and_replay(tmp_path: Path, spans: InMemorySpanExporter) -> None:
    async def scene(mesh: Mesh) -> None:
        async def handle(record: Record) -> None:
            attempts.append(record.headers["traceparent"])
            if len(attempts) == 1:
                raise ValueError("not yet")

        attempts: list[bytes] = []
        async with mesh.client.producer("logs") as producer:
            await producer.send(b"x", key=b"k")
        application = mesh.application("indexer")
        async with application, application.consumer(["logs"], group="g", retry=Retry(max_attempts=1)) as consumer:
            running = asyncio.ensure_future(consumer.run(handle))
            await mesh.indexed(1)
            await over(mesh, (await mesh.replay()).id)

            async def twice() -> bool:
                return len(attempts) == 2

            await mesh.until(twice)
            await consumer.close()
            await running

    play(tmp_path, scene)
    [replayed] = resent(spans)
    sending = [each for each in spans.get_finished_spans() if each.name.startswith("send ")]
    [sent] = [each for each in sending if each is not replayed]
    died, handled = [each for each in spans.get_finished_spans() if each.name == f"process {LIVE.topic}"]
    links = [[link.context.span_id for link in span.links] for span in (died, replayed, handled)]
    assert links == [[sent.context.span_id], [sent.context.span_id], [replayed.context.span_id]]
    assert replayed.context.trace_id != sent.context.trace_id


def test_a_record_that_cannot_be_sent_again_says_so(
    tmp_path: Path, spans: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def too_large(self: Producer, copies: list[Copy]) -> list[RecordTooLarge]:
        return [RecordTooLarge("by a test") for _ in copies]

    async def scene(mesh: Mesh) -> None:
        await mesh.park(1, headers=(("traceparent", PARENT),))
        await mesh.indexed(1)
        monkeypatch.setattr(Producer, "send_copies", too_large)
        await over(mesh, (await mesh.replay()).id)

    play(tmp_path, scene)
    [span] = resent(spans)
    assert (span.status.status_code, (span.attributes or {})["error.type"]) == (StatusCode.ERROR, "RecordTooLarge")


def test_without_a_tracer_a_replayed_record_keeps_its_context(tmp_path: Path) -> None:
    async def scene(mesh: Mesh) -> None:
        await mesh.park(1, headers=(("traceparent", PARENT),))
        await mesh.indexed(1)
        await over(mesh, (await mesh.replay()).id)
        assert parents(mesh) == [("01ARZ:0", PARENT)]

    play(tmp_path, scene)


def test_a_replay_in_the_trace_of_the_dead_is_caught(
    tmp_path: Path, spans: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: the record goes with the headers it had."""

    class Unchanged(Resending):
        def __init__(self, *args: object) -> None:
            super().__init__(*args)  # type: ignore[arg-type]  # forwarded as they are
            self.headers = args[2]  # type: ignore[assignment]

    monkeypatch.setattr(replay, "Resending", Unchanged)
    with pytest.raises(AssertionError):
        test_a_replayed_record_starts_a_trace_linked_to_its_origin(tmp_path, spans)
