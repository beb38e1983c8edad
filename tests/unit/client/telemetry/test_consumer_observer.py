"""OpenTelemetry gets measurements under its own names, and nothing is done if nobody listens."""

import asyncio
from collections.abc import Mapping
from typing import cast

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader, NumberDataPoint
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from braid.client.consumer_settings import Circuit, Retry
from braid.client.delivery.memory_bound import MemoryBound
from braid.client.records.batch import Batch
from braid.client.records.outgoing import Outgoing
from braid.client.records.record import Record
from braid.client.telemetry.metrics import instruments
from braid.kernel.errors import DeliveryUnknown, Retryable
from braid.kernel.limits.client import PARKED_RETRIES_MAX
from tests.support.consumer_parts import lease_works
from tests.support.scripted_control import until
from tests.support.virtual_time import run_virtual
from tests.unit.client.scripted_member import (
    FIRST,
    TOPIC,
    Bench,
    bench,
    is_rejected,
    killed,
    member,
    no_room_beside_commits,
    reject_some,
    take,
)

Sums = Mapping[tuple[str, ...], float]


@pytest.fixture
def metrics(monkeypatch: pytest.MonkeyPatch) -> InMemoryMetricReader:
    """Metrics, as an application sets them up."""
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    monkeypatch.setattr("opentelemetry.metrics.get_meter_provider", lambda: provider)
    return reader


def measured(reader: InMemoryMetricReader, name: str, *by: str) -> Sums:
    """Sums of a metric, or counts of a histogram, by some of its attributes."""
    found: dict[tuple[str, ...], float] = {}
    data = reader.get_metrics_data()
    for metric in (m for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics) if data else ():
        for point in metric.data.data_points if metric.name == name else ():
            key = tuple(str((point.attributes or {}).get(each, "")) for each in by)
            value = point.count if isinstance(point, HistogramDataPoint) else cast("NumberDataPoint", point).value
            found[key] = found.get(key, 0) + value
    return found


async def send_and_handle() -> None:
    """Ten records are sent, nine together; each is handled, one fails once."""

    async def handle(record: Record) -> None:
        at.sunk(record)
        if len(at.sink) == 1:
            raise ValueError("once")

    async with bench() as at, at.control.client("web").mesh as mesh, mesh.producer("logs") as producer:
        await producer.send(b"x", key=b"k")
        await producer.send_many(Outgoing(b"%d" % n, b"k") for n in range(9))
        leases = [f"{FIRST[:-1]}{number}" for number in (0, 1)]
        async with member(at, "m", *leases, retry=Retry(backoff_seconds=(0.1, 0.1))) as (consumer, _):
            running = asyncio.ensure_future(consumer.run(handle))
            await until(lambda: len(at.sink) == 11)
        await running


def test_metrics_have_their_names_and_count(metrics: InMemoryMetricReader) -> None:
    run_virtual(send_and_handle())
    name = "messaging.operation.name"
    assert measured(metrics, "messaging.client.sent.messages", "messaging.destination.name") == {(TOPIC,): 10}
    consumed = measured(metrics, "messaging.client.consumed.messages", "messaging.consumer.group.name")
    assert consumed == {("g",): 10}
    assert measured(metrics, "messaging.process.duration", "error.type") == {("",): 10, ("ValueError",): 1}
    operations = measured(metrics, "messaging.client.operation.duration", name)
    assert operations[("send",)] == 10
    assert operations[("poll",)] >= 1 and operations[("commit",)] >= 1
    assert set(operations) == {("send",), ("poll",), ("commit",)}


def test_a_send_nobody_acknowledges_is_measured_with_its_error(metrics: InMemoryMetricReader) -> None:
    async def run() -> None:
        async with (
            bench() as at,
            at.control.client("web").mesh as mesh,
            mesh.producer("logs", delivery_timeout_seconds=2.0) as producer,
        ):
            at.control.clusters["east"].kill()
            with pytest.raises(DeliveryUnknown):
                await producer.send(b"x")

    run_virtual(run())
    assert measured(metrics, "messaging.client.sent.messages", "error.type") == {("DeliveryUnknown",): 1}


@pytest.mark.parametrize("deaf", [False, True])
def test_a_handler_that_ran_out_of_time_is_told_as_that(
    metrics: InMemoryMetricReader, spans: InMemorySpanExporter, deaf: bool
) -> None:
    async def scenario() -> None:
        async with bench() as at:
            at.fill(2)

            async def handle(record: Record) -> None:
                at.sunk(record)
                while record.offset == 0:
                    try:
                        return await asyncio.sleep(100.0)
                    except asyncio.CancelledError:
                        if not deaf:
                            raise

            once = Retry(max_attempts=1)
            async with member(at, "m", FIRST, handler_timeout_seconds=1.0, retry=once) as (consumer, _):
                running = asyncio.ensure_future(consumer.run(handle))
                await until(lambda: at.watch.base(TOPIC) == 2)
                await asyncio.sleep(200.0)  # what heard nothing returns at last
            await running

    run_virtual(scenario())
    assert measured(metrics, "messaging.process.duration", "error.type") == {("",): 1, ("HandlerTimeout",): 1}
    told = {_field(span, "kafka.offset"): span for span in spans.get_finished_spans() if _is_process(span)}
    assert _field(told[0], "error.type") == "HandlerTimeout"
    assert told[0].status.status_code is StatusCode.ERROR
    assert told[1].status.status_code is StatusCode.UNSET


