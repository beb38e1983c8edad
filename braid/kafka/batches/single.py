"""One batch by itself: a batch of one record, built; and the head of a batch, read."""

from typing import Any

from aiokafka.record.default_records import DefaultRecordBatchBuilder

from braid.kafka.batches.batch import HEAD, MAGIC
from braid.kernel.ports import BatchHead


def batch_of_one(value: bytes, timestamp_ms: int) -> bytes:
    """Builds a batch of one record, uncompressed, of no producer."""
    builder: Any = DefaultRecordBatchBuilder(
        MAGIC, 0, is_transactional=0, producer_id=-1, producer_epoch=-1, base_sequence=-1, batch_size=len(value) + 1024
    )
    builder.append(0, timestamp_ms, None, value, [])
    return bytes(builder.build())


def head_of(data: bytes, offset: int) -> BatchHead | None:
    """Returns the head of a batch, unless the batch does not hold an offset."""
    if len(data) < HEAD.size:
        return None
    base, _, epoch, magic, _, _, last_delta, _, _, producer, _, sequence, _ = HEAD.unpack_from(data)
    if magic != MAGIC or not base <= offset <= base + last_delta:
        return None
    return BatchHead(base, base + last_delta, epoch, producer, sequence)
