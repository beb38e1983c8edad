"""Reports the outcome of each batch that a producer sent to the senders of its records."""

import asyncio
from collections.abc import Callable, Sequence

from aiokafka.conn import AIOKafkaConnection
from aiokafka.errors import MessageSizeTooLargeError, RecordListTooLargeError
from aiokafka.structs import RecordMetadata
from aiokafka.structs import TopicPartition as AioTopicPartition

from braid.kafka.admin import MAX_MESSAGE_BYTES, AioAdmin
from braid.kafka.errors import access_error
from braid.kafka.permissions import Need
from braid.kafka.producing.internals.accumulator import BatchIdentity, Taken, record_size
from braid.kernel.errors import BatchTooLarge, BraidError, ClusterUnavailable, RecordTooLarge, TopicSealed
from braid.kernel.ports import Written
from braid.kernel.resumptions import SEQUENCES


class BatchOutcomes:
    """Settles the records of one producer's batches."""

    def __init__(
        self,
        admin: AioAdmin,
        connection_to: Callable[[AioTopicPartition], AIOKafkaConnection | None],
        is_ended: Callable[[], bool],
    ) -> None:
        """Begins before any batch was sent.

        Args:
            admin: Is asked why a topic refuses a batch.
            connection_to: The producer's connection to a partition's leader.
            is_ended: Whether the producer was closed: nobody is asked any more.
        """
        self._admin = admin
        self._connection_to = connection_to
        self._is_ended = is_ended
        self._connections: dict[AioTopicPartition, tuple[AIOKafkaConnection | None, int]] = {}
        self._refusals: dict[str, asyncio.Task[int | BraidError]] = {}

    def settle(
        self,
        partition: AioTopicPartition,
        done: asyncio.Future[RecordMetadata],
        taken: Sequence[Taken],
        again: bool,
        identity: BatchIdentity,
    ) -> None:
        """Settles the records of a batch: tells each sender its record's outcome."""
        error = ClusterUnavailable("the producer is closed") if done.cancelled() else done.exception()
        if error is None:
            told = done.result()
            stamped = told.timestamp_type != 0  # by the broker
            topic, number = partition.topic, partition.partition
            connection, (producer, first) = self._came_over(partition), identity
            for at, (record, settle) in enumerate(taken):
                stamp_ms = told.timestamp if stamped else record.stamp_ms
                offset = told.offset + at if told.offset >= 0 else -1
                sequence = (first + at) % SEQUENCES
                settle(record, Written(topic, number, offset, stamp_ms, connection, again, producer, sequence))
        elif isinstance(error, MessageSizeTooLargeError | RecordListTooLargeError):
            self._settle_refused(partition.topic, taken)
        else:
            outcome = error if isinstance(error, BraidError) else _outcome_of(error, partition)
            for record, settle in taken:
                settle(record, outcome)

    async def wait(self, timeout_seconds: float) -> None:
        """Waits until refused records are settled, after the cluster was asked about their topics."""
        if self._refusals:
            await asyncio.wait(self._refusals.values(), timeout=timeout_seconds)

    def close(self) -> None:
        """Settles refused records without asking the cluster, because the producer ends."""
        for asking in self._refusals.values():
            asking.cancel()

    def _came_over(self, partition: AioTopicPartition) -> int:
        """Returns the number of the connection over which a batch was just acknowledged."""
        before = self._connections.get(partition)
        found = self._connection_to(partition)
        if before is not None and (found is None or found is before[0]):
            return before[1]
        self._connections[partition] = (found, before[1] + 1 if before is not None else 0)
        return self._connections[partition][1]

    def _settle_refused(self, topic: str, taken: Sequence[Taken]) -> None:
        """Settles records refused as too large: the topic may be sealed, or the record or its batch too large.

        One question for each topic settles all its records.
        """
        if self._is_ended():
            for record, settle in taken:
                settle(record, ClusterUnavailable("the producer is closed"))
            return
        asking = self._refusals.get(topic)
        if asking is None:
            asking = asyncio.create_task(self._limit_of(topic))
            self._refusals[topic] = asking
            asking.add_done_callback(lambda _: self._refusals.pop(topic, None))
        asking.add_done_callback(lambda done: _settle_by_limit(done, topic, taken))

    async def _limit_of(self, topic: str) -> int | BraidError:
        try:
            return int((await self._admin.topic_config(topic))[MAX_MESSAGE_BYTES])
        except BraidError as error:
            return error


def _settle_by_limit(done: asyncio.Task[int | BraidError], topic: str, taken: Sequence[Taken]) -> None:
    limit = ClusterUnavailable("the producer is closed") if done.cancelled() else done.result()
    sizes = [record_size(record.key, record.value, record.headers) for record, _ in taken]
    for (record, settle), size in zip(taken, sizes, strict=True):
        settle(record, limit if isinstance(limit, BraidError) else _refusal(size, sum(sizes), limit, topic))


def _refusal(size: int, batch_bytes: int, limit: int, topic: str) -> BraidError:
    """Returns why a topic that takes so many bytes took no record of a batch.

    The leader that refused a batch within the limit goes by another one: leaders and the broker that was asked learn
    of a seal, and of its end, one by one.

    Args:
        size: An upper estimate of the record's bytes.
        batch_bytes: Of all of its batch.
        limit: What a broker tells.
        topic: Its name.
    """
    if batch_bytes <= limit or limit == 0:
        return TopicSealed(f"topic {topic} is sealed, or was until just now")
    if size > limit:
        return record_too_large(size, limit)
    return BatchTooLarge(
        f"the batch of the record is larger than topic {topic} takes ({limit} bytes), and was not written",
        remedy=f"let the producer's max_batch_bytes be at most the topic's {MAX_MESSAGE_BYTES}",
    )


def _outcome_of(error: BaseException, partition: AioTopicPartition) -> BraidError:
    denial = access_error(error, f"topic {partition.topic}", Need("Write", partition.topic))
    if denial is not None:
        return denial
    return ClusterUnavailable(f"{partition.topic} partition {partition.partition} took no record: {error!r}")


def record_too_large(size: int, limit: int) -> RecordTooLarge:
    """Returns the error for a record that no batch may hold."""
    return RecordTooLarge(f"the record has {size} bytes, more than the {limit} allowed", field="value")
