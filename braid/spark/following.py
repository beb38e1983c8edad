"""One task's records as others are to hear of them: pathways go to lagmon, spans to a tracing tool. Off by default."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from braid.kernel.ids import DLQ_LANE
from braid.kernel.ports import NO_TRACE, TraceContext
from braid.kernel.record_columns import RecordColumns
from braid.spark.loop import process_loop
from braid.spark.options import ReadOptions
from braid.spark.pathways import WorkerPathways, worker_pathways
from braid.spark.plan import LogRange
from braid.spark.rows import column_headers
from braid.spark.spans import TaskSpan, process_tracer, traced_headers


class Following:
    """Follows the records of one task.

    Attributes:
        names: The headers that are fetched as columns.
        active: Whether anybody is to hear of them.
    """

    def __init__(self, names: Sequence[str], pathways: WorkerPathways | None, span: TaskSpan | None) -> None:
        self.names = names
        self.active = pathways is not None or span is not None
        self._pathways = pathways
        self._span = span

    def handed_out(self, log: LogRange, parts: Sequence[RecordColumns]) -> None:
        """Notes records that become rows now. The recorder belongs to the process's loop, so it is asked there."""
        if self._span is not None:
            for part in parts:
                self._span.saw(part, self.names)
        if self._pathways is not None and log.lease.channel.lane != DLQ_LANE:
            process_loop().call(_measured(self._pathways, parts))


async def _measured(pathways: WorkerPathways, parts: Sequence[RecordColumns]) -> None:
    for part in parts:
        pathways.handed_out(part)


@contextmanager
def followed(options: ReadOptions, logs: Sequence[LogRange], parent: TraceContext = NO_TRACE) -> Iterator[Following]:
    """Follows the records that a task reads within."""
    names: Sequence[str] = column_headers(options.where)
    made_by = process_tracer() if logs else None
    pathways = process_loop().call(worker_pathways(options)) if options.pathways and logs else None
    if made_by is not None:
        names = traced_headers(names)
    if pathways is not None:
        names = pathways.asked(names)
    span = None if made_by is None else TaskSpan(made_by, options, logs, parent)
    failure: BaseException | None = None
    try:
        yield Following(names, pathways, span)
    except GeneratorExit:  # Spark wants no more rows
        raise
    except BaseException as error:
        failure = error
        raise
    finally:
        if span is not None:
            span.ended(failure)
