"""Spans of batches, and of records that are taken by hand: linked to those that sent them, so many at most."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextvars import Context, copy_context
from typing import Any, cast

import numpy as np
import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from braid.client.consumer_settings import Retry
from braid.client.delivery.cursor import Cursor
from braid.client.handling import dead_letters
from braid.client.producing.producer import Producer
from braid.client.records.batch import Batch
from braid.client.records.outgoing import Outgoing
from braid.client.records.record import Record
from braid.client.records.slices import Slice
from braid.client.records.where import Where
from braid.client.telemetry import consumer_observer
from braid.client.telemetry import spans as traced
from braid.kafka.batches.columns import UncheckedHead, decode_columns
from braid.kafka.memory.fetcher import MemoryFetcher
from braid.kafka.memory.log import NewRecord
from braid.kernel.ports import FetchedColumns, TopicPartition
from tests.support.scripted_control import until
from tests.support.virtual_time import run_virtual
from tests.unit.client.scripted_member import FIRST, SECOND, TOPIC, Bench, bench, member, take
from tests.unit.kafka.batches.columns_beside_records import payload

Send = Callable[[Producer], Coroutine[object, object, object]]


def named(exporter: InMemorySpanExporter, name: str) -> list[ReadableSpan]:
    """Finished spans of a name."""
    return [span for span in exporter.get_finished_spans() if span.name == name]


def ids(spans: Sequence[ReadableSpan]) -> set[int]:
    """The ids of these spans."""
    return {span.context.span_id for span in spans}


def linked(spans: Sequence[ReadableSpan]) -> list[int]:
    """The spans that these are linked to."""
    return [link.context.span_id for span in spans for link in span.links]


async def send_singly(producer: Producer) -> None:
    for number in range(5):
        await producer.send(b"%d" % number, key=b"k")


async def send_twice_many(producer: Producer) -> None:
    await producer.send_many(Outgoing(b"%d" % number, b"k") for number in range(40))
    await producer.send_many(Outgoing(b"%d" % number, b"k") for number in range(3))


def handled_in_batches(send: Send, fail: bool = False, **settings: Any) -> int:
    """Sends, and handles what was sent in batches; returns how many records were handled."""

    async def handle(batch: Batch) -> None:
        rows = batch.records.to_pylist()
        if fail and len(rows) > 1:
            raise ValueError("once")
        for row in rows:
            at_bench[0].watch.done("east", TOPIC, row["partition"], row["offset"])
            handled.append(row["offset"])

    at_bench: list[Bench] = []
    handled: list[int] = []

    async def run() -> None:
        async with bench() as at:
            at_bench.append(at)
            async with at.control.client("web").mesh as mesh, mesh.producer("logs") as producer:
                await send(producer)
            count = sum(len(batch.records) for number in (0, 1) for batch in log(at, number))
            retry = Retry(backoff_seconds=(0.1, 0.1))
            async with member(at, "m", FIRST, SECOND, retry=retry, **settings) as (consumer, _):
                running = asyncio.ensure_future(consumer.run_batches(handle))
                await until(lambda: len(handled) == count)
            await running

    run_virtual(run())
    return len(handled)


def log(at: Bench, partition: int) -> Sequence[Any]:
    """Batches of a partition."""
    return at.control.clusters["east"].log(TopicPartition(TOPIC, partition)).batches


def test_a_batch_links_once_to_each_span_that_sent_its_records(spans: InMemorySpanExporter) -> None:
    assert handled_in_batches(send_twice_many) == 43
    processed = named(spans, f"process {TOPIC}")
    sent = named(spans, f"send {TOPIC}")
    assert len(sent) == 2
    assert sorted(linked(processed)) == sorted(ids(sent))
    assert all("braid.links_dropped" not in (span.attributes or {}) for span in processed)


def test_links_of_a_batch_are_bounded_and_the_rest_is_counted(
    spans: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(traced, "SPAN_LINKS_MAX", 2)
    assert handled_in_batches(send_singly) == 5
    (processed,) = named(spans, f"process {TOPIC}")
    assert linked([processed]) == [span.context.span_id for span in named(spans, f"send {TOPIC}")[:2]]
    assert (processed.attributes or {})["braid.links_dropped"] == 3


def test_a_failed_batchs_records_each_link_to_their_own_span(spans: InMemorySpanExporter) -> None:
    assert handled_in_batches(send_singly, fail=True) == 5
    together, *singly = named(spans, f"process {TOPIC}")
    sent = named(spans, f"send {TOPIC}")
    assert together.status.status_code is StatusCode.ERROR
    assert set(linked([together])) == ids(sent)
    assert [len(span.links) for span in singly] == [1] * 5
    assert set(linked(singly)) == ids(sent)


def test_links_are_found_beside_a_predicate(spans: InMemorySpanExporter) -> None:
    """The headers it asks for stand before those of traces, and may be the same."""

    async def send(producer: Producer) -> None:
        await producer.send(b"1", headers={"traceparent": parent, "kind": b"order"})

    parent = b"00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"
    handled_in_batches(send, where=Where(headers={"traceparent": parent, "kind": b"order"}))
    (processed,) = named(spans, f"process {TOPIC}")
    assert linked([processed]) == [0x0123456789ABCDEF]


def test_links_are_found_in_what_brokers_send() -> None:
    """Decoded columns: records of several shapes, some without a trace, some with a second header of its name."""
    shapes = [
        [("braid-ts", b"1"), ("traceparent", b"one"), ("tracestate", b"a=1")],
        [("braid-ts", b"1")],
        [("traceparent", b"other"), ("braid-ts", b"1"), ("traceparent", b"two")],
        [("braid-ts", b"1"), ("traceparent", b"one"), ("tracestate", b"a=1")],
        [("traceparent", b"")],
    ]
    data, spans = payload([(1, 0, b"key", b"value", [*headers]) for headers in shapes])
    asked = ("braid-ts", *traced.ORIGIN_HEADERS)
    columns = decode_columns(
        memoryview(data), 0, [UncheckedHead(len(data), len(shapes), 0, spans - 1, 1_000, None)], asked
    )
    assert columns is not None
    none = np.zeros(len(shapes), np.int64)
    batch = Batch(Slice(cast("Cursor", None), columns, none, none))
    assert list(map(list, traced.origins_of(batch, asked))) == [
        [("traceparent", b"one"), ("tracestate", b"a=1")],
        [("traceparent", b"two"), ("tracestate", None)],
    ]


def hostile(name: str, value: bytes | None) -> Any:
    """A header as other tools may write it."""
    return name, value


@pytest.mark.parametrize(
    "header",
    [
        hostile("traceparent", None),
        hostile("traceparent", b""),
        hostile("traceparent", b"\xff\xfe nonsense"),
        hostile("traceparent", b"00-" + b"1" * 100_000),
        hostile("tracestate", None),
    ],
)
def test_what_is_no_trace_harms_nobody(spans: InMemorySpanExporter, header: Any) -> None:
    async def run() -> None:
        async with bench() as at:
            for partition in (0, 1):
                cluster, place = at.control.clusters["east"], TopicPartition(TOPIC, partition)
                cluster.append(place, [NewRecord(7, None, b"v", ())])
                (batch,) = log(at, partition)
                cluster.log(place).batches[0] = batch._replace(records=[batch.records[0]._replace(headers=[header])])
            async with member(at, "one", FIRST) as (consumer, _):
                running = asyncio.ensure_future(consumer.run(at.handle))
                await until(lambda: at.watch.base(TOPIC) == 1)
            await running
            async with member(at, "many", SECOND) as (consumer, _):
                async for each in consumer.batches():
                    with consumer.processing(each):
                        at.watch.done("east", TOPIC, 1, 0)
                    each.ack()
                    break
                await consumer.close()

    run_virtual(run())
    processed = named(spans, f"process {TOPIC}")
    assert [(len(span.links), span.status.status_code) for span in processed] == [(0, StatusCode.UNSET)] * 2


def test_work_on_what_was_taken_by_hand_has_spans_of_its_own(spans: InMemorySpanExporter) -> None:
    async def run() -> None:
        async with bench() as at:
            async with at.control.client("web").mesh as mesh, mesh.producer("logs") as producer:
                await send_singly(producer)
            async with member(at, "m", FIRST, SECOND) as (consumer, _):
                async for record in consumer:
                    with consumer.processing(record):
                        at.sunk(record)
                    record.ack()
                    if len(at.sink) == 4:
                        break
                (record,) = await take(consumer, 1)
                with pytest.raises(ValueError, match="odd"), consumer.processing(record):
                    at.sunk(record)
                    raise ValueError("odd")
                record.ack()

    run_virtual(run())
    processed = named(spans, f"process {TOPIC}")
    sent = [span.context.span_id for span in named(spans, f"send {TOPIC}")]
    assert linked(processed) == sent
    assert [span.status.status_code for span in processed] == [StatusCode.UNSET] * 4 + [StatusCode.ERROR]


def asked_for(monkeypatch: pytest.MonkeyPatch) -> set[Sequence[str]]:
    """The headers that a consumer asks for, which takes one record within `processing`."""
    asked: set[Sequence[str]] = set()
    honest = MemoryFetcher.fetch_columns

    async def fetch(
        self: MemoryFetcher, max_records: int, timeout_seconds: float, names: Sequence[str]
    ) -> Sequence[FetchedColumns]:
        asked.add(tuple(names))
        return await honest(self, max_records, timeout_seconds, names)

    async def run() -> None:
        async with bench() as at:
            at.fill(1)
            async with member(at, "m", FIRST) as (consumer, _):
                (record,) = await take(consumer, 1)
                with consumer.processing(record):
                    at.sunk(record)
                record.ack()

    monkeypatch.setattr(MemoryFetcher, "fetch_columns", fetch)
    run_virtual(run())
    return asked


def test_trace_headers_are_fetched_only_where_there_is_a_tracer(
    spans: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert asked_for(monkeypatch) == {("braid-ts", "braid-replay-group", "traceparent", "tracestate")}
    assert len(named(spans, f"process {TOPIC}")) == 1
    monkeypatch.setattr(consumer_observer, "tracer", lambda: None)
    assert asked_for(monkeypatch) == {("braid-ts", "braid-replay-group")}
    assert len(named(spans, f"process {TOPIC}")) == 1


async def two_letters() -> list[bytes]:
    """Two records without a trace are given up, by one consumer; the contexts that their letters carry."""

    async def give_up(record: Record) -> None:
        record.dead_letter("poison")

    async with bench() as at:
        at.fill(2)
        async with member(at, "m", FIRST, retry=Retry(max_attempts=1), concurrency=1) as (consumer, _):
            running = asyncio.ensure_future(consumer.run(give_up))
            await until(lambda: at.watch.base(TOPIC) == 2)
        await running
        return [dict(each.headers)["traceparent"] for each in at.control.records("logs/dlq/1")]


def own_contexts(spans: InMemorySpanExporter, letters: Sequence[bytes]) -> bool:
    """Whether each letter belongs to the trace of its own record's handler."""
    traces = [span.context.trace_id for span in named(spans, f"process {TOPIC}")]
    return [int(letter.split(b"-")[1], 16) for letter in letters] == traces


def test_a_letter_belongs_to_the_trace_of_its_own_record(spans: InMemorySpanExporter) -> None:
    assert own_contexts(spans, run_virtual(two_letters()))


def test_a_letter_in_the_trace_of_another_is_caught(
    spans: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control for the test before: all are sent in the context of the first."""
    contexts: list[Context] = []

    def first() -> Context:
        contexts.append(copy_context())
        return contexts[0]

    monkeypatch.setattr(dead_letters, "copy_context", first)
    assert not own_contexts(spans, run_virtual(two_letters()))
