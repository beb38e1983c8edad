"""Many records of one partition at once, as columns."""

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from braid.client.ready import Slice
from braid.client.record import Record
from braid.kernel.errors import Invalid
from braid.kernel.ports import KafkaRecord

if TYPE_CHECKING:
    from braid.client.partition_work import PartitionWork

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
        ("headers", pa.map_(pa.string(), pa.binary())),
    ]
)


class Batch:
    """Records of one partition, in offset order, to be settled row by row: `ack` all or by mask, `retry` the rest."""

    def __init__(self, slice_: Slice) -> None:
        self._work: PartitionWork = slice_.work
        self._raws: Sequence[KafkaRecord] = slice_.raws
        self._times: Sequence[int] = slice_.times
        self._sizes: Sequence[int] = slice_.sizes
        self._open = [True] * len(slice_.raws)

    def __len__(self) -> int:
        return len(self._raws)

    @cached_property
    def records(self) -> pa.RecordBatch:
        """The rows as a `pyarrow.RecordBatch` of schema `SCHEMA`; built when first asked for."""
        raws, lease = self._raws, self._work.lease
        channel, place = lease.id.channel, lease.topic_partition
        same = (channel.stream, channel.lane, lease.cluster.name, place.topic, place.partition)
        columns = [pa.repeat(pa.scalar(value, SCHEMA.field(at).type), len(raws)) for at, value in enumerate(same)]
        columns += [
            pa.array([raw.offset for raw in raws], pa.int64()),
            pa.array([raw.timestamp for raw in raws], pa.int64()).cast(SCHEMA.field("timestamp").type),
            pa.array([raw.timestamp_type for raw in raws], pa.int8()),
            pa.array(self._times, pa.int64()).cast(SCHEMA.field("ingested_at").type),
            pa.array([raw.key for raw in raws], pa.binary()),
            pa.array([raw.value for raw in raws], pa.binary()),
            pa.array([raw.headers for raw in raws], SCHEMA.field("headers").type),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)

    @property
    def epoch(self) -> int:
        """The lease epoch they were handed out under: a fencing token for sinks."""
        return self._work.lease.epoch

    def ack(self, mask: Sequence[bool] | pa.Array | None = None) -> None:
        """Rows are done: all, or those the mask says (a list, NumPy array or Arrow array of booleans).

        Raises:
            Invalid: the mask has another length than the batch.
        """
        chosen = self._chosen(mask)
        if not chosen:
            return
        if not self._work.ended:
            offsets = pa.array([self._raws[row].offset for row in chosen], pa.int64())
            self._work.progress.done_many(offsets.to_numpy())
        self._settle(chosen)
        self._work.finished(len(chosen), sum(self._sizes[row] for row in chosen))

    def retry(self, after_seconds: float = 0.0) -> None:
        """Every row that was not acknowledged comes back after a while; counts as an attempt."""
        chosen = self._chosen(None)
        self._settle(chosen)
        for row in chosen:
            Record(self._raws[row], self._work, self._times[row], self._sizes[row]).retry(after_seconds)

    def _settle(self, rows: Sequence[int]) -> None:
        for row in rows:
            self._open[row] = False

    def _chosen(self, mask: Sequence[bool] | pa.Array | None) -> list[int]:
        """Rows that are not settled yet and that the mask names."""
        if mask is None:
            return [row for row, unsettled in enumerate(self._open) if unsettled]
        if len(mask) != len(self._open):
            raise Invalid(f"a mask of {len(mask)} rows for a batch of {len(self._open)}", field="mask")
        named = mask.to_pylist() if isinstance(mask, pa.Array) else mask
        return [
            row for row, (unsettled, wanted) in enumerate(zip(self._open, named, strict=True)) if unsettled and wanted
        ]
