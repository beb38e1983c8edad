"""Many records of one partition at once, as columns."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import cached_property, lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from braid.client.records.arrow import HEADERS, binary_of, header_maps
from braid.client.records.delivery import Delivery
from braid.client.records.handled import ThreadRecord
from braid.client.records.record import HeldLease, Record
from braid.client.records.slices import Slice
from braid.kernel.errors import Invalid, checked_wait
from braid.kernel.limits.client import REPEATED_COLUMNS_KEPT_MAX
from braid.kernel.record_columns import RecordColumns

SCHEMA: Final = pa.schema(
    [
        ("stream", pa.string()),
        ("lane", pa.string()),
        ("cluster", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("ms", "UTC")),
        ("timestamp_type", pa.int8()),
        ("ingested_at", pa.timestamp("ms", "UTC")),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", HEADERS),
    ]
)


class Batch:
    """Records of one partition as columns, settled row by row: `ack` all or by mask, `retry` the rest."""

    def __init__(self, slice_: Slice[Any]) -> None:
        self._work: Delivery = slice_.work
        self.raw = slice_  # the fetched records
        self._open = np.ones(len(slice_), np.bool_)

    def __len__(self) -> int:
        return len(self._open)

    @cached_property
    def records(self) -> pa.RecordBatch:
        """The rows as a `pyarrow.RecordBatch` of schema `SCHEMA`, built when first asked for."""
        lease, columns = self._work.lease, self.raw.columns
        channel, place = lease.id.channel, lease.topic_partition
        same = _repeated(channel.stream, channel.lane, lease.cluster.name, place.topic, place.partition, len(self))
        own = self._of_rows() if columns is None or columns.raws else _of_columns(columns, self.raw.times)
        return pa.RecordBatch.from_arrays([*same, *own], schema=SCHEMA)

    @property
    def work(self) -> Delivery:
        """The work on the batch's lease."""
        return self._work

    @property
    def lease(self) -> HeldLease:
        """The batch's lease, for handlers that take long."""
        return HeldLease(self._work)

    @property
    def epoch(self) -> int:
        """The lease epoch under which the rows were handed out: a fencing token for sinks."""
        return self._work.lease.epoch

    def ack(self, mask: Sequence[bool] | pa.Array | None = None) -> None:
        """Acknowledges rows: all, or those in the mask (a list, NumPy array or Arrow array of booleans).

        Raises:
            Invalid: the mask has another length than the batch, or more than one dimension.
        """
        chosen = self._choose(mask)
        if not chosen.any():
            return
        self._work.done_many(self._offsets, chosen, int(self.raw.sizes[chosen].sum()))

    def retry(self, after_seconds: float = 0.0) -> None:
        """Brings every row that was not acknowledged back after a while; counts as an attempt.

        Raises:
            Invalid: no record can wait so long; no row is settled then.
        """
        seconds = checked_wait(after_seconds)
        for record in self.unsettled():
            record.retry(seconds)

    def unsettled(self) -> list[Record]:
        """Returns the unsettled rows as records, to be settled one by one and no longer by this batch."""
        return [Record(self.raw.rows[at], self._work) for at in np.flatnonzero(self._choose(None)).tolist()]

    def abandon(self) -> None:
        """Gives the unsettled rows back because the handler was ended: another handler gets them, here or elsewhere."""
        for record in self.unsettled():
            record.abandon()

    @cached_property
    def _offsets(self) -> NDArray[np.int64]:
        columns = self.raw.columns
        return np.array([row.offset for row in self.raw.rows], np.int64) if columns is None else columns.offsets

    def _choose(self, mask: Sequence[bool] | pa.Array | None) -> NDArray[np.bool_]:
        """Marks the unsettled rows in the mask as settled, and returns which they are."""
        chosen = self._open if mask is None else self._open & self._named(mask)
        self._open = self._open & ~chosen
        return chosen

    def _named(self, mask: Sequence[bool] | pa.Array) -> NDArray[np.bool_]:
        """Copies the mask as it is now, so that later changes have no effect; null counts as false."""
        given: object = mask.to_numpy(zero_copy_only=False) if isinstance(mask, pa.Array) else mask
        named = np.array(given, np.bool_)
        if named.shape != (len(self),):
            raise Invalid(f"a mask of shape {named.shape} for a batch of {len(self)} rows", field="mask")
        return named

    def _of_rows(self) -> list[pa.Array]:
        rows = self.raw.rows
        return [
            pa.array([row.offset for row in rows], pa.int64()),
            _times(np.array([row.timestamp for row in rows], np.int64)),
            pa.array([row.timestamp_type for row in rows], pa.int8()),
            _times(self.raw.times),
            pa.array([row.key for row in rows], pa.binary()),
            pa.array([row.value for row in rows], pa.binary()),
            pa.array([row.headers for row in rows], HEADERS),
        ]


class ThreadBatch(Batch):
    """A batch that may be settled in any thread; the loop settles it soon afterwards."""

    def __init__(self, batch: Batch, tell: Callable[[Callable[[], None]], object]) -> None:
        """Wraps `batch`, which is settled itself, so that its consumer knows; `tell` runs a function on its loop."""
        super().__init__(batch.raw)
        self._batch = batch
        self._tell = tell

    def ack(self, mask: Sequence[bool] | pa.Array | None = None) -> None:
        """See `braid.Batch.ack`. What the mask says now counts: it may be written to again at once."""
        named = None if mask is None else self._named(mask)
        self._tell(lambda: self._batch.ack(named))

    def retry(self, after_seconds: float = 0.0) -> None:
        """See `braid.Batch.retry`."""
        seconds = checked_wait(after_seconds)
        self._tell(lambda: self._batch.retry(seconds))

    def unsettled(self) -> list[Record]:
        """See `braid.Batch.unsettled`; waits for the loop."""
        found: Future[list[Record]] = Future()
        self._tell(lambda: found.set_result(self._batch.unsettled()))
        return [ThreadRecord(record, self._tell) for record in found.result()]

    def abandon(self) -> None:
        """See `braid.Batch.abandon`."""
        self._tell(self._batch.abandon)


def _of_columns(columns: RecordColumns, times: NDArray[np.int64]) -> list[pa.Array]:
    return [
        pa.array(columns.offsets),
        _times(columns.timestamps),
        pa.array(columns.timestamp_types),
        _times(times),
        binary_of([(columns.data, columns.keys)]),
        binary_of([(columns.data, columns.values)]),
        header_maps(columns),
    ]


def _times(numbers: NDArray[np.int64]) -> pa.Array:
    """Makes an array of times from milliseconds since the epoch."""
    numbers = np.ascontiguousarray(numbers)
    return pa.Array.from_buffers(SCHEMA.field("timestamp").type, len(numbers), [None, pa.py_buffer(numbers)])


def _repeated(stream: str, lane: str, cluster: str, topic: str, partition: int, count: int) -> list[pa.Array]:
    """Returns columns whose value is the same in every row, cut from longer ones that are kept."""
    length = 1 << max(0, count - 1).bit_length()
    return [column.slice(0, count) for column in _columns_of_same((stream, lane, cluster, topic, partition), length)]


@lru_cache(maxsize=REPEATED_COLUMNS_KEPT_MAX)
def _columns_of_same(same: tuple[str | int, ...], length: int) -> list[pa.Array]:
    return [pa.repeat(pa.scalar(value, SCHEMA.field(at).type), length) for at, value in enumerate(same)]
