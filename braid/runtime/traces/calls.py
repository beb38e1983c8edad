"""Surrounds handlers by SERVER spans. Without tracing the service stays as it is.

A call has a span if its caller's trace goes on here, or if it changes something. What clients that trace nothing ask
again and again begins no traces. Streams have none: their messages carry a trace each, where there is one.
"""

from functools import partial

from opentelemetry import trace

from braid.kernel.access.table import row_of
from braid.kernel.ports import Caller, DuplexHandler, RpcService, StreamHandler, UnaryHandler
from braid.telemetry.tracing import parent_of, server_span, tracer


def traced_calls(service: RpcService, name: str) -> RpcService:
    """Returns the service `name` with a span around each call that is to have one."""
    found = tracer()
    return service if found is None else service.wrapped(partial(_traced, found, name), _streams, _duplexes)


def _traced(tracer: trace.Tracer, service: str, path: str, handler: UnaryHandler) -> UnaryHandler:
    row = row_of(service, path.rpartition("/")[2])
    begins = row is not None and row.mutates

    async def handle(request: object, caller: Caller) -> object:
        parent = parent_of(caller.trace)
        if parent is None and not begins:
            return await handler(request, caller)
        with server_span(tracer, path, parent, caller.request_id):
            return await handler(request, caller)

    return handle


def _streams(path: str, handler: StreamHandler) -> StreamHandler:
    return handler


def _duplexes(path: str, handler: DuplexHandler) -> DuplexHandler:
    return handler
