"""The producer's access to the records that aiokafka's accumulator holds in batches, until they are sent.

No public call adds a record without a future, takes one back, or forgets those of one topic.
"""

import asyncio
import math
from collections.abc import Callable, Sequence
from copy import copy
from functools import partial
from typing import Any, Final, NamedTuple

from aiokafka import AIOKafkaProducer
from aiokafka.errors import ProducerClosed
from aiokafka.producer.message_accumulator import BatchBuilder, MessageBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.structs import RecordMetadata
from aiokafka.structs import TopicPartition as AioTopicPartition

from braid.kernel.errors import BraidError, Withdrawn
from braid.kernel.limits.kafka import KAFKA_REQUEST_MS
from braid.kernel.ports import SendableT, TopicPartition, Written

Taken = tuple[Any, Callable[[Any, Any], None]]  # a record and whom to tell of its fate


class BatchIdentity(NamedTuple):
    """A batch's identity for brokers: Kafka's own id of its producer, and the sequence of its first record."""

    producer: int
    sequence: int


NO_IDENTITY: Final = BatchIdentity(-1, -1)


class KnownBatch(MessageBatch):
    """A batch that notes its identity when it gets its place in the producer's sequence.

    It refers to nothing that refers to it: its records are freed with it, and wait for no garbage collection.
    """

    taken: list[Taken]
    identity = NO_IDENTITY

    def set_producer_state(self, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
        """Called by aiokafka before the batch is sent for the first time."""
        self.identity = BatchIdentity(producer_id, base_sequence)
        super().set_producer_state(producer_id, producer_epoch, base_sequence)


def prepare(producer: AIOKafkaProducer, on_ended: Callable[[KnownBatch, asyncio.Future[RecordMetadata]], None]) -> None:
    """Adapts the accumulator of a producer that is not started. `on_ended` hears of each batch once."""
    accumulator = producer._message_accumulator
    # Without a leader a batch of an idempotent producer must wait, not fail: failing leaves a gap in its sequence.
    accumulator._batch_ttl = math.inf
    append_batch = accumulator._append_batch

    def append_watched(builder: BatchBuilder, partition: AioTopicPartition) -> MessageBatch:
        batch = append_batch(builder, partition)
        batch.__class__ = KnownBatch
        batch.taken = []
        batch.future.add_done_callback(partial(on_ended, batch))
        return batch

    accumulator._append_batch = append_watched


def offer(
    producer: AIOKafkaProducer,
    partition: TopicPartition,
    record: SendableT,
    settle: Callable[[SendableT, Written | BraidError], None],
) -> bool:
    """Puts a record into its partition's newest batch; False when the batch is full, or the producer is closed.

    aiokafka's own `send` makes a future for each record, and refuses one that has neither key nor value.
    """
    accumulator = producer._message_accumulator
    if accumulator._closed or accumulator._exception is not None:
        return False
    queued = accumulator._batches.get(partition)
    if queued:
        batch = queued[-1]
    else:
        batch = accumulator._append_batch(accumulator.create_builder(), AioTopicPartition(*partition))
    builder, headers = batch._builder, _listed(record.headers)
    if builder.append(timestamp=record.stamp_ms, key=record.key, value=record.value, headers=headers) is None:
        return False
    batch.taken.append((record, settle))
    return True


def withdraw(producer: AIOKafkaProducer, partition: TopicPartition) -> Sequence[Taken]:
    """Takes the records without a key out of a partition's newest batch, unless the batch was in a request.

    Before that the batch has no place in the producer's sequence, and cannot have been written. The other records are
    batched anew, in order.
    """
    accumulator = producer._message_accumulator
    queued = accumulator._batches.get(partition)
    if accumulator._closed or accumulator._exception is not None or not queued or queued[-1].retry_count:
        return ()
    taken: list[Taken] = queued[-1].taken
    found = [each for each in taken if each[0].key is None]
    if not found:
        return ()
    _discard(producer, partition)
    for record, settle in taken:
        if record.key is not None and not offer(producer, partition, record, settle):
            # Other times to count from may take more room than there was.
            accumulator._append_batch(accumulator.create_builder(), AioTopicPartition(*partition))
            offer(producer, partition, record, settle)
    return found


def _discard(producer: AIOKafkaProducer, partition: TopicPartition) -> None:
    """Forgets a partition's newest batch, as if it had never existed; senders that wait for its room try again."""
    queues = producer._message_accumulator._batches
    batch = queues[partition].pop()
    if not queues[partition]:
        del queues[partition]  # the sender takes up the first batch of each that is there
    batch.taken = []
    if not batch._drain_waiter.done():
        batch._drain_waiter.set_result(None)
    batch.failure(Withdrawn("the batch was taken apart before it was sent"))


async def room(producer: AIOKafkaProducer, partition: TopicPartition) -> None:
    """Waits for a while until the newest batch of a partition is on its way.

    Raises:
        KafkaError: the producer is closed.
        BraidError: the batch was failed.
    """
    accumulator = producer._message_accumulator
    if accumulator._closed:
        raise ProducerClosed()
    if accumulator._exception is not None:
        raise copy(accumulator._exception)
    queued = accumulator._batches.get(partition)
    if queued:
        if not accumulator._waiter_future.done():
            accumulator._waiter_future.set_result(None)  # the sender need not linger
        await queued[-1].wait_drain(KAFKA_REQUEST_MS / 1_000)


def record_size(key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes]]) -> int:
    """Upper estimate of a record's bytes in a batch of its own, before compression."""
    return int(DefaultRecordBatchBuilder.estimate_size_in_bytes(key, value, _listed(headers)))


def _listed(headers: Sequence[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
    """Makes a list, because compiled code takes nothing else."""
    return headers if isinstance(headers, list) else list(headers)


def fail_topic(producer: AIOKafkaProducer, topic: str, error: BraidError) -> None:
    """Fails the records that wait to be sent to a topic."""
    accumulator = producer._message_accumulator
    for partition in [partition for partition in accumulator._batches if partition.topic == topic]:
        for batch in accumulator._batches.pop(partition):
            # Tried before and queued again, it is not counted as pending, which its end relies on.
            if batch.retry_count:
                accumulator._pending_batches.add(batch)
            batch.failure(error)
            _forgive(batch)


def fail_all(producer: AIOKafkaProducer, error: BraidError) -> None:
    """Fails everything pending and drops what is not on the wire yet."""
    accumulator = producer._message_accumulator
    # A request under way fails with its connection and would queue its batches, which are forgotten, again.
    accumulator.reenqueue = lambda batch: None
    batches = [*accumulator._pending_batches, *(batch for queue in accumulator._batches.values() for batch in queue)]
    accumulator._pending_batches.update(batch for batch in batches if batch.retry_count)
    accumulator.fail_all(error)
    accumulator._batches.clear()  # or the sender, which still runs, takes up a batch that has ended, and dies of it
    for batch in batches:
        _forgive(batch)


def _forgive(batch: MessageBatch) -> None:
    """Ignores the error of a failed batch, because no task may wait for it to leave the buffer."""
    if batch._drain_waiter.done():
        batch._drain_waiter.exception()