def test_a_handler_whose_lease_ended_is_told_as_cancelled(
    metrics: InMemoryMetricReader, spans: InMemorySpanExporter
) -> None:
    async def scenario() -> None:
        async with bench() as at:
            at.fill(1)

            async def sleeps(record: Record) -> None:
                at.sunk(record)
                await asyncio.sleep(100.0)

            async with member(at, "m", FIRST, handler_timeout_seconds=1000.0) as (consumer, _):
                running = asyncio.ensure_future(consumer.run(sleeps))
                await until(lambda: len(at.sink) == 1)
                await at.control.revoke(0, FIRST, deadline_ms=0)
                await until(lambda: not consumer.leases())
            await running

    run_virtual(scenario())
    assert measured(metrics, "messaging.process.duration", "error.type") == {("CancelledError",): 1}
    (told,) = (span for span in spans.get_finished_spans() if _is_process(span))
    assert _field(told, "error.type") == "CancelledError"
    assert told.status.status_code is StatusCode.ERROR


def _is_process(span: ReadableSpan) -> bool:
    return span.kind is SpanKind.CONSUMER


def _field(span: ReadableSpan, name: str) -> object:
    return (span.attributes or {}).get(name)


def test_levels_follow_the_consumer_and_end_with_it(metrics: InMemoryMetricReader) -> None:
    seen: dict[str, float] = {}

    def now(name: str) -> float:
        return measured(metrics, f"braid.consumer.{name}", "messaging.consumer.group.name").get(("g",), 0)

    async def scenario(at: Bench) -> None:
        at.fill(50)
        stuck = True

        async def handle(record: Record) -> None:
            if record.offset == 0:
                while stuck:
                    try:
                        await asyncio.sleep(1.0)
                    except asyncio.CancelledError:
                        continue
            raise Retryable("away")

        circuit = Circuit(failures=5, seconds=1.0, probe_seconds=(1_000.0, 1_000.0))
        retry = Retry(backoff_seconds=(0.5, 0.5), circuit=circuit)
        async with member(at, "m", FIRST, retry=retry, handler_timeout_seconds=2.0, concurrency=4) as (consumer, _):
            running = asyncio.ensure_future(consumer.run(handle))
            await until(lambda: now("handlers_overdue") == 1)
            await until(lambda: now("lanes_stopped") == 1)
            seen["parked"], seen["bound"] = now("parked"), now("parked_bound")
            assert seen["parked"] == sum(each.parked for each in consumer.explain()) > 0
            stuck = False
            await until(lambda: now("handlers_overdue") == 0)
            killed(consumer)
            await consumer._stop()
        running.cancel()

    async def run() -> None:
        async with bench() as at:
            await scenario(at)

    run_virtual(run())
    assert seen["bound"] == PARKED_RETRIES_MAX
    assert [now(name) for name in ("parked", "parked_bound", "lanes_stopped", "handlers_overdue")] == [0, 0, 0, 0]


def test_a_lane_full_of_parked_records_is_reported_once(
    metrics: InMemoryMetricReader, caplog: pytest.LogCaptureFixture
) -> None:
    def now() -> float:
        name = "braid.consumer.lanes_held_back"
        return measured(metrics, name, "messaging.consumer.group.name").get(("g",), 0)

    async def run() -> None:
        async with bench() as at:
            at.fill(2_000)
            async with member(at, "m", FIRST, max_in_flight_bytes=50_000) as (consumer, _):
                taken = await take(consumer, 10)
                await until(lambda: "the memory of lane live is full: fetching pauses" in consumer.explain()[0].blocked)
                await asyncio.sleep(1.0)
                assert now() == 0, "it is full of records that wait for a handler"
                while (record := await consumer.take(1.0)) is not None:
                    taken.append(record)
                for record in taken:
                    record.retry(after_seconds=60.0)
                await asyncio.sleep(1.0)
                assert now() == 1
                why = f"the memory of lane live is full of {len(taken):,} records that wait for another attempt"
                assert consumer.explain()[0].blocked == (f"{why}: fetching pauses",)
                await until(lambda: now() == 0, seconds=100.0)
                killed(consumer)

    run_virtual(run())
    assert len([record for record in caplog.records if "its fetching pauses" in record.getMessage()]) == 1


