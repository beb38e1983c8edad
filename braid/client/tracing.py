"""Spans and W3C trace context by OpenTelemetry's API; where nothing is traced, `tracer` is None and nothing happens."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

from opentelemetry import propagate, trace
from opentelemetry.context import Context

from braid.client.handlers import Handled
from braid.client.record import Record

if TYPE_CHECKING:
    from braid.client.columns import Batch
    from braid.client.outbox import Receipt

_FIELDS = frozenset({"traceparent", "tracestate", "baggage"})
Headers = Sequence[tuple[str, bytes]]


def tracer() -> trace.Tracer | None:
    """The tracer of this process, None where no tracing is set up. Asked once, when a producer or handler starts."""
    provider = trace.get_tracer_provider()
    if isinstance(provider, trace.ProxyTracerProvider | trace.NoOpTracerProvider):
        return None
    return provider.get_tracer("braid")


@contextmanager
def send_span(tracer: trace.Tracer, stream: str) -> Iterator[trace.Span]:
    """A PRODUCER span; `sent` gives it its name once the topic is known."""
    attributes = {"messaging.system": "kafka", "messaging.operation.name": "send", "messaging.operation.type": "send"}
    with tracer.start_as_current_span(f"send {stream}", kind=trace.SpanKind.PRODUCER, attributes=attributes) as span:
        yield span


def sent(span: trace.Span, receipt: "Receipt", cluster_id: str, count: int = 1) -> None:
    """Says where the record lies, or of so many the first; `cluster_id` is the cluster's own, empty when not known."""
    span.update_name(f"send {receipt.topic}")
    attributes: dict[str, str | int] = {
        "messaging.destination.name": receipt.topic,
        "messaging.destination.partition.id": str(receipt.partition),
        "messaging.kafka.offset": receipt.offset,
        "braid.cluster": receipt.cluster,
        **identified(cluster_id),
    }
    if count > 1:
        attributes["messaging.batch.message_count"] = count
    span.set_attributes(attributes)


@contextmanager
def process_span(tracer: trace.Tracer, group: str, item: Handled, cluster_id: str) -> Iterator[None]:
    """A CONSUMER span around a handler; that of one record is linked to the span that sent it."""
    place = item.work.lease.topic_partition
    attributes: dict[str, str | int] = {
        "messaging.system": "kafka",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": place.topic,
        "messaging.destination.partition.id": str(place.partition),
        "messaging.consumer.group.name": group,
        "braid.cluster": item.work.lease.cluster.name,
        **identified(cluster_id),
    }
    links = []
    if isinstance(item, Record):
        attributes["messaging.kafka.offset"] = item.offset
        origin = trace.get_current_span(extract_trace(item.raw_headers)).get_span_context()
        links = [trace.Link(origin)] if origin.is_valid else []
    else:
        attributes["messaging.batch.message_count"] = len(cast("Batch", item))
    with tracer.start_as_current_span(
        f"process {place.topic}", kind=trace.SpanKind.CONSUMER, links=links, attributes=attributes
    ) as span:
        try:
            yield
        except Exception as error:
            span.set_attribute("error.type", type(error).__name__)
            raise


def identified(cluster_id: str) -> dict[str, str]:
    """The attribute that holds a Kafka cluster's own id; none where it is not known."""
    return {"messaging.kafka.cluster.id": cluster_id} if cluster_id else {}


def trace_headers() -> Headers:
    """The current span's context as record headers; none without one."""
    carrier: dict[str, str] = {}
    if trace.get_current_span().get_span_context().is_valid:
        propagate.inject(carrier)
    return [(name, value.encode()) for name, value in carrier.items()]


def extract_trace(headers: Headers) -> Context:
    """The context a record was sent under."""
    return propagate.extract({name: value.decode("ascii", "replace") for name, value in headers if name in _FIELDS})
