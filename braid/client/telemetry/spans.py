"""Spans and W3C trace context by OpenTelemetry's API; without tracing, `tracer` is None and nothing is done."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, cast

from opentelemetry import propagate, trace
from opentelemetry.context import Context

from braid.client.records.handled import Handled
from braid.client.records.record import Record
from braid.kernel.errors import BraidError
from braid.kernel.limits.client import SPAN_LINKS_MAX, TRACE_HEADER_BYTES_MAX
from braid.kernel.record_columns import Cells, RecordColumns, pieces_in
from braid.telemetry.conventions import CLUSTER_ID, OFFSET, SYSTEM, messaging_attributes

if TYPE_CHECKING:
    from braid.client.records.batch import Batch
    from braid.client.records.outgoing import Receipt

ORIGIN_HEADERS: Final = ("traceparent", "tracestate")  # they name the span that sent a record
_FIELDS: Final = frozenset({*ORIGIN_HEADERS, "baggage"})
_SENDING: Final = {
    SYSTEM: "kafka",
    "messaging.operation.name": "send",
    "messaging.operation.type": "send",
}
Headers = Sequence[tuple[str, bytes]]
Told = Iterable[tuple[str, bytes | None]]  # other tools may write headers without a value


@contextmanager
def send_span(tracer: trace.Tracer, stream: str) -> Iterator[trace.Span]:
    """Starts a PRODUCER span; `sent` names it once the topic is known."""
    with tracer.start_as_current_span(
        f"send {stream}", kind=trace.SpanKind.PRODUCER, attributes=messaging_attributes(_SENDING)
    ) as span:
        yield span


class Resending:
    """The PRODUCER span of a record that is sent again: a new trace, linked to the span that sent it first.

    Attributes:
        headers: The record's, with this span's context instead of that one's.
    """

    def __init__(self, tracer: trace.Tracer, stream: str, headers: Headers) -> None:
        """Begins it. `headers` are the record's."""
        nowhere = Context()
        self._span = tracer.start_span(
            f"send {stream}",
            nowhere,
            trace.SpanKind.PRODUCER,
            attributes=messaging_attributes(_SENDING),
            links=links_to([headers]),
        )
        kept = [header for header in headers if header[0] not in ORIGIN_HEADERS]
        self.headers: Headers = [*kept, *_injected(trace.set_span_in_context(self._span, nowhere))]

    def ended(self, outcome: "Receipt | BraidError | None") -> None:
        """Ends the span with the record's fate; None if nobody waits for it any more."""
        if isinstance(outcome, BraidError):
            self._span.set_attribute("error.type", type(outcome).__name__)
        if outcome is None or isinstance(outcome, BraidError):
            self._span.set_status(trace.StatusCode.ERROR)
        else:
            sent(self._span, outcome, "")
        self._span.end()


def sent(span: trace.Span, receipt: "Receipt", cluster_id: str, count: int = 1) -> None:
    """Sets where the record lies, or the first of several; `cluster_id` is the cluster's own, empty if unknown."""
    span.update_name(f"send {receipt.topic}")
    attributes: dict[str, str | int] = {
        "messaging.destination.name": receipt.topic,
        "messaging.destination.partition.id": str(receipt.partition),
        OFFSET: receipt.offset,
        "braid.cluster": receipt.cluster,
        **identified(cluster_id),
    }
    if count > 1:
        attributes["messaging.batch.message_count"] = count
    span.set_attributes(messaging_attributes(attributes))


@contextmanager
def process_span(
    tracer: trace.Tracer, group: str, item: Handled, cluster_id: str, asked: Sequence[str]
) -> Iterator[None]:
    """Starts a CONSUMER span around a handler, linked to the spans that sent its records: each once, within a bound.

    `asked` are the headers that were fetched as columns, in their order.
    """
    place = item.work.lease.topic_partition
    attributes: dict[str, str | int] = {
        SYSTEM: "kafka",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": place.topic,
        "messaging.destination.partition.id": str(place.partition),
        "messaging.consumer.group.name": group,
        "braid.cluster": item.work.lease.cluster.name,
        **identified(cluster_id),
    }
    if isinstance(item, Record):
        attributes[OFFSET] = item.offset
        origins: Sequence[Told] = [item.raw_headers]
    else:
        batch = cast("Batch", item)
        attributes["messaging.batch.message_count"] = len(batch)
        origins = origins_of(batch, asked)
        if len(origins) > SPAN_LINKS_MAX:
            attributes["braid.links_dropped"] = len(origins) - SPAN_LINKS_MAX
    links = links_to(origins[:SPAN_LINKS_MAX])
    with tracer.start_as_current_span(
        f"process {place.topic}",
        kind=trace.SpanKind.CONSUMER,
        links=links,
        attributes=messaging_attributes(attributes),
    ) as span:
        try:
            yield
        except BaseException as error:
            span.set_attribute("error.type", type(error).__name__)
            span.set_status(trace.StatusCode.ERROR)  # what was cancelled is none to OpenTelemetry
            raise


def identified(cluster_id: str) -> dict[str, str]:
    """Returns the attribute with a Kafka cluster's own id; none if the id is not known."""
    return {CLUSTER_ID: cluster_id} if cluster_id else {}


def origins_of(batch: "Batch", asked: Sequence[str]) -> Sequence[Told]:
    """Returns the headers that name the spans which sent a batch's records: each span once, in order."""
    columns = batch.raw.columns
    if columns is None:
        return _distinct([dict(row.headers).get(name) for name in ORIGIN_HEADERS] for row in batch.raw.rows)
    return origins_among(columns, asked)


def origins_among(columns: RecordColumns, asked: Sequence[str]) -> Sequence[Told]:
    """Returns the headers that name the spans which sent records: each span once, in order."""
    return _distinct(_pairs(columns, [columns.headers[asked.index(name)] for name in ORIGIN_HEADERS]))


def _distinct(found: Iterable[Sequence[bytes | None]]) -> Sequence[Told]:
    distinct = {each[0]: each for each in found if each[0]}
    return [list(zip(ORIGIN_HEADERS, each, strict=True)) for each in distinct.values()]


def _pairs(columns: RecordColumns, cells: Sequence[Cells]) -> Iterable[Sequence[bytes | None]]:
    """Yields the trace headers of the records that have them, as bytes."""
    there = (cells[0].sizes > 0) & (cells[0].sizes <= TRACE_HEADER_BYTES_MAX)
    return zip(*(pieces_in(columns.data, each.of(there)) for each in cells), strict=True)


def links_to(origins: Sequence[Told]) -> list[trace.Link]:
    """Returns links to the spans that headers name; headers that name none are left out."""
    contexts = [trace.get_current_span(extract_trace(each)).get_span_context() for each in origins]
    return [trace.Link(context) for context in contexts if context.is_valid]


def trace_headers() -> Headers:
    """Returns the current span's context as record headers; none without a span."""
    return _injected(None) if trace.get_current_span().get_span_context().is_valid else []


def _injected(context: Context | None) -> Headers:
    carrier: dict[str, str] = {}
    propagate.inject(carrier, context)
    return [(name, value.encode()) for name, value in carrier.items()]


def extract_trace(headers: Told) -> Context:
    """Reads the trace context under which a record was sent."""
    told = {
        name: value.decode("ascii", "replace")
        for name, value in headers
        if name in _FIELDS and value is not None and len(value) <= TRACE_HEADER_BYTES_MAX
    }
    # Not what is current here: a record without a context has none.
    return propagate.extract(told, Context())
