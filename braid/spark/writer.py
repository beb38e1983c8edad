"""Writing to a stream: every task sends its rows through a producer of the SDK and ends when all are acknowledged.

Columns: `value` (binary or string), and optionally `key` (binary or string), `headers` (array of key and value), `lane`
(string); others are ignored. A task or epoch that Spark runs again writes its rows again, under new record ids: a
reader that merges by id sees both. No acknowledged row is lost.
"""

import logging
import os
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import ArrayType, BinaryType, DataType, StringType, StructType

from braid.client.mesh import Mesh, connect
from braid.client.producing.producer import Producer
from braid.client.records.outgoing import Outgoing
from braid.kernel.errors import Invalid
from braid.spark.limits import SPARK_WRITE_RECORDS
from braid.spark.loop import process_loop
from braid.spark.options import WriteOptions

_BYTES: Final = (BinaryType(), StringType())
_log = logging.getLogger("braid.spark")


class RowsWritten(WriterCommitMessage):
    """The result of a task: the number of acknowledged rows."""

    def __init__(self, rows: int) -> None:
        self.rows = rows


class BatchWriter(DataSourceArrowWriter):
    """Writes a frame; pickled to workers."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Sends a task's rows; runs in a worker."""
        return RowsWritten(write_rows(self._options, iterator))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Does nothing, because every row is acknowledged already."""

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Does nothing: acknowledged rows stay."""
        _warn_of_rest(messages)


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes a streaming query's batches; pickled to workers."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Sends a task's rows; runs in a worker."""
        return RowsWritten(write_rows(self._options, iterator))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Does nothing, because every row is acknowledged already."""

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Does nothing: acknowledged rows stay, and the batch will be written again."""
        _warn_of_rest(messages)


def check_frame(schema: StructType) -> None:
    """Raises `Invalid` naming the column that cannot be written."""
    columns = {field.name: field for field in schema.fields}
    if "value" not in columns:
        known = ", ".join(columns)
        raise Invalid(f"is missing among {known}", field="value", remedy="select a column `value`, binary or string")
    for name in ("value", "key"):
        if name in columns and columns[name].dataType not in _BYTES:
            kind = columns[name].dataType.simpleString()
            raise Invalid(
                f"is {kind}, not binary or string", field=name, remedy=f'cast it: col("{name}").cast("string")'
            )
    if "lane" in columns and columns["lane"].dataType != StringType():
        raise Invalid("is not a string", field="lane", remedy="give a lane's name, or leave the column out")
    if "headers" in columns and not _are_headers(columns["headers"].dataType):
        wanted = "array<struct<key: string, value: binary>>"
        raise Invalid(f"is not {wanted}", field="headers", remedy="build it so, or leave the column out")


def write_rows(options: WriteOptions, batches: Iterator[pa.RecordBatch]) -> int:
    """Sends rows and waits for all acknowledgements; returns how many.

    Raises:
        BraidError: a row was refused, or not acknowledged in time; others of the task may have been written.
    """
    loop = process_loop()
    producer = loop.call(_producer(options))
    written = 0
    for batch in batches:
        for start in range(0, batch.num_rows, SPARK_WRITE_RECORDS):
            outgoing = outgoing_rows(batch.slice(start, SPARK_WRITE_RECORDS), options.lane)
            written += len(loop.call(producer.send_many(outgoing)))
    return written


def outgoing_rows(batch: pa.RecordBatch, lane: str) -> list[Outgoing]:
    """Converts rows to records to send; `lane` is for rows that name none. Braid's own headers are dropped."""
    count = batch.num_rows
    names = batch.schema.names

    def column(name: str) -> list[object]:
        return batch.column(name).to_pylist() if name in names else [None] * count

    return [
        Outgoing(_bytes(value), _bytes(key), str(row_lane or lane) or None, _headers(headers))
        for value, key, row_lane, headers in zip(
            column("value"), column("key"), column("lane"), column("headers"), strict=True
        )
    ]


def _bytes(found: object) -> bytes | None:
    if isinstance(found, str):
        return found.encode()
    return bytes(found) if isinstance(found, (bytes, bytearray)) else None


def _headers(found: object) -> dict[str, bytes] | None:
    if not isinstance(found, list):
        return None
    pairs = ((each["key"], each["value"] or b"") for each in found if each is not None and each["key"] is not None)
    return {name: value for name, value in pairs if not name.startswith("braid-")}


def _are_headers(kind: DataType) -> bool:
    if not isinstance(kind, ArrayType) or not isinstance(kind.elementType, StructType):
        return False
    fields = [(field.name, field.dataType) for field in kind.elementType.fields]
    return fields == [("key", StringType()), ("value", BinaryType())]


def _warn_of_rest(messages: Sequence[WriterCommitMessage | None]) -> None:
    rows = sum(message.rows for message in messages if isinstance(message, RowsWritten))
    _log.warning("a write failed; %d rows of its finished tasks stay in the stream", rows)


class _Open(NamedTuple):
    """This process's connection and producer, and the options they were made with."""

    process: int
    options: WriteOptions
    mesh: Mesh
    producer: Producer


_open: list[_Open] = []


async def _producer(options: WriteOptions) -> Producer:
    """Returns the producer of all this process's tasks, until a task of another write comes."""
    if _open and _open[0].process == os.getpid():
        if _open[0].options == options and not _open[0].producer.refused:
            return _open[0].producer
        await _open[0].producer.close()
        await _open[0].mesh.__aexit__(None, None, None)
    _open.clear()
    wanted = options.mesh
    mesh = await connect(
        wanted.endpoint, client_id=wanted.client_id, zone=wanted.zone, tls=wanted.tls, token=wanted.token
    ).__aenter__()
    producer = mesh.producer(
        wanted.stream,
        compression=options.compression,
        delivery_timeout_seconds=options.delivery_timeout_seconds,
    )
    try:
        await producer.__aenter__()
    except BaseException:
        await mesh.__aexit__(None, None, None)
        raise
    _open.append(_Open(os.getpid(), options, mesh, producer))
    return producer
