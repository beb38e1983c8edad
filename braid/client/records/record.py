"""A record as handlers see it; `batch` has many at once."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from braid.client.records.braid_headers import ID_HEADER
from braid.client.records.delivery import Delivery
from braid.kernel.error_texts import text_of
from braid.kernel.errors import checked_wait
from braid.kernel.limits.client import RECORD_OVERHEAD_BYTES
from braid.kernel.ports import DamagedBatch
from braid.kernel.progress.tracker import Progress
from braid.kernel.record_columns import RecordColumns, headers_in, pieces_in


class QuarantinedBatch(NamedTuple):
    """A batch that cannot be decoded, in place of its records: it is dead-lettered as one record.

    Its offset is that of the first record that is missing; `batch` tells where it ends and why.
    """

    batch: DamagedBatch
    key: bytes | None = None
    timestamp_type: int = 0
    headers: Sequence[tuple[str, bytes]] = ()

    @property
    def value(self) -> bytes:
        """The beginning of the batch as it lies in the log, as much as the consumer's `quarantine_bytes` says."""
        return self.batch.raw

    @property
    def size(self) -> int:
        """Bytes that it counts against the memory bound."""
        return RECORD_OVERHEAD_BYTES + len(self.batch.raw)

    @property
    def offset(self) -> int:
        """The first offset that is missing."""
        return self.batch.first_offset

    @property
    def timestamp(self) -> int:
        """The batch's newest time by its own account."""
        return self.batch.timestamp_ms

    @property
    def ingested_at(self) -> int:
        """The same time: nothing better is known."""
        return self.batch.timestamp_ms


def missing(damaged: Sequence[DamagedBatch], progress: Progress) -> list[QuarantinedBatch]:
    """Returns the batches that still miss an offset, from that offset on: an earlier holder may have done some."""
    firsts = [progress.first_wanted(each.first_offset, each.last_offset + 1) for each in damaged]
    found = zip(damaged, firsts, strict=True)
    return [QuarantinedBatch(each._replace(first_offset=first)) for each, first in found if first is not None]


class Row(NamedTuple):
    """A record on its way to a handler, with its own copy of its bytes; it keeps no other fetched bytes alive.

    Attributes:
        told: Its headers, or the bytes they are read from when somebody asks for them.
        ingested_at: When it was sent, ms since the epoch.
        size: What it weighs against the memory bound, bytes.
    """

    offset: int
    timestamp: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    told: bytes | Sequence[tuple[str, bytes]]
    ingested_at: int
    size: int

    @property
    def headers(self) -> Sequence[tuple[str, bytes]]:
        """Headers in order, repeated names included."""
        return headers_in(self.told) if isinstance(self.told, bytes) else self.told


_make_row: Final = partial(tuple.__new__, Row)  # `Row._make` takes three times as long


def rows_of(columns: RecordColumns, times: NDArray[np.int64], sizes: NDArray[np.int64]) -> Iterator[Row]:
    """Yields rows of columns, each made on demand; `times` are ingestion times (ms), `sizes` weights in bytes."""
    if columns.tails is None:
        keys, values = [raw.key for raw in columns.raws], [raw.value for raw in columns.raws]
        tolds: Sequence[object] = [raw.headers for raw in columns.raws]
    else:
        keys, values, tolds = (
            pieces_in(columns.data, cells) for cells in (columns.keys, columns.values, columns.tails)
        )
    numbers = (columns.offsets, columns.timestamps, columns.timestamp_types)
    pieces = zip(*(each.tolist() for each in numbers), keys, values, tolds, times.tolist(), sizes.tolist(), strict=True)
    return map(_make_row, pieces)


Raw = Row | QuarantinedBatch


class HeldLease:
    """The lease of a record or batch, as its handler sees it while it works; may be read in any thread.

    Attributes are as of now, not as of when it was handed out.
    """

    __slots__ = ("_work",)

    def __init__(self, work: Delivery) -> None:
        self._work = work

    @property
    def name(self) -> str:
        """`<stream>/<lane>/<generation>/<partition>`."""
        return str(self._work.lease.id)

    @property
    def epoch(self) -> int:
        """The lease's epoch: a fencing token for sinks."""
        return self._work.lease.epoch

    @property
    def asked_back(self) -> bool:
        """Whether another member is to get the lease: finish soon what was handed out; it still counts."""
        return self._work.draining or self._work.ended

    @property
    def lost(self) -> bool:
        """Whether the lease is lost: what is done from now on does not count, and is done again elsewhere."""
        return self._work.ended

    async def until_lost(self) -> None:
        """Waits until the lease is lost."""
        await self._work.gone.wait()


