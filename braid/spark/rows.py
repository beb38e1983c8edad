"""The columns of a read, and how fetched records become them: one `pyarrow.RecordBatch` a fetch. No I/O.

Records come as objects where all their headers are wanted, and as columns otherwise.
"""

from collections.abc import Callable, Sequence
from functools import cache
from itertools import compress
from operator import attrgetter
from typing import Final, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from braid.client.record import ID_HEADER, INGESTED_HEADER, REPLAY_GROUP_HEADER
from braid.kernel.ports import KafkaRecord
from braid.kernel.ranges import Ranges
from braid.kernel.record_columns import Cells, RecordColumns, pieces_at
from braid.spark.decimals import decimals
from braid.spark.plan import LogRange

COLUMN_HEADERS: Final = (ID_HEADER, INGESTED_HEADER, REPLAY_GROUP_HEADER)  # that `build_columns` needs
SCHEMA: Final = StructType(
    [
        StructField("stream", StringType()),
        StructField("lane", StringType()),
        StructField("cluster", StringType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestamp_type", IntegerType()),
        StructField("ingested_at", TimestampType()),
        StructField("id", StringType()),
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField(
            "headers",
            ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())])),
        ),
    ]
)
_US_PER_MS: Final = 1_000
_TIME_DIGITS_MAX: Final = 15  # of an ingestion time that is believed
_OFFSET, _TIMESTAMP, _TIMESTAMP_TYPE = attrgetter("offset"), attrgetter("timestamp"), attrgetter("timestamp_type")
_Number = TypeVar("_Number", np.int64, np.int8)
_KEY, _VALUE = attrgetter("key"), attrgetter("value")


@cache
def arrow_schema() -> pa.Schema:
    """`SCHEMA` as Spark wants it from a data source."""
    return to_arrow_schema(SCHEMA, timezone="UTC")


class Marks(NamedTuple):
    """What records' `braid-` headers say, one entry a record.

    Attributes:
        times: Ingestion times, ms since the epoch; Kafka's own timestamp where there is no `braid-ts`.
        ids: `braid-id`, None where another tool produced the record.
        others: Indices of records that are a replay for another group.
    """

    times: list[int]
    ids: list[bytes | None]
    others: list[int]


def marks(raws: Sequence[KafkaRecord], group: str) -> Marks:
    """Reads the headers of records; `group` is whose replays count (empty: everybody's)."""
    own = group.encode()
    found = Marks([], [], [])
    add_time, add_id = found.times.append, found.ids.append
    last_text, last = b"", 0
    for index, raw in enumerate(raws):
        identity, text = None, b""
        for name, value in raw.headers:
            if name == ID_HEADER:
                identity = value
            elif name == INGESTED_HEADER:
                text = value or b""  # a foreign writer's may be null
            elif own and name == REPLAY_GROUP_HEADER and value and value != own:
                found.others.append(index)
        if text != last_text:  # many records share their millisecond
            last_text, last = text, int(text) if text.isdigit() and len(text) <= _TIME_DIGITS_MAX else -1
        add_time(last if text and last >= 0 else raw.timestamp)
        add_id(identity)
    return found


