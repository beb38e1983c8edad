"""A collector of OpenTelemetry over gRPC, in the test's own process: keeps all spans and logs that arrive."""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import NamedTuple

import grpc
from google.protobuf.message import Message
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest, ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import KeyValue

Attributes = dict[str, object]


class SeenSpan(NamedTuple):
    """An exported span, and the service that exported it."""

    service: str
    instance: str
    name: str
    trace_id: bytes
    span_id: bytes
    parent_id: bytes
    start_ns: int
    end_ns: int
    attributes: Attributes
    failed: bool
    linked: Sequence[bytes] = ()  # traces


class SeenLog(NamedTuple):
    """An exported log record, and the service that exported it."""

    service: str
    event: str
    body: str
    trace_id: bytes
    attributes: Attributes


class Collector:
    """Keeps the spans and logs that arrived so far."""

    def __init__(self) -> None:
        self.endpoint = ""
        self._lock = threading.Lock()
        self._spans: list[SeenSpan] = []
        self._logs: list[SeenLog] = []

    def spans(self) -> Sequence[SeenSpan]:
        """Returns all spans."""
        with self._lock:
            return list(self._spans)

    def logs(self) -> Sequence[SeenLog]:
        """Returns all log records."""
        with self._lock:
            return list(self._logs)

    def take_spans(self, request: ExportTraceServiceRequest, _: object) -> ExportTraceServiceResponse:
        """Takes an export of spans."""
        for resource in request.resource_spans:
            said = _read(resource.resource.attributes)
            for scope in resource.scope_spans:
                for span in scope.spans:
                    seen = SeenSpan(
                        str(said.get("service.name", "")),
                        str(said.get("service.instance.id", "")),
                        span.name,
                        span.trace_id,
                        span.span_id,
                        span.parent_span_id,
                        span.start_time_unix_nano,
                        span.end_time_unix_nano,
                        _read(span.attributes),
                        span.status.code == 2,
                        [link.trace_id for link in span.links],
                    )
                    with self._lock:
                        self._spans.append(seen)
        return ExportTraceServiceResponse()

    def take_logs(self, request: ExportLogsServiceRequest, _: object) -> ExportLogsServiceResponse:
        """Takes an export of logs."""
        for resource in request.resource_logs:
            said = _read(resource.resource.attributes)
            for scope in resource.scope_logs:
                for log in scope.log_records:
                    seen = SeenLog(
                        str(said.get("service.name", "")),
                        log.event_name,
                        log.body.string_value,
                        log.trace_id,
                        _read(log.attributes),
                    )
                    with self._lock:
                        self._logs.append(seen)
        return ExportLogsServiceResponse()

    def tree(self, trace_id: bytes) -> str:
        """Draws a trace for people: each span with its service, below its parent."""
        mine = sorted((each for each in self.spans() if each.trace_id == trace_id), key=lambda each: each.start_ns)
        known = {each.span_id for each in mine}

        def below(parent: bytes, depth: int) -> Iterator[str]:
            for each in mine:
                if each.parent_id == parent or (not depth and each.parent_id not in known):
                    millis = (each.end_ns - each.start_ns) / 1e6
                    yield f"{'  ' * depth}{each.name} [{each.service} {each.instance}] {millis:.1f} ms"
                    yield from below(each.span_id, depth + 1)

        return "\n".join(below(b"", 0))


def _read(attributes: Sequence[KeyValue]) -> Attributes:
    found: Attributes = {}
    for each in attributes:
        kind = each.value.WhichOneof("value")
        if kind == "array_value":
            found[each.key] = [value.string_value for value in each.value.array_value.values]
        elif kind:
            found[each.key] = getattr(each.value, kind)
    return found


def _add(server: grpc.Server, name: str, request: type[Message], take: Callable[..., Message]) -> None:
    handler: grpc.RpcMethodHandler[Message, Message] = grpc.unary_unary_rpc_method_handler(
        take, request_deserializer=request.FromString, response_serializer=lambda answer: answer.SerializeToString()
    )
    service = f"opentelemetry.proto.collector.{name}Service"
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {"Export": handler}),))


@contextmanager
def running_collector() -> Iterator[Collector]:
    """A collector that listens on a free port of this machine."""
    collector = Collector()
    server = grpc.server(ThreadPoolExecutor(2))
    _add(server, "trace.v1.Trace", ExportTraceServiceRequest, collector.take_spans)
    _add(server, "logs.v1.Logs", ExportLogsServiceRequest, collector.take_logs)
    port = server.add_insecure_port("127.0.0.1:0")
    collector.endpoint = f"http://127.0.0.1:{port}"
    server.start()
    try:
        yield collector
    finally:
        server.stop(0).wait()