class Record:
    """One record, to be settled exactly once: `ack`, `retry`, `reject` or `dead_letter`, in any order among records.

    Attributes are read from the fetched record when asked for, so that records nobody looks into cost little.
    """

    __slots__ = ("_settled", "raw", "work")

    def __init__(self, raw: Raw, work: Delivery) -> None:
        """`raw` is the record as it was fetched."""
        self.raw = raw
        self.work = work
        self._settled = False

    @property
    def ingested_at(self) -> int:
        """When it was sent, milliseconds since the epoch."""
        return self.raw.ingested_at

    @property
    def size(self) -> int:
        """Bytes that it counts against the memory bound."""
        return self.raw.size

    @property
    def value(self) -> bytes | None:
        """The value; None for a tombstone."""
        return self.raw.value

    @property
    def key(self) -> bytes | None:
        """The key."""
        return self.raw.key

    @property
    def offset(self) -> int:
        """Offset in its partition."""
        return self.raw.offset

    @property
    def timestamp(self) -> int:
        """Kafka's timestamp, milliseconds since the epoch."""
        return self.raw.timestamp

    @property
    def headers(self) -> Mapping[str, bytes]:
        """Headers by name, the last of each name; all of them are in `raw_headers`."""
        return dict(self.raw.headers)

    @property
    def raw_headers(self) -> Sequence[tuple[str, bytes]]:
        """Headers in order, repeated names included."""
        return self.raw.headers

    @property
    def id(self) -> str:
        """Its `braid-id`, or its coordinates when another tool produced it."""
        for name, value in self.raw.headers:
            if name == ID_HEADER and value is not None:
                return value.decode("ascii", "replace")
        return f"{self.cluster}/{self.topic}/{self.partition}/{self.offset}"

    @property
    def stream(self) -> str:
        """The record's stream."""
        return self.work.lease.id.channel.stream

    @property
    def lane(self) -> str:
        """The record's lane."""
        return self.work.lease.id.channel.lane

    @property
    def cluster(self) -> str:
        """The record's cluster."""
        return self.work.lease.cluster.name

    @property
    def topic(self) -> str:
        """The record's topic."""
        return self.work.lease.topic_partition.topic

    @property
    def partition(self) -> int:
        """The record's partition."""
        return self.work.lease.topic_partition.partition

    @property
    def lease(self) -> HeldLease:
        """The record's lease, for handlers that take long."""
        return HeldLease(self.work)

    @property
    def epoch(self) -> int:
        """The lease epoch under which the record was handed out: a fencing token for sinks."""
        return self.work.lease.epoch

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1, over restarts and hand-overs.

        Failures that are not its fault do not count.
        """
        return self.work.attempts(self.offset) + 1

    @property
    def settled(self) -> bool:
        """Whether its fate was decided."""
        return self._settled

    def ack(self) -> None:
        """Acknowledges the record: once committed, the group does not get it again."""
        if not self._settled:
            self._settled = True
            self.work.done(self)

    def retry(self, after_seconds: float = 0.0) -> None:
        """Brings the record back after a while; the partition continues. Counts as an attempt.

        Raises:
            Invalid: no number of seconds from 0 to `RETRY_AFTER_SECONDS_MAX`; the record is not settled.
        """
        seconds = checked_wait(after_seconds)
        if not self._settled:
            self._settled = True
            self.work.retry(self, seconds)

    def postpone(self, after_seconds: float) -> None:
        """Retries like `retry`, but counts no attempt: the failure is not the record's fault."""
        seconds = checked_wait(after_seconds)
        if not self._settled:
            self._settled = True
            self.work.postpone(self, seconds)

    def reject(self, reason: str) -> None:
        """Skips the record in place, without a copy: it is not for this group. The commit envelope states it."""
        text = text_of(reason)
        if not self._settled:
            self._settled = True
            self.work.reject(self, text)

    def dead_letter(self, error: BaseException | str) -> None:
        """Gives the record up: it is copied to the stream's `dlq` lane, and done once that copy is acknowledged."""
        why = error if isinstance(error, BaseException) else text_of(error)
        if not self._settled:
            self._settled = True
            self.work.dead_letter(self, why)

    def abandon(self) -> None:
        """Gives the record back because its handler was ended: another gets it, here or at the next holder."""
        if not self._settled:
            self._settled = True
            self.work.abandon(self)

    def __repr__(self) -> str:
        return f"Record({self.id}, {self.work.lease.id}@{self.offset})"
