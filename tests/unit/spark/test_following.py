"""Followed records of Spark: spans linked to what sent them, and points of pathways that are reported."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from braid.api.lagmon.v1 import lagmon_service_pb2 as api
from braid.client.records.where import Where
from braid.kernel.errors import Unavailable
from braid.kernel.ids import LeaseId
from braid.kernel.limits.client import SPAN_LINKS_MAX
from braid.kernel.pathways.header import PATHWAY_HEADER, Context, encode_context
from braid.kernel.ports import TraceContext
from braid.kernel.record_columns import RecordColumns, columns_of
from braid.spark import pathways as pathways_module
from braid.spark import spans as spans_module
from braid.spark.following import followed
from braid.spark.loop import process_loop
from braid.spark.options import MeshOptions, ReadOptions, stream_options
from braid.spark.pathways import WorkerPathways, worker_pathways
from braid.spark.rows import RowBuilder
from braid.spark.spans import BatchSpans
from tests.unit.spark.test_rows import LOG, NOON_MS, Raw

OPTIONS = ReadOptions(MeshOptions("127.0.0.1:1", "logs"), group="events")


@pytest.fixture(autouse=True)
def _never_set_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of a test asks for no exporter."""
    monkeypatch.setattr(spans_module, "SET_UP_BY", [])


def sender(number: int) -> str:
    """The trace context of the span that sent a record."""
    return f"00-{number:032x}-{number:016x}-01"


def part(names: Sequence[str], senders: Sequence[int]) -> RecordColumns:
    """Records that these spans sent; 0 for one that nobody traced."""
    raws = [Raw(at, [("traceparent", sender(each).encode())] if each else []) for at, each in enumerate(senders)]
    return columns_of(raws, names)


def read(parent: TraceContext, *senders: Sequence[int]) -> None:
    """A task that hands these records to Spark."""
    with followed(OPTIONS, [LOG], parent) as following:
        for each in senders:
            following.handed_out(LOG, [part(following.names, each)])


def links(span: ReadableSpan) -> list[int]:
    """The traces that a span is linked to."""
    return [each.context.trace_id for each in span.links]


def test_a_task_is_below_its_batch_and_linked_to_senders_once(spans: InMemorySpanExporter) -> None:
    batches = BatchSpans(OPTIONS)
    context = batches.begin([LOG, replace(LOG, start=5, end=12)])
    read(context, [1, 0, 2, 1], [2, 3])
    batches.end(done=True)
    task, batch = spans.get_finished_spans()
    assert batch.context is not None and task.parent is not None
    assert (batch.name, batch.kind, batch.parent) == ("process logs", trace.SpanKind.CONSUMER, None)
    assert (task.name, task.kind, task.parent.span_id) == ("poll logs", trace.SpanKind.CLIENT, batch.context.span_id)
    assert links(task) == [1, 2, 3]
    told = dict(task.attributes or {})
    assert told["messaging.batch.message_count"] == 6
    assert (told["messaging.system.name"], told["messaging.consumer.group.name"]) == ("kafka", "events")
    assert (told["messaging.destination.name"], told["braid.cluster"]) == (LOG.topic, "east")
    assert dict(batch.attributes or {})["messaging.batch.message_count"] == 107
    assert batch.status.is_unset


def test_links_are_bounded_and_what_is_left_out_is_told(spans: InMemorySpanExporter) -> None:
    read(TraceContext("", ""), range(1, SPAN_LINKS_MAX + 1))
    read(TraceContext("", ""), range(1, SPAN_LINKS_MAX + 2))
    whole, full = spans.get_finished_spans()
    assert (len(whole.links), len(full.links)) == (SPAN_LINKS_MAX, SPAN_LINKS_MAX)
    assert "braid.links_full" not in (whole.attributes or {})
    assert (full.attributes or {})["braid.links_full"] is True


@pytest.mark.parametrize("header", [b"", b"garbage", b"\xff" * 55, b"00-" + b"0" * 32 + b"-" + b"0" * 16 + b"-01"])
def test_garbage_in_a_trace_header_links_to_nothing(spans: InMemorySpanExporter, header: bytes) -> None:
    with followed(OPTIONS, [LOG]) as following:
        following.handed_out(LOG, [columns_of([Raw(0, [("traceparent", header)])], following.names)])
    (task,) = spans.get_finished_spans()
    assert not task.links


def test_a_task_that_fails_says_why_and_an_ended_one_does_not(spans: InMemorySpanExporter) -> None:
    with pytest.raises(Unavailable), followed(OPTIONS, [LOG]):
        raise Unavailable("no")
    with pytest.raises(GeneratorExit), followed(OPTIONS, [LOG]):
        raise GeneratorExit
    failed, ended = spans.get_finished_spans()
    assert (failed.attributes or {})["error.type"] == "Unavailable"
    assert not failed.status.is_ok and not failed.status.is_unset
    assert ended.status.is_unset


def test_a_batch_ends_as_done_only_if_spark_said_so(spans: InMemorySpanExporter) -> None:
    batches = BatchSpans(OPTIONS)
    batches.begin([LOG])
    batches.begin([LOG])
    batches.end(done=True)
    batches.end(done=False)  # there is none
    outcomes = [(each.attributes or {})["braid.batch.outcome"] for each in spans.get_finished_spans()]
    assert outcomes == ["unknown", "done"]


def test_nothing_is_asked_for_where_nobody_is_told() -> None:
    with followed(OPTIONS, [LOG]) as following:
        assert not following.active
        assert "traceparent" not in following.names
        assert PATHWAY_HEADER not in following.names
    assert BatchSpans(OPTIONS).begin([LOG]) == TraceContext("", "")


