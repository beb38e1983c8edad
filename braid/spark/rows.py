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

from braid.client.records.arrow import as_text, binary_of
from braid.client.records.braid_headers import (
    ID_HEADER,
    INGESTED_HEADER,
    REPLAY_GROUP_HEADER,
    ingestion_times,
    of_other_groups,
)
from braid.client.records.where import Where, chosen_by, headers_asked, salt_of
from braid.kernel.ports import KafkaRecord
from braid.kernel.progress.ranges import Ranges
from braid.kernel.record_columns import RecordColumns, columns_of
from braid.spark.plan import LogRange

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


def column_headers(where: Where | None) -> tuple[str, ...]:
    """The headers that `RowBuilder.build_columns` needs: those of every consumer, the predicate's, the record's id."""
    return tuple(dict.fromkeys((*headers_asked(where), ID_HEADER)))


class Marks(NamedTuple):
    """The values of records' `braid-` headers, one entry for each record.

    Attributes:
        times: Ingestion times, ms since the epoch; Kafka's own timestamp where there is no `braid-ts`.
        ids: `braid-id`, None where another tool produced the record.
        others: Indices of records that are a replay for another group.
    """

    times: list[int]
    ids: list[bytes | None]
    others: list[int]


def marks(raws: Sequence[KafkaRecord], group: str) -> Marks:
    """Reads the `braid-` headers of records; only replays for `group` count (empty: all do)."""
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

    def __init__(self, log: LogRange, *, group: str, include_headers: bool, where: Where | None = None) -> None:
        """`group` is the streaming read's, whose own replays alone become rows; empty for a batch read.

        A record that `where` does not choose becomes no row, but counts as read.
        """
        self._group = group
        self._include_headers = include_headers
        self._where = where
        self._salt = salt_of(log.lease)
        self._ids_at = column_headers(where).index(ID_HEADER)
        self._skip = Ranges.of_edges(log.skip)
        channel = log.lease.channel
        self._same = (channel.stream, channel.lane, log.cluster, log.topic, log.lease.partition)
        self._constants: list[pa.Array] = []

    def build(self, raws: Sequence[KafkaRecord]) -> pa.RecordBatch:
        """Builds the rows of records in order, without those that are done, another group's, or not chosen."""
        if self._skip:
            raws = [raw for raw in raws if raw.offset not in self._skip]
        if self._where is not None:
            part = columns_of(raws, column_headers(self._where))
            raws = list(compress(raws, self._chosen(self._where, part)))
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
        """Builds rows like `build`, without headers, from columns with `column_headers`."""
        return self.build_wanted([self.wanted(part) for part in parts])

    def build_wanted(self, parts: Sequence[RecordColumns]) -> pa.RecordBatch:
        """Builds rows of all records of such columns."""
        schema = arrow_schema()
        if not parts:
            return pa.RecordBatch.from_pylist([], schema=schema)
        times = [ingestion_times(part, part.headers[0]) for part in parts]
        columns = [
            *self._repeated(sum(map(len, parts))),
            pa.array(_joined([part.offsets for part in parts]), pa.int64()),
            _timestamps(_joined([part.timestamps for part in parts]), schema.field("timestamp").type),
            pa.array(_joined([part.timestamp_types for part in parts]).astype(np.int32)),
            _timestamps(_joined(times), schema.field("ingested_at").type),
            as_text(binary_of([(part.data, part.headers[self._ids_at]) for part in parts])),
            binary_of([(part.data, part.keys) for part in parts]),
            binary_of([(part.data, part.values) for part in parts]),
            pa.nulls(sum(map(len, parts)), schema.field("headers").type),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    def wanted(self, part: RecordColumns) -> RecordColumns:
        """Returns the records that become rows: not done, not another group's, and chosen."""
        if self._skip:
            done = np.zeros(len(part), np.bool_)
            for start, end in self._skip:
                done[slice(*part.offsets.searchsorted((start, end)))] = True
            part = part.of(~done) if done.any() else part
        others = of_other_groups(part, part.headers[1], self._group) if self._group else None
        part = part if others is None else part.of(~others)
        return part if self._where is None else part.of(self._chosen(self._where, part))

    def _chosen(self, where: Where, part: RecordColumns) -> NDArray[np.bool_]:
        return chosen_by(where, part, ingestion_times(part, part.headers[0]), self._same[1], self._salt)

    def _repeated(self, count: int) -> list[pa.Array]:
        """Returns columns whose value is the same in every row, cut from longer ones made before."""
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
    """Converts milliseconds since the epoch to Spark's microseconds; negative ones (no time) become null."""
    micros = numbers * _US_PER_MS
    if len(numbers) and numbers.min() < 0:
        return pa.array(micros, pa.int64(), mask=numbers < 0).cast(kind)
    return pa.Array.from_buffers(kind, len(micros), [None, pa.py_buffer(micros)])


def _texts(texts: Sequence[bytes | None]) -> pa.Array:
    """Decodes ASCII as strings; bytes that are not valid text are replaced."""
    return as_text(pa.array(texts, pa.binary()))


def _joined(arrays: Sequence[NDArray[_Number]]) -> NDArray[_Number]:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
