"""Spans and W3C trace context by OpenTelemetry's API. Without a provider `tracer` returns None, and nothing is made.

Trace context comes from callers: it is bounded before it is parsed, and never logged as text.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, TypeAlias

from opentelemetry import trace
from opentelemetry.context import Context, get_current
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from braid.kernel.errors import BraidError, Code
from braid.kernel.limits.telemetry import SPAN_TEXT_CHARS_MAX, TRACEPARENT_BYTES_MAX
from braid.kernel.ports import NO_TRACE, TraceContext

NAME: Final = "braid"  # of the instrumentation, as OpenTelemetry's own variables name it
SCHEMA_URL: Final = "https://opentelemetry.io/schemas/1.45.0"
_W3C: Final = TraceContextTextMapPropagator()
_DISABLED: Final = "OTEL_PYTHON_DISABLED_INSTRUMENTATIONS"
# A server's own failures; whatever else it answers is the caller's matter (semantic conventions for gRPC).
_SERVER_ERRORS: Final = frozenset(
    {"UNKNOWN", "DEADLINE_EXCEEDED", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS"}
)

Attribute: TypeAlias = str | int | bool | Sequence[str]


_provider: list[trace.TracerProvider] = []  # at most one: what an instrumentor was given


def use_provider(provider: trace.TracerProvider | None) -> None:
    """Makes spans by this provider from now on, or with None by the process's own."""
    _provider[:] = [] if provider is None else [provider]


def tracer() -> trace.Tracer | None:
    """Returns this process's tracer; None where no tracing is set up. Asked once, when a client or a replica starts."""
    provider = _provider[0] if _provider else trace.get_tracer_provider()
    if isinstance(provider, trace.ProxyTracerProvider | trace.NoOpTracerProvider) or _is_disabled(os.environ):
        return None
    return provider.get_tracer(NAME, schema_url=SCHEMA_URL)


def _is_disabled(environ: Mapping[str, str]) -> bool:
    named = {each.strip() for each in environ.get(_DISABLED, "").split(",")}
    return bool(named & {NAME, "*"})


# --- context


class _Scope:
    """The trace of the work that is done here, while that lasts."""

    __slots__ = ("open", "traceparent")

    def __init__(self, traceparent: str) -> None:
        self.traceparent = traceparent
        self.open = True


# A task inherits the context of the task that starts it, for life. So a loop that a request starts would belong to that
# request's trace for ever: a scope says when it has ended.
_SCOPE: Final[ContextVar[_Scope | None]] = ContextVar("the trace of the work here", default=None)


def current_traceparent() -> str:
    """Returns the `traceparent` of the call or cause that is being worked on here; empty without one."""
    scope = _SCOPE.get()
    return scope.traceparent if scope is not None and scope.open else ""


@contextmanager
def continued(traceparent: str) -> Iterator[None]:
    """Lets a trace that came with an event or a message go on in what is decided within."""
    if not traceparent:
        yield
        return
    scope = _Scope(traceparent)
    token = _SCOPE.set(scope)
    try:
        yield
    finally:
        scope.open = False
        _SCOPE.reset(token)


def is_within_span() -> bool:
    """Returns whether a span is current here, and has not ended: tasks inherit their starter's span for life."""
    span = trace.get_current_span()
    return span.get_span_context().is_valid and (span.is_recording() or isinstance(span, trace.NonRecordingSpan))


def trace_of(span: trace.Span) -> TraceContext:
    """Returns a span's context as text."""
    if not span.get_span_context().is_valid:
        return NO_TRACE
    carrier: dict[str, str] = {}
    _W3C.inject(carrier, trace.set_span_in_context(span, Context()))
    return TraceContext(carrier.get("traceparent", ""), carrier.get("tracestate", ""))


def parent_of(told: TraceContext) -> Context | None:
    """Reads trace context that somebody sent; None where it names no span, or is too long."""
    parent, state = told
    if not parent or len(parent) > TRACEPARENT_BYTES_MAX:
        return None
    found = _W3C.extract({"traceparent": parent, "tracestate": state}, Context())
    return found if trace.get_current_span(found).get_span_context().is_valid else None


def log_context() -> Context | None:
    """Returns the context that a log written here belongs to: of the current span, or of the cause that is followed."""
    if trace.get_current_span().is_recording():
        return get_current()
    return parent_of(TraceContext(current_traceparent()))


def trace_ids() -> dict[str, str]:
    """Returns the ids of the trace and span that a log written here belongs to; none outside of traces."""
    found = log_context()
    if found is None:
        return {}
    context = trace.get_current_span(found).get_span_context()
    return {"trace_id": trace.format_trace_id(context.trace_id), "span_id": trace.format_span_id(context.span_id)}


def cut(text: str) -> str:
    """Bounds the text of an attribute."""
    return text[:SPAN_TEXT_CHARS_MAX]


# --- calls


@contextmanager
def client_span(tracer: trace.Tracer, path: str, address: str) -> Iterator[TraceContext]:
    """Surrounds one attempt of a call by a CLIENT span, and yields the context to send beside it.

    Only a call within another span has one: what a client asks by itself, again and again, begins no traces.
    """
    if not is_within_span():
        yield NO_TRACE
        return
    host, _, port = address.rpartition(":")
    attributes = _call_attributes(path) | {"server.address": host.strip("[]")}
    if port.isdecimal():
        attributes["server.port"] = int(port)
    with started(tracer, _name_of(path), trace.SpanKind.CLIENT, attributes) as span:
        try:
            yield trace_of(span)
        except BraidError as error:
            answered(span, error.code)
            raise
        answered(span, None)


@contextmanager
def server_span(tracer: trace.Tracer, path: str, parent: Context | None, request_id: str) -> Iterator[trace.Span]:
    """Surrounds a handler by a SERVER span: a child of the caller's, or without `parent` the first of a trace."""
    attributes = _call_attributes(path) | {"braid.request.id": cut(request_id)}
    with started(tracer, _name_of(path), trace.SpanKind.SERVER, attributes, parent or Context()) as span:
        try:
            with continued(trace_of(span).parent):
                yield span
        except BraidError as error:
            answered(span, error.code, server=True)
            raise
        answered(span, None)


def answered(span: trace.Span, code: Code | None, *, server: bool = False) -> None:
    """Sets a call's status, None for an answer without error. Messages stay out: they may name what nobody may read."""
    name = "OK" if code is None else code.name
    span.set_attribute("rpc.response.status_code", name)
    if code is not None and (not server or name in _SERVER_ERRORS):
        span.set_attribute("error.type", name)
        span.set_status(trace.StatusCode.ERROR)


@contextmanager
def started(
    tracer: trace.Tracer,
    name: str,
    kind: trace.SpanKind,
    attributes: Mapping[str, Attribute],
    parent: Context | None = None,
) -> Iterator[trace.Span]:
    """Starts a span and makes it current; an exception sets its type, and nothing of its text."""
    with tracer.start_as_current_span(
        name, parent, kind, attributes, record_exception=False, set_status_on_exception=False
    ) as span:
        try:
            yield span
        except BraidError:
            raise
        except BaseException as error:
            failed(span, type(error).__name__)
            raise


def failed(span: trace.Span, kind: str) -> None:
    """Marks a span as failed by an error of this kind."""
    span.set_attribute("error.type", kind)
    span.set_status(trace.StatusCode.ERROR)


def _name_of(path: str) -> str:
    return path.removeprefix("/")


def _call_attributes(path: str) -> dict[str, Attribute]:
    return {"rpc.system.name": "grpc", "rpc.method": _name_of(path)}
