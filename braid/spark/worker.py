"""Code that runs in Spark's Python workers: reads ranges, and keeps clients for the next task of the process.

Clients are kept for the next task of the same process.

Nothing of the planner is visible here; whatever a task needs comes in its options and its range.
"""

import asyncio
import logging
import os
from collections import OrderedDict
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from braid.client.mesh import connect
from braid.client.planning.quarantine import quarantine
from braid.client.reading.range_reader import Bounds, RangeColumns, RangeReader, RangeRecords, open_range_reader
from braid.kernel.errors import BraidError, NotFound, OffsetOutOfRange, Refused
from braid.kernel.ports import NO_TRACE, DamagedBatch, TopicPartition, TraceContext
from braid.kernel.record_columns import columns_of
from braid.spark.following import Following, followed
from braid.spark.limits import SPARK_READ_RECORDS, SPARK_READERS_MAX, SPARK_TASK_ROWS_MIN
from braid.spark.loop import ProcessLoop, process_loop
from braid.spark.memory import keep_freed_memory
from braid.spark.options import ReadOptions
from braid.spark.plan import LogRange, beside
from braid.spark.rows import RowBuilder

_log = logging.getLogger("braid.spark")
_Key = tuple[int, str, str, str, str, str, float]
_readers: "OrderedDict[_Key, RangeReader]" = OrderedDict()


def read_ranges(
    options: ReadOptions, logs: Sequence[LogRange], trace: TraceContext = NO_TRACE
) -> Iterator[pa.RecordBatch]:
    """Yields the rows of a task's ranges, small ones of one topic at once; raises what `read_range` does.

    `trace` is the context of its batch.
    """
    keep_freed_memory()
    with followed(options, logs, trace) as following:
        for group in beside(logs, SPARK_TASK_ROWS_MIN):
            left = (yield from _read_together(options, group, following)) if len(group) > 1 else group
            for log in left:
                yield from read_range(options, log, following)


def _read_together(
    options: ReadOptions, logs: Sequence[LogRange], following: Following
) -> Generator[pa.RecordBatch, None, list[LogRange]]:
    """Yields the rows of several ranges as they arrive; returns the rest of those that need a closer look."""
    loop = process_loop()
    reader = loop.call(_reader(options, logs[0]))
    ranges = {TopicPartition(log.topic, log.lease.partition): log for log in logs}
    builders = {partition: _builder(options, log) for partition, log in ranges.items()}
    loop.call(_begin_together(reader, ranges))
    rows_max = max(log.end - log.start for log in logs)
    while found := loop.call(_next_together(reader, options, rows_max, following.names)):
        for partition, part in found:
            rows = _built(builders[partition], part, ranges[partition], following)
            if len(rows):
                yield rows
    return [
        replace(log, start=reader.left[partition].start)
        for partition, log in ranges.items()
        if partition in reader.left
    ]


def read_range(options: ReadOptions, log: LogRange, following: Following) -> Iterator[pa.RecordBatch]:
    """Yields the rows of a range in offset order, one `pyarrow.RecordBatch` for each fetch.

    Raises:
        OffsetOutOfRange: records of the range are gone, and `failOnDataLoss` is true.
        NotFound: its topic is gone, and `failOnDataLoss` is true.
        Refused: a batch of it cannot be decoded, it is a batch read, and `failOnDataLoss` is true.
        ClusterUnavailable: its cluster was away for `clusterWaitSeconds`.
    """
    loop = process_loop()
    builder = _builder(options, log)
    start: int | None = log.start
    while start is not None:
        try:
            for found in _read(loop, options, log, start, following.names):
                rows = _built(builder, found, log, following)
                if len(rows):
                    yield rows
            start = None
        except (NotFound, OffsetOutOfRange) as error:
            start = _after_loss(options, log, error)


def _read(
    loop: ProcessLoop, options: ReadOptions, log: LogRange, start: int, names: Sequence[str]
) -> Iterator[RangeRecords | RangeColumns]:
    """Yields records while the next fetch is under way."""
    partition = TopicPartition(log.topic, log.lease.partition)
    reader = loop.call(_reader(options, log))
    loop.call(_begin(reader, partition, start, log.end))
    fetching = loop.submit(_next(reader, options, log.end, names))
    try:
        while (found := fetching.result()) is not None:
            fetching = loop.submit(_next(reader, options, log.end, names))
            for batch in found.damaged:
                _tell_of_damage(loop, options, log, batch)
            yield found
    finally:
        fetching.cancel()