class RowBuilder:
    """Builds the rows of one range."""

    def __init__(self, log: LogRange, *, group: str, include_headers: bool) -> None:
        """`group` is the streaming read's, whose own replays alone are rows; empty for a batch read."""
        self._group = group
        self._include_headers = include_headers
        self._skip = Ranges.of_edges(log.skip)
        channel = log.lease.channel
        self._same = (channel.stream, channel.lane, log.cluster, log.topic, log.lease.partition)
        self._constants: list[pa.Array] = []

    def build(self, raws: Sequence[KafkaRecord]) -> pa.RecordBatch:
        """The rows of these records, in their order, without those that are done or another group's."""
        if self._skip:
            raws = [raw for raw in raws if raw.offset not in self._skip]
        found = marks(raws, self._group)
        if found.others:
            wanted = np.ones(len(raws), np.bool_)
            wanted[found.others] = False
            raws = list(compress(raws, wanted))
            found = Marks(list(compress(found.times, wanted)), list(compress(found.ids, wanted)), [])
        schema = arrow_schema()
        columns = [
            *self._repeated(len(raws)),
            pa.array(_numbers(raws, _OFFSET)),
            _timestamps(_numbers(raws, _TIMESTAMP), schema.field("timestamp").type),
            pa.array(_numbers(raws, _TIMESTAMP_TYPE), pa.int32()),
            _timestamps(np.array(found.times, np.int64), schema.field("ingested_at").type),
            _texts(found.ids),
            pa.array(list(map(_KEY, raws)), pa.binary()),
            pa.array(list(map(_VALUE, raws)), pa.binary()),
            self._headers(raws, schema.field("headers").type),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    def build_columns(self, parts: Sequence[RecordColumns]) -> pa.RecordBatch:
        """`build` without headers, of columns with `COLUMN_HEADERS`."""
        schema = arrow_schema()
        if not parts:
            return pa.RecordBatch.from_pylist([], schema=schema)
        parts = [self._wanted(part) for part in parts]
        times = [_ingested(part, part.headers[1]) for part in parts]
        columns = [
            *self._repeated(sum(map(len, parts))),
            pa.array(_joined([part.offsets for part in parts]), pa.int64()),
            _timestamps(_joined([part.timestamps for part in parts]), schema.field("timestamp").type),
            pa.array(_joined([part.timestamp_types for part in parts]).astype(np.int32)),
            _timestamps(_joined(times), schema.field("ingested_at").type),
            _as_text(_binary([(part, part.headers[0]) for part in parts])),
            _binary([(part, part.keys) for part in parts]),
            _binary([(part, part.values) for part in parts]),
            pa.nulls(sum(map(len, parts)), schema.field("headers").type),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    def _wanted(self, part: RecordColumns) -> RecordColumns:
        """Without those that are done or another group's."""
        if self._skip:
            done = np.zeros(len(part), np.bool_)
            for start, end in self._skip:
                done[slice(*part.offsets.searchsorted((start, end)))] = True
            part = part.of(~done) if done.any() else part
        replays = part.headers[2]
        named = replays.sizes > 0
        if not self._group or not named.any():
            return part
        own = self._group.encode()
        for row in named.nonzero()[0].tolist():
            named[row] = part.cell(replays, row) != own
        return part.of(~named)

    def _repeated(self, count: int) -> list[pa.Array]:
        """The columns that are the same in every row, cut from longer ones made before."""
        if not self._constants or len(self._constants[0]) < count:
            schema = arrow_schema()
            self._constants = [
                pa.repeat(pa.scalar(value, schema.field(at).type), count) for at, value in enumerate(self._same)
            ]
        return [column.slice(0, count) for column in self._constants]

    def _headers(self, raws: Sequence[KafkaRecord], kind: pa.DataType) -> pa.Array:
        if not self._include_headers:
            return pa.nulls(len(raws), kind)
        return pa.array([[{"key": name, "value": value} for name, value in raw.headers] for raw in raws], kind)


def _numbers(raws: Sequence[KafkaRecord], of: Callable[[KafkaRecord], int]) -> NDArray[np.int64]:
    return np.fromiter(map(of, raws), np.int64, len(raws))


def _timestamps(numbers: NDArray[np.int64], kind: pa.DataType) -> pa.Array:
    """Milliseconds since the epoch as Spark's microseconds; negative ones (a record without a time) are null."""
    micros = numbers * _US_PER_MS
    if len(numbers) and numbers.min() < 0:
        return pa.array(micros, pa.int64(), mask=numbers < 0).cast(kind)
    return pa.Array.from_buffers(kind, len(micros), [None, pa.py_buffer(micros)])


def _texts(texts: Sequence[bytes | None]) -> pa.Array:
    """ASCII as strings; what is not valid text is replaced."""
    return _as_text(pa.array(texts, pa.binary()))


def _as_text(found: pa.Array) -> pa.Array:
    try:
        return found.cast(pa.string())
    except pa.ArrowInvalid:
        texts = [None if text is None else text.decode("ascii", "replace") for text in found.to_pylist()]
        return pa.array(texts, pa.string())


def _joined(arrays: Sequence[NDArray[_Number]]) -> NDArray[_Number]:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def _binary(columns: Sequence[tuple[RecordColumns, Cells]]) -> pa.Array:
    """Cells as an array of their own."""
    taken = [_alike(part.data, cells) if _are_alike(cells) else _taken(part.data, cells) for part, cells in columns]
    return taken[0] if len(taken) == 1 else pa.concat_arrays(taken)


def _are_alike(cells: Cells) -> bool:
    """Whether all are of one size, or all null."""
    return len(cells.sizes) > 0 and bool((cells.sizes == cells.sizes[0]).all())


def _alike(data: memoryview, cells: Cells) -> pa.Array:
    count, size = len(cells.sizes), int(cells.sizes[0])
    if size < 0:
        return pa.nulls(count, pa.binary())
    edges = pa.py_buffer(np.arange(count + 1, dtype=np.int32) * np.int32(size))
    pieces = pa.py_buffer(pieces_at(data, cells.starts, np.dtype(f"V{size}")) if size else b"")
    return pa.Array.from_buffers(pa.binary(), count, [None, edges, pieces])


def _taken(data: memoryview, cells: Cells) -> pa.Array:
    """Cells and what lies between them make an array over the fetched bytes, of which every second one is taken."""
    count = len(cells.sizes)
    edges = np.empty((count, 2), np.int32)
    edges[:, 0] = cells.starts
    edges[:, 1] = cells.starts + np.maximum(cells.sizes, 0)
    around = pa.py_buffer(edges)
    pieces = pa.Array.from_buffers(pa.binary(), max(0, 2 * count - 1), [None, around, pa.py_buffer(data)])
    missing = cells.sizes < 0
    wanted = pa.array(np.arange(0, 2 * count, 2), pa.int64(), mask=missing if missing.any() else None)
    return pieces.take(wanted)


def _ingested(part: RecordColumns, cells: Cells) -> NDArray[np.int64]:
    """The times that cells say in decimal digits; the record's own where one says none."""
    times = part.timestamps.copy()
    for size in np.unique(cells.sizes).tolist():
        if 0 < size <= _TIME_DIGITS_MAX:
            rows = slice(None) if (cells.sizes == size).all() else np.flatnonzero(cells.sizes == size)
            said, sound = decimals(part.data, cells.starts[rows], size)
            times[rows] = np.where(sound, said, times[rows])
    return times
