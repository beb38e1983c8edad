"""The producer's twin: while their cluster is away pending records do not fail, and none is ever written twice."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, NamedTuple

from braid.kafka.memory.link import Link
from braid.kafka.memory.log import NewRecord
from braid.kernel.errors import (
    BatchTooLarge,
    BraidError,
    ClusterAccessDenied,
    ClusterUnavailable,
    NotFound,
    RecordTooLarge,
    Withdrawn,
)
from braid.kernel.limits.kafka import (
    KAFKA_BACKOFF_MS,
    KAFKA_DENIED_SECONDS,
    KAFKA_RECORD_OVERHEAD_BYTES,
    KAFKA_REQUEST_MS,
    TOPIC_GONE_SECONDS,
)
from braid.kernel.ports import SendableT, TopicPartition, Written

_BACKOFF_SECONDS = KAFKA_BACKOFF_MS / 1_000
_REQUEST_SECONDS = KAFKA_REQUEST_MS / 1_000


class _Pending(NamedTuple):
    """A pending record, and the function to call with its fate."""

    record: NewRecord
    sent: Any
    settle: Callable[[Any, Written | BraidError], None]


@dataclass(slots=True)
class _Queue:
    """The records that wait for one partition, and the task that writes them; the first `asked` are in a request."""

    pending: deque[_Pending] = field(default_factory=deque)
    asked: int = 0
    size: int = 0
    sequence: int = 0
    writer: asyncio.Task[None] | None = None
    drained: asyncio.Event = field(default_factory=asyncio.Event)


class MemoryProducer:
    """The twin of `KafkaProducer`, over a link."""

    def __init__(self, link: Link, *, linger_ms: int, max_batch_bytes: int) -> None:
        self._link = link
        self._linger_seconds = linger_ms / 1_000
        self._max_batch_bytes = max_batch_bytes
        self._producer_id: int | None = None
        self._ended = False
        self._known: set[TopicPartition] = set()
        self._queues: dict[TopicPartition, _Queue] = {}
        self._denial: ClusterAccessDenied | None = None
        self._entering: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """See `KafkaProducer.start`."""
        while self._producer_id is None:
            try:
                self._producer_id = await self._link.call(self._link.cluster.new_producer, _REQUEST_SECONDS)
            except ClusterAccessDenied as denial:
                self._denial = denial
                self._entering = asyncio.create_task(self._enter(), name="memory-enter")
                return
            except ClusterUnavailable:
                await asyncio.sleep(_BACKOFF_SECONDS)

    async def _enter(self) -> None:
        await asyncio.sleep(KAFKA_DENIED_SECONDS)
        await self.start()

    async def prepare(self, topic: str) -> None:
        """See `KafkaProducer.prepare`."""
        while not self._ended:
            try:
                found = await self._link.call(lambda: self._link.cluster.describe_topics([topic]), _REQUEST_SECONDS)
            except ClusterUnavailable:
                found = {}
            if topic in found:
                self._known.update(TopicPartition(topic, number) for number in range(found[topic].partitions))
                return
            await asyncio.sleep(_BACKOFF_SECONDS)

    async def send(
        self,
        partition: TopicPartition,
        value: bytes | None,
        key: bytes | None,
        headers: Sequence[tuple[str, bytes]],
        timestamp_ms: int,
    ) -> Awaitable[Written]:
        """See `KafkaProducer.send`. Every refusal arrives through the awaitable, none from the call."""
        result: asyncio.Future[Written] = asyncio.get_running_loop().create_future()
        record = NewRecord(timestamp_ms, key, value, tuple(headers))
        try:
            self._check_size(record)
            await self._find(partition)
            queue = self._queues.setdefault(partition, _Queue())
            while not self._fits(queue, record):
                await queue.drained.wait()
                self._check_open()
        except BraidError as error:
            _settle_future(result, error)
            return result
        self._queue(partition, _Pending(record, result, _settle_future))
        return result

    def offer(
        self,
        partition: TopicPartition,
        record: SendableT,
        settle: Callable[[SendableT, Written | BraidError], None],
    ) -> bool:
        """See `KafkaProducer.offer`."""
        new = NewRecord(record.stamp_ms, record.key, record.value, tuple(record.headers))
        self._check_size(new)
        if self._ended or self._producer_id is None or partition not in self._known:
            return False
        if not self._fits(self._queues.setdefault(partition, _Queue()), new):
            return False
        self._queue(partition, _Pending(new, record, settle))
        return True

    def _check_size(self, record: NewRecord) -> None:
        limit = self._max_batch_bytes + KAFKA_RECORD_OVERHEAD_BYTES
        if record.size() > limit:
            raise RecordTooLarge(f"the record has {record.size()} bytes, more than {limit}", field="value")

    def _fits(self, queue: _Queue, record: NewRecord) -> bool:
        return not queue.pending or queue.size + record.size() <= self._max_batch_bytes

    def _queue(self, partition: TopicPartition, pending: _Pending) -> None:
        queue = self._queues[partition]
        queue.pending.append(pending)
        queue.size += pending.record.size()
        if queue.writer is None or queue.writer.done():
            queue.writer = asyncio.create_task(self._write(partition, queue), name="memory-producer")

    def leaderless(self, topic: str) -> Collection[int]:
        """See `KafkaProducer.leaderless`. Metadata is heard at once here, while the cluster answers."""
        if not self._link.answers:
            return ()
        described = self._link.cluster.describe_topics([topic])
        return [number for told in described.values() for number, leader in enumerate(told.leaders) if leader < 0]

    def throttled_seconds(self) -> float:
        """See `KafkaProducer.throttled_seconds`. Nobody is throttled in memory."""
        return -inf

    def withdraw(self, partition: TopicPartition) -> None:
        """See `KafkaProducer.withdraw`."""
        queue = self._queues.get(partition)
        waiting = list(queue.pending)[queue.asked :] if queue is not None else []
        found = [one for one in waiting if one.record.key is None]
        if queue is None or not found:
            return
        asked = list(queue.pending)[: queue.asked]
        queue.pending = deque([*asked, *(one for one in waiting if one.record.key is not None)])
        queue.size -= sum(one.record.size() for one in found)
        queue.drained.set()
        queue.drained = asyncio.Event()
        _fail_all(found, Withdrawn(f"{partition.topic} partition {partition.partition} was never sent the record"))

    def cluster_id(self) -> str:
        """See `KafkaProducer.cluster_id`."""
        return "" if self._producer_id is None else self._link.cluster.cluster_id

    async def abandon(self) -> None:
        """See `KafkaProducer.abandon`."""
        self._ended = True
        if self._entering is not None:
            self._entering.cancel()
        for queue in self._queues.values():
            if queue.writer is not None:
                queue.writer.cancel()
            _fail_all(queue.pending, ClusterUnavailable("the producer was abandoned before the cluster answered"))
            queue.pending.clear()
            queue.drained.set()

    async def close(self, timeout_seconds: float) -> None:
        """See `KafkaProducer.close`."""
        writers = [queue.writer for queue in self._queues.values() if queue.writer is not None]
        if writers:
            await asyncio.wait(writers, timeout=timeout_seconds)
        await self.abandon()

    def _check_open(self) -> None:
        if self._denial is not None and self._producer_id is None:
            raise self._denial
        if self._ended or self._producer_id is None:
            raise ClusterUnavailable("the producer is not connected")

    async def _find(self, partition: TopicPartition) -> None:
        """Waits until the partition is known to exist. Raises `NotFound` when the cluster lacks it for a while."""
        missing_since: float | None = None
        self._check_open()
        while partition not in self._known:
            now = self._link.clock.elapsed()
            try:
                await self._link.call(lambda: self._link.cluster.log(partition), _REQUEST_SECONDS)
                self._known.add(partition)
            except NotFound:
                missing_since = missing_since if missing_since is not None else now
                if now - missing_since > TOPIC_GONE_SECONDS:
                    raise
                await asyncio.sleep(_BACKOFF_SECONDS)
            except ClusterAccessDenied:
                raise
            except ClusterUnavailable:
                missing_since = None
                await asyncio.sleep(_BACKOFF_SECONDS)
            self._check_open()

    async def _write(self, partition: TopicPartition, queue: _Queue) -> None:
        """Writes batches until the queue is empty."""
        while queue.pending:
            if self._linger_seconds:
                await asyncio.sleep(self._linger_seconds)
            batch = self._next_batch(queue)
            if not batch:  # withdrawn meanwhile
                break
            queue.asked = len(batch)
            sequence, queue.sequence = queue.sequence, queue.sequence + len(batch)
            try:
                offset, again = await self._append(partition, [one.record for one in batch], sequence)
            except (RecordTooLarge, BatchTooLarge) as error:
                self._refuse(batch, partition, int(error.metadata["limit"]))
            except BraidError as error:
                _fail_all(batch, error)
                self._known.discard(partition)
            else:
                self._acknowledge(partition, batch, offset, sequence, again=again)
            queue.asked = 0
            for _ in batch:
                queue.size -= queue.pending.popleft().record.size()
            queue.drained.set()
            queue.drained = asyncio.Event()

    def _acknowledge(
        self, partition: TopicPartition, batch: Sequence[_Pending], offset: int, sequence: int, *, again: bool
    ) -> None:
        connection, producer = self._link.cluster.connection(partition), self._producer_id or 0
        for at, (record, sent, settle) in enumerate(batch):
            written = Written(*partition, offset + at, record.timestamp_ms, connection, again, producer, sequence + at)
            settle(sent, written)

    def _next_batch(self, queue: _Queue) -> list[_Pending]:
        """Takes the records that fit one batch; it stays pending until it is answered."""
        batch: list[_Pending] = []
        size = 0
        for one in queue.pending:
            size += one.record.size()
            if batch and size > self._max_batch_bytes:
                break
            batch.append(one)
        return batch

    async def _append(self, partition: TopicPartition, records: Sequence[NewRecord], sequence: int) -> tuple[int, bool]:
        """Tries until the cluster answers; a topic that stays away is gone. Returns whether it tried more than once."""
        producer = self._producer_id if self._producer_id is not None else -1
        missing_since: float | None = None
        again = False
        while True:
            try:
                offset = await self._link.call(
                    lambda: self._link.cluster.append(partition, records, producer, sequence), _REQUEST_SECONDS
                )
            except ClusterAccessDenied:
                raise
            except ClusterUnavailable:
                missing_since = None
            except NotFound:
                now = self._link.clock.elapsed()
                missing_since = missing_since if missing_since is not None else now
                if now - missing_since > TOPIC_GONE_SECONDS:
                    raise
            else:
                return offset, again
            again = True
            await asyncio.sleep(_BACKOFF_SECONDS)

    def _refuse(self, batch: Sequence[_Pending], partition: TopicPartition, limit: int) -> None:
        """Tells each record whether it, or only its batch, was too large."""
        for one in batch:
            kind = RecordTooLarge if one.record.size() > limit else BatchTooLarge
            one.settle(one.sent, kind(f"more than the {limit} bytes of topic {partition.topic}, not written"))


def _fail_all(batch: Sequence[_Pending] | deque[_Pending], error: BraidError) -> None:
    for one in batch:
        one.settle(one.sent, error)


def _settle_future(result: asyncio.Future[Written], outcome: Written | BraidError) -> None:
    """Resolves a result whose owner may have stopped listening."""
    if result.done():
        return
    if isinstance(outcome, BraidError):
        result.set_exception(outcome)
        result.exception()
    else:
        result.set_result(outcome)