def test_records_that_become_no_rows_are_not_followed(spans: InMemorySpanExporter) -> None:
    where = Where(headers={"kind": b"order"})
    options = replace(OPTIONS, where=where)
    mine, other = [("kind", b"order")], [("kind", b"order"), ("braid-replay-group", b"others")]
    log = replace(LOG, skip=(3, 4))
    raws = [Raw(0, mine), Raw(1, [("kind", b"no")]), Raw(2, other), Raw(3, mine), Raw(4, mine)]
    with followed(options, [log]) as following:
        builder = RowBuilder(log, group="events", include_headers=True, where=where)
        wanted = builder.wanted(columns_of(raws, following.names))
        assert wanted.offsets.tolist() == builder.build(raws).column("offset").to_pylist() == [0, 4]
        following.handed_out(log, [wanted])
    (task,) = spans.get_finished_spans()
    assert (task.attributes or {})["messaging.batch.message_count"] == 2


def test_an_unknown_exporter_ends_no_query(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "pigeon")
    with followed(OPTIONS, [LOG]) as following:
        assert not following.active
    assert "OTEL_TRACES_EXPORTER is 'pigeon' (set otlp, console or none)" in caplog.text


# --- pathways


class _Mesh:
    """A mesh whose lagmon keeps reports; the first attempt to reach it fails."""

    def __init__(self) -> None:
        self.attempts = 0
        self.reached = asyncio.Event()
        self.reports: list[api.ReportPathwaysRequest] = []

    @asynccontextmanager
    async def connect(self, endpoint: str, **settings: object) -> "AsyncIterator[_Mesh]":
        self.attempts += 1
        if self.attempts == 1:
            raise Unavailable("nobody answers")
        self.reached.set()
        yield self

    def service(self, name: str) -> "_Mesh":
        assert name == "lagmon"
        return self

    async def unary(self, method: str, request: api.ReportPathwaysRequest, *_: object, **__: object) -> object:
        self.reports.append(request)
        return api.ReportPathwaysResponse()


def test_records_of_a_pathway_are_a_point_of_the_group(monkeypatch: pytest.MonkeyPatch) -> None:
    mesh = _Mesh()
    monkeypatch.setattr(pathways_module, "connect", mesh.connect)
    monkeypatch.setattr(pathways_module, "SPARK_PATHWAY_RETRY_SECONDS", 0.0)
    before = Context(0xBEEF, NOON_MS - 500, NOON_MS - 200)
    rows = [[(PATHWAY_HEADER, encode_context(before))], [], [(PATHWAY_HEADER, b"garbage")]]

    async def run() -> None:
        following = WorkerPathways(replace(OPTIONS, pathways="jobs"))
        names = following.asked(["braid-ts"])
        following.handed_out(columns_of([Raw(at, headers) for at, headers in enumerate(rows)], names))
        async with asyncio.timeout(10):
            await mesh.reached.wait()
        await following.close()

    asyncio.run(run())
    (told,) = mesh.reports
    assert (told.service, list(told.received_streams), list(told.groups)) == ("jobs", ["logs"], ["events"])
    (point,) = told.received
    assert point.parent_hash == 0xBEEF
    assert sum(point.full.counts) + point.full.zeros == 1
    assert told.left_out.garbage_headers == 1
    assert not told.sent


def test_a_dead_letter_is_no_point(monkeypatch: pytest.MonkeyPatch) -> None:
    mesh = _Mesh()
    monkeypatch.setattr(pathways_module, "connect", mesh.connect)
    letters = replace(LOG, lease=LeaseId.parse("logs/dlq/1/0"))
    headers = [(PATHWAY_HEADER, encode_context(Context(7, NOON_MS, NOON_MS)))]
    measured: list[int] = []
    monkeypatch.setattr(WorkerPathways, "handed_out", lambda self, part: measured.append(len(part)))
    options = replace(OPTIONS, pathways="jobs", where=Where(headers={"kind": b"order"}))
    with followed(options, [LOG]) as following:
        assert following.active and PATHWAY_HEADER in following.names
        following.handed_out(letters, [columns_of([Raw(0, headers)], following.names)])
        assert measured == []
        following.handed_out(LOG, [columns_of([Raw(0, headers)], following.names)])
        assert measured == [1]
    found = process_loop().call(worker_pathways(options))
    assert found is not None
    process_loop().call(found.close())


def test_a_worker_reports_for_few_queries_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    mesh = _Mesh()
    monkeypatch.setattr(pathways_module, "connect", mesh.connect)
    monkeypatch.setattr(pathways_module, "SPARK_PATHWAYS_MAX", 1)
    closed: list[WorkerPathways] = []

    async def close(self: WorkerPathways) -> None:
        closed.append(self)

    monkeypatch.setattr(WorkerPathways, "close", close)

    async def run() -> None:
        one, two = replace(OPTIONS, pathways="one"), replace(OPTIONS, pathways="two")
        first = await worker_pathways(one)
        assert await worker_pathways(one) is first
        assert await worker_pathways(two) is not first
        assert closed[-1:] == [first]
        assert await worker_pathways(OPTIONS) is None

    asyncio.run(run())


def test_a_streaming_read_names_its_application() -> None:
    given = {"endpoint": "127.0.0.1:1", "stream": "logs", "group": "events"}
    assert stream_options({**given, "pathways": "jobs"}).pathways == "jobs"
    assert stream_options(given).pathways == ""
