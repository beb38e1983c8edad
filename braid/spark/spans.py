"""Spans of Spark's batches: one in the planner, and below it one for each task, linked to what sent its records.

Spark's planner and workers are processes of Spark, so the application's own tracing is not there. They set up
OpenTelemetry from its standard variables, which Spark's processes inherit. Without those nothing is made.
"""

import logging
import os
from collections.abc import Mapping, Sequence
from typing import Final

from opentelemetry import trace
from opentelemetry.context import Context

from braid.client.telemetry.spans import ORIGIN_HEADERS, links_to, origins_among
from braid.kernel.errors import Invalid
from braid.kernel.limits.client import SPAN_LINKS_MAX
from braid.kernel.limits.telemetry import EXPORT_SHUTDOWN_SECONDS
from braid.kernel.ports import NO_TRACE, TraceContext
from braid.kernel.record_columns import RecordColumns
from braid.spark.options import ReadOptions
from braid.spark.plan import LogRange
from braid.telemetry.conventions import SYSTEM, messaging_attributes
from braid.telemetry.exporting import Telemetry
from braid.telemetry.tracing import parent_of, trace_of, tracer

_log = logging.getLogger("braid.spark")
_SERVICE: Final = "braid-spark"
SET_UP_BY: list[int] = []  # the process that was: a fork has none of its parent's threads


def process_tracer() -> trace.Tracer | None:
    """Returns this process's tracer, set up from the environment at the first call; None where no tracing is."""
    if os.getpid() not in SET_UP_BY:
        SET_UP_BY[:] = [os.getpid()]
        try:
            Telemetry(_SERVICE, f"{_SERVICE}-{os.getpid()}").start_traces()
        except Invalid as error:  # no reason to end a query
            _log.warning("no traces are exported: %s", error)
    return tracer()


def flush_spans() -> None:
    """Sends the spans that wait, for a bounded time: the process may end now."""
    flush = getattr(trace.get_tracer_provider(), "force_flush", None)
    if flush is not None:
        flush(round(EXPORT_SHUTDOWN_SECONDS * 1_000))


class BatchSpans:
    """The spans of a query's micro-batches in its planner, each from its plan until Spark says that it is done."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._span: trace.Span | None = None

    def begin(self, ranges: Sequence[LogRange]) -> TraceContext:
        """Begins a batch's span, in a trace of its own; returns the context of its tasks. Without tracing, none."""
        self.end(done=False)
        made_by = process_tracer()
        if made_by is None:
            return NO_TRACE
        attributes: dict[str, str | int] = {
            **_query_attributes(self._options),
            "messaging.operation.name": "process",
            "messaging.operation.type": "process",
            "messaging.batch.message_count": sum(each.end - each.start for each in ranges),
        }
        self._span = made_by.start_span(
            f"process {self._options.mesh.stream}",
            Context(),
            trace.SpanKind.CONSUMER,
            attributes=messaging_attributes(attributes),
        )
        return trace_of(self._span)

    def end(self, *, done: bool) -> None:
        """Ends the present span. Spark never says of the last batch of a run that it is done: then nobody knows."""
        span, self._span = self._span, None
        if span is not None:
            span.set_attribute("braid.batch.outcome", "done" if done else "unknown")
            span.end()


class TaskSpan:
    """The span of one task in a worker, linked to the spans that sent what it read: each once, within a bound."""

    def __init__(
        self, made_by: trace.Tracer, options: ReadOptions, logs: Sequence[LogRange], parent: TraceContext
    ) -> None:
        """Begins it, below its batch if that is known."""
        attributes: dict[str, str | int] = {
            **_query_attributes(options),
            "messaging.operation.name": "poll",
            "messaging.operation.type": "receive",
        }
        topics, clusters = {each.topic for each in logs}, {each.cluster for each in logs}
        if len(topics) == 1:
            attributes["messaging.destination.name"] = next(iter(topics))
        if len(clusters) == 1:
            attributes["braid.cluster"] = next(iter(clusters))
        if len(logs) == 1:
            attributes["messaging.destination.partition.id"] = str(logs[0].lease.partition)
        self._span = made_by.start_span(
            f"poll {options.mesh.stream}",
            parent_of(parent) or Context(),
            trace.SpanKind.CLIENT,
            attributes=messaging_attributes(attributes),
        )
        self._linked: set[bytes] = set()
        self._count = 0

    def saw(self, part: RecordColumns, names: Sequence[str]) -> None:
        """Counts records that Spark is handed, and links to what sent them; `names` are the columns of headers."""
        self._count += len(part)
        if len(self._linked) >= SPAN_LINKS_MAX:
            return
        for origin in map(dict, origins_among(part, names)):
            sender = origin[ORIGIN_HEADERS[0]]
            if sender is None or sender in self._linked:
                continue
            if len(self._linked) >= SPAN_LINKS_MAX:
                self._span.set_attribute("braid.links_full", True)
                return
            self._linked.add(sender)
            for link in links_to([origin.items()]):
                self._span.add_link(link.context)

    def ended(self, error: BaseException | None) -> None:
        """Ends it, with what it read and why it failed."""
        self._span.set_attribute("messaging.batch.message_count", self._count)
        if error is not None:
            self._span.set_attribute("error.type", type(error).__name__)
            self._span.set_status(trace.StatusCode.ERROR)
        self._span.end()


def traced_headers(names: Sequence[str]) -> Sequence[str]:
    """Returns the headers to fetch where a read needs these and is traced."""
    return tuple(dict.fromkeys((*names, *ORIGIN_HEADERS)))


def _query_attributes(options: ReadOptions) -> Mapping[str, str]:
    group = {"messaging.consumer.group.name": options.group} if options.group else {}
    return {SYSTEM: "kafka", "braid.stream": options.mesh.stream, **group}
