"""Fetched bytes of one partition, decoded as far as the caller asks and no further. Batches may be hostile."""

import struct
from collections.abc import Iterable, Iterator, Sequence
from itertools import dropwhile, islice
from typing import Any, Final

import cramjam
from aiokafka.errors import KafkaError
from aiokafka.record.control_record import ABORT_MARKER, ControlRecord
from aiokafka.record.memory_records import MemoryRecords

from braid.kernel.errors import ClusterUnavailable
from braid.kernel.ports import Isolation, KafkaRecord, TopicPartition

# What aiokafka's record reader and the decompressors raise for bytes that are not what they say.
_DAMAGE: Final = (
    KafkaError,
    ValueError,
    struct.error,
    IndexError,
    EOFError,
    OSError,
    AssertionError,
    cramjam.DecompressionError,
)


def _from(batch: Iterable[KafkaRecord], offset: int) -> Iterator[KafkaRecord]:
    return dropwhile(lambda record: record.offset < offset, batch)


class Chunk:
    """The records of one fetch answer from an offset on, and how far they were handed out."""

    def __init__(
        self,
        partition: TopicPartition,
        offset: int,
        data: bytes,
        aborted: Sequence[tuple[int, int]],
        isolation: Isolation,
    ) -> None:
        """Holds undecoded bytes.

        Args:
            partition: Whose they are, for errors.
            offset: What was asked for; the first batch may begin before it.
            data: Record batches.
            aborted: Producer id and first offset of the transactions aborted in here, as the broker told.
            isolation: Whether aborted records are left out.
        """
        self.next_offset = offset
        self._partition = partition
        self._records = MemoryRecords(data)
        self._committed_only = isolation is Isolation.READ_COMMITTED
        self._aborted = sorted(aborted, key=lambda transaction: transaction[1])
        self._aborting: set[int] = set()
        self._batch: Any = None
        self._iterator: Iterator[KafkaRecord] = iter(())

    def take(self, limit: int) -> list[KafkaRecord]:
        """Decodes up to `limit` further records and moves `next_offset` past them, and past what holds none.

        Fewer than `limit` means the chunk is used up.

        Raises:
            ClusterUnavailable: a batch is damaged; `next_offset` stays before it, and `metadata` names the place.
        """
        taken: list[KafkaRecord] = []
        try:
            while len(taken) < limit and (self._batch is not None or self._open_next()):
                taken += self._take_from_batch(limit - len(taken))
        except _DAMAGE as error:
            self._batch = None
            if not taken:
                raise self._damaged(error) from error
        return taken

    def _take_from_batch(self, limit: int) -> list[KafkaRecord]:
        records = list(islice(self._iterator, limit))
        if len(records) < limit:
            self.next_offset = max(self.next_offset, self._batch.next_offset)
            self._batch = None
        else:
            self.next_offset = records[-1].offset + 1
        return records

    def _open_next(self) -> bool:
        """Makes the next batch with deliverable records current; passes those without."""
        while self._records.has_next():
            batch = self._records.next_batch()
            if not batch.validate_crc():
                raise ValueError(f"the checksum of the batch at {batch.base_offset} does not match")
            if not self._deliverable(batch):
                self.next_offset = max(self.next_offset, batch.next_offset)
                continue
            self._batch, self._iterator = batch, _from(batch, self.next_offset)
            return True
        return False

    def _deliverable(self, batch: Any) -> bool:
        if self._committed_only and batch.producer_id is not None:
            while self._aborted and self._aborted[0][1] <= batch.base_offset:
                self._aborting.add(self._aborted.pop(0)[0])
            if batch.is_control_batch:
                if ControlRecord.parse(next(batch).key) == ABORT_MARKER:
                    self._aborting.discard(batch.producer_id)
            elif batch.is_transactional and batch.producer_id in self._aborting:
                return False
        return not batch.is_control_batch

    def _damaged(self, error: BaseException) -> ClusterUnavailable:
        topic, number = self._partition
        return ClusterUnavailable(
            f"{topic} partition {number} holds a damaged batch at or after offset {self.next_offset}: {error}",
            metadata={"topic": topic, "partition": str(number), "offset": str(self.next_offset)},
        )