def test_a_memory_that_parked_records_fill_unseen_is_caught(
    metrics: InMemoryMetricReader, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control for the test before."""
    monkeypatch.setattr(MemoryBound, "kept_full_by", lambda self, name, size: False)
    with pytest.raises(AssertionError):
        test_a_lane_full_of_parked_records_is_reported_once(metrics, caplog)


def test_what_commits_leave_out_is_told_and_ends_with_the_lease(metrics: InMemoryMetricReader) -> None:
    def now(name: str) -> float:
        return measured(metrics, f"braid.consumer.{name}", "messaging.consumer.group.name").get(("g",), 0)

    async def run() -> None:
        async with bench() as at:
            no_room_beside_commits(at)
            at.fill(2_000)
            async with member(at, "m", FIRST, commit_interval_seconds=60.0) as (consumer, _):
                await reject_some(at, consumer, 2_000)
                await consumer.commit()
                left = sum(is_rejected(offset) for offset in range(at.watch.base(TOPIC), 2_000))
                assert (now("rejected_unstated"), now("commits_truncated")) == (left, 1) and left > 100
                await at.control.revoke(0, FIRST, deadline_ms=0)
                await until(lambda: now("rejected_unstated") == 0)
                killed(consumer)

    run_virtual(run())


def test_polls_and_commits_are_spans(spans: InMemorySpanExporter) -> None:
    run_virtual(send_and_handle())
    found = {span.name: span for span in spans.get_finished_spans()}
    assert {f"send {TOPIC}", f"poll {TOPIC}", f"process {TOPIC}", f"commit {TOPIC}"} == set(found)
    poll, commit = found[f"poll {TOPIC}"], found[f"commit {TOPIC}"]
    assert (poll.kind, commit.kind) == (SpanKind.CLIENT, SpanKind.CLIENT)
    assert poll.attributes is not None and commit.attributes is not None
    assert poll.attributes["kafka.cluster.id"] == commit.attributes["kafka.cluster.id"] == "east-1"
    assert poll.attributes["messaging.operation.type"] == "receive"
    assert commit.attributes["messaging.operation.type"] == "settle"
    assert commit.attributes["messaging.consumer.group.name"] == "g"
    together = [span for span in spans.get_finished_spans() if span.name == f"send {TOPIC}" and span.attributes]
    assert [dict(span.attributes or {}).get("messaging.batch.message_count") for span in together] == [None, 9]


def test_records_sent_together_carry_the_context_of_their_span(spans: InMemorySpanExporter) -> None:
    run_virtual(send_and_handle())
    sent = {span.context.span_id for span in spans.get_finished_spans() if span.name == f"send {TOPIC}"}
    handled = [span for span in spans.get_finished_spans() if span.name == f"process {TOPIC}"]
    assert len(handled) == 11
    assert {link.context.span_id for span in handled for link in span.links} == sent


def test_a_commit_that_fails_says_why(spans: InMemorySpanExporter) -> None:
    async def run() -> None:
        async with bench() as at:
            at.fill(5)
            async with member(at, "m", FIRST) as (consumer, _):
                running = asyncio.ensure_future(consumer.run(at.handle))
                await until(lambda: at.watch.base(TOPIC) == 5)
                at.control.clusters["east"].kill()
                at.fill(1)
                await asyncio.sleep(60.0)
                killed(consumer)
            running.cancel()

    run_virtual(run())
    failed = [span for span in spans.get_finished_spans() if span.status.status_code is StatusCode.ERROR]
    assert {span.name for span in failed} == {f"commit {TOPIC}"}
    assert {dict(span.attributes or {}).get("error.type") for span in failed} == {"ClusterUnavailable"}


def test_a_batch_is_one_span(spans: InMemorySpanExporter) -> None:
    async def handle(batch: Batch) -> None:
        for offset in batch.records["offset"].to_pylist():
            at_bench[0].watch.done("east", TOPIC, 0, offset)

    at_bench: list[Bench] = []

    async def run() -> None:
        async with bench() as at:
            at_bench.append(at)
            at.fill(7)
            async with member(at, "m", FIRST) as (consumer, _):
                running = asyncio.ensure_future(consumer.run_batches(handle))
                await until(lambda: at.watch.base(TOPIC) == 7)
            await running

    run_virtual(run())
    (span,) = [span for span in spans.get_finished_spans() if span.name == f"process {TOPIC}"]
    assert span.attributes is not None
    assert span.attributes["messaging.batch.message_count"] == 7


def test_where_nothing_is_set_up_nothing_stands_between() -> None:
    async def run() -> None:
        async with bench() as at:
            at.fill(1)
            async with member(at, "m", FIRST) as (consumer, _):
                assert await consumer.take(5.0)
                (cluster,) = lease_works(consumer).clusters.values()
                assert type(cluster.offsets).__module__.startswith("braid.kafka.memory")
                killed(consumer)

    assert instruments() is None
    run_virtual(run())
