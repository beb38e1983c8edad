"""Spans of outgoing calls, for clients that must start fast. OpenTelemetry is loaded only where somebody uses it."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from braid.kernel.ports import NO_TRACE, TraceContext

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

_API: Final = "opentelemetry.trace"
_PROVIDER: Final = "OTEL_PYTHON_TRACER_PROVIDER"  # the API loads the provider that it names by itself


def call_tracer() -> "Tracer | None":
    """Returns this process's tracer. Where nobody loaded the API, nobody set up a provider: then None, at no cost."""
    if _API not in sys.modules and not os.environ.get(_PROVIDER):
        return None
    from braid.telemetry.tracing import tracer

    return tracer()


@contextmanager
def called(tracer: "Tracer | None", path: str, address: str) -> Iterator[TraceContext]:
    """Surrounds one attempt of a call, and yields the trace context to send beside it: see `tracing.client_span`."""
    if tracer is None:
        yield NO_TRACE
        return
    from braid.telemetry.tracing import client_span

    with client_span(tracer, path, address) as sent:
        yield sent
