"""How the producer begins and ends, and which sequence numbers its sender gives to batches.

No public call forgets pending records, or keeps an idempotent producer's sequence right after a refused batch.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.conn import AIOKafkaConnection
from aiokafka.errors import BrokerResponseError
from aiokafka.producer.message_accumulator import MessageBatch
from aiokafka.structs import RecordMetadata
from aiokafka.structs import TopicPartition as AioTopicPartition

from braid.kafka.producing.internals import accumulator, metadata
from braid.kafka.producing.internals.accumulator import BatchIdentity, KnownBatch, Taken
from braid.kafka.producing.internals.metadata import CredentialsWithheld
from braid.kafka.protocol.wire import hang_up
from braid.kafka.security import Security
from braid.kernel.errors import BraidError
from braid.kernel.resumptions import SEQUENCES


def prepare(
    producer: AIOKafkaProducer,
    on_topics_missing: Callable[[Sequence[str]], None],
    on_ended: Callable[[AioTopicPartition, asyncio.Future[RecordMetadata], Sequence[Taken], bool, BatchIdentity], None],
    on_silence: Callable[[], None] | None = None,
    security: Security | None = None,
) -> None:
    """Adapts a producer that is not started.

    `on_silence` hears when no broker answers a question about metadata. `on_ended` is told of each batch once, with
    what `offer` put in it, whether it was sent more than once, and as what brokers know it. `security` bounds the
    addresses that it connects to.
    """

    def ended(batch: KnownBatch, done: asyncio.Future[RecordMetadata]) -> None:
        _take_back_sequence(producer, batch, done)
        on_ended(batch.tp, done, batch.taken, batch.retry_count > 1, batch.identity)

    metadata.prepare(producer, on_topics_missing, on_silence, security)
    accumulator.prepare(producer, ended)
    producer._txn_manager.increment_sequence_number = lambda partition, by: _advance(producer, partition, by)


def fail_topic(producer: AIOKafkaProducer, topic: str, error: BraidError) -> None:
    """Fails the records that wait to be sent to a topic, and stops following the topic."""
    accumulator.fail_topic(producer, topic, error)
    metadata.forget(producer, topic)


def abandon(producer: AIOKafkaProducer, error: BraidError) -> None:
    """Fails everything pending and drops what is not on the wire yet. `stop` then has nothing to wait for."""
    accumulator.fail_all(producer, error)
    producer.client._conns = _HungUp(producer.client._conns)


def end(producer: AIOKafkaProducer) -> None:
    """Ends the parts that aiokafka's `stop` ends, for an abandoned producer whose `stop` was given up."""
    if producer.client._sync_task is not None:
        producer.client._sync_task.cancel()


class _HungUp(dict[Any, AIOKafkaConnection]):
    """Closes the connections of a client that ends, also those that a request under way opens later."""

    def __init__(self, connections: Mapping[Any, AIOKafkaConnection]) -> None:
        super().__init__(connections)
        for connection in connections.values():
            hang_up(connection)

    def __setitem__(self, broker: Any, connection: AIOKafkaConnection) -> None:
        super().__setitem__(broker, connection)
        hang_up(connection)


def _take_back_sequence(producer: AIOKafkaProducer, batch: MessageBatch, done: asyncio.Future[Any]) -> None:
    """Gives the sequence of a batch refused at its only attempt to the next batch, because it was not written.

    After a second attempt the first may have been written, and its numbers must never be used again.
    """
    error = None if done.cancelled() else done.exception()
    if isinstance(error, BrokerResponseError | CredentialsWithheld) and not error.retriable and batch.retry_count == 1:
        _advance(producer, batch.tp, -batch.record_count)


def _advance(producer: AIOKafkaProducer, partition: AioTopicPartition, by: int) -> None:
    """Advances a sequence as brokers count; aiokafka's own becomes negative after 2³¹ records."""
    numbers = producer._txn_manager._sequence_numbers
    numbers[partition] = (numbers[partition] + by) % SEQUENCES