def _tell_of_damage(loop: ProcessLoop, options: ReadOptions, log: LogRange, batch: DamagedBatch) -> None:
    """Dead-letters an undecodable batch for the group; without a group it ends the read, or warns."""
    where = f"{log.lease} at {batch.first_offset} to {batch.last_offset} on cluster {log.cluster}"
    _log.warning("%s cannot be read: %s", where, batch.why)
    if options.group:
        loop.call(_quarantine(options, log, batch))
    elif options.fail_on_data_loss:
        remedy = "set failOnDataLoss to false to read around it"
        raise Refused(f"{where} cannot be read: {batch.why}", field="failOnDataLoss", remedy=remedy)


async def _quarantine(options: ReadOptions, log: LogRange, batch: DamagedBatch) -> None:
    wanted = options.mesh
    async with connect(
        wanted.endpoint, client_id=wanted.client_id, zone=wanted.zone, tls=wanted.tls, token=wanted.token
    ) as mesh:
        wait_seconds = options.cluster_wait_seconds
        await quarantine(mesh, options.group, log.lease, log.cluster, log.topic, batch, wait_seconds=wait_seconds)


async def _begin(reader: RangeReader, partition: TopicPartition, start: int, end: int) -> None:
    reader.begin(partition, start, end)


async def _next(
    reader: RangeReader, options: ReadOptions, end: int, names: Sequence[str]
) -> RangeRecords | RangeColumns | None:
    """Returns the next records, as objects only if all headers are wanted, because columns cost a third.

    None at the end.
    """
    rows_max = max(1, min(SPARK_READ_RECORDS, end - reader.position))
    if options.include_headers:
        return await reader.read(rows_max)
    return await reader.read_columns(rows_max, names)


async def _begin_together(reader: RangeReader, ranges: Mapping[TopicPartition, LogRange]) -> None:
    reader.begin_together({partition: Bounds(log.start, log.end) for partition, log in ranges.items()})


async def _next_together(
    reader: RangeReader, options: ReadOptions, rows_max: int, names: Sequence[str]
) -> Sequence[tuple[TopicPartition, RangeRecords | RangeColumns]]:
    if options.include_headers:
        return await reader.read_together(rows_max)
    return await reader.read_columns_together(rows_max, names)


def _builder(options: ReadOptions, log: LogRange) -> RowBuilder:
    return RowBuilder(log, group=options.group, include_headers=options.include_headers, where=options.where)


def _built(
    builder: RowBuilder, found: RangeRecords | RangeColumns, log: LogRange, following: Following
) -> pa.RecordBatch:
    """Builds the rows of what was fetched; others may hear of its records."""
    if isinstance(found, RangeColumns):
        parts = [builder.wanted(part) for part in found.parts]
        if following.active:
            following.handed_out(log, parts)
        return builder.build_wanted(parts)
    if following.active and found.records:
        following.handed_out(log, [builder.wanted(columns_of(found.records, following.names))])
    return builder.build(found.records)


async def _reader(options: ReadOptions, log: LogRange) -> RangeReader:
    """Returns a client of the range's cluster, one for each topic, because a client knows only its topic's leaders."""
    mesh = options.mesh
    key = (
        *(os.getpid(), log.bootstrap, log.security_profile, log.topic, mesh.client_id, mesh.zone),
        options.cluster_wait_seconds,
    )
    if key not in _readers:
        _readers[key] = open_range_reader(
            log.cluster,
            log.bootstrap,
            log.security_profile,
            client_id=mesh.client_id,
            zone=mesh.zone,
            wait_seconds=options.cluster_wait_seconds,
        )
    _readers.move_to_end(key)
    while len(_readers) > SPARK_READERS_MAX:
        _, oldest = _readers.popitem(last=False)
        await asyncio.shield(oldest.close())
    return _readers[key]


def _after_loss(options: ReadOptions, log: LogRange, error: BraidError) -> int | None:
    """Returns where reading continues after records were lost; None for nowhere. Raises if loss is an error."""
    if options.fail_on_data_loss:
        remedy = "set failOnDataLoss to false to go on without them"
        raise type(error)(error.message, field="failOnDataLoss", remedy=remedy, metadata=error.metadata) from error
    _log.warning("%s: records are lost, reading goes on without them: %s", log.lease, error)
    end = int(error.metadata.get("end", log.end))
    return end if end < log.end else None
