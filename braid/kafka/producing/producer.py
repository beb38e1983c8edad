"""An idempotent producer for a real cluster: aiokafka's, with an exit that works while the cluster is away.

aiokafka never gives up an idempotent record and offers no way to take one back, so its accumulator, sender and client
are reached into. Every such place is a function of `braid.kafka.producing.aiokafka_internals`, pinned by a test.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any, Final, NamedTuple

from aiokafka import AIOKafkaProducer
from aiokafka.conn import AIOKafkaConnection
from aiokafka.errors import KafkaError, MessageSizeTooLargeError, RecordListTooLargeError
from aiokafka.structs import RecordMetadata
from aiokafka.structs import TopicPartition as AioTopicPartition

from braid.kafka.admin import MAX_MESSAGE_BYTES, AioAdmin
from braid.kafka.errors import TOPIC_DENIED, access_error, error_for
from braid.kafka.producing import aiokafka_internals
from braid.kafka.protocol.wire import FAILURES
from braid.kafka.security import Security
from braid.kernel.errors import (
    BatchTooLarge,
    BraidError,
    ClusterAccessDenied,
    ClusterUnavailable,
    Invalid,
    NotFound,
    RecordTooLarge,
    TopicSealed,
    Withdrawn,
)
from braid.kernel.limits.kafka import (
    KAFKA_ACCESS_SECONDS,
    KAFKA_BACKOFF_MS,
    KAFKA_CLOSE_SECONDS,
    KAFKA_DENIED_SECONDS,
    KAFKA_METADATA_AGE_MS,
    KAFKA_RECORD_OVERHEAD_BYTES,
    KAFKA_REQUEST_MS,
    TOPIC_GONE_SECONDS,
)
from braid.kernel.ports import SendableT, TopicPartition, Written
from braid.kernel.resumptions import SEQUENCES

_BACKOFF_SECONDS: Final = KAFKA_BACKOFF_MS / 1_000
_COMPRESSIONS: Final = (None, "gzip", "lz4", "snappy", "zstd")


class AioProducer:
    """`KafkaProducer` over `AIOKafkaProducer`."""

    def __init__(
        self,
        bootstrap: str,
        client_id: str,
        security: Security,
        admin: AioAdmin,
        *,
        linger_ms: int,
        compression: str | None,
        max_batch_bytes: int,
    ) -> None:
        """A producer that is not connected.

        Args:
            bootstrap: The cluster's brokers.
            client_id: For the brokers' logs.
            security: How to connect.
            admin: Its own, to ask why a topic refuses a batch; closed with the producer.
            linger_ms: How long a batch waits to fill.
            compression: None, gzip, lz4, snappy or zstd.
            max_batch_bytes: Of a batch before compression. A record may exceed it by the bytes of its key and headers.

        Raises:
            Invalid: an unknown compression.
        """
        if compression not in _COMPRESSIONS:
            raise Invalid(
                f"compression {compression!r} is unknown", field="compression", remedy="use gzip, lz4, snappy or zstd"
            )
        self._admin = admin
        self._max_record_bytes = max_batch_bytes + KAFKA_RECORD_OVERHEAD_BYTES
        self._settings: dict[str, Any] = {
            "bootstrap_servers": bootstrap,
            "client_id": client_id,
            "linger_ms": linger_ms,
            "compression_type": compression,
            "max_batch_size": max_batch_bytes,
            "max_request_size": self._max_record_bytes,
            "enable_idempotence": True,
            "acks": "all",
            "request_timeout_ms": KAFKA_REQUEST_MS,
            "retry_backoff_ms": KAFKA_BACKOFF_MS,
            "metadata_max_age_ms": KAFKA_METADATA_AGE_MS,
            **security.client_settings(),
        }
        self._producer: AIOKafkaProducer | None = None
        self._connections: dict[AioTopicPartition, tuple[AIOKafkaConnection | None, int]] = {}
        self._ended = asyncio.Event()
        self._refusals: dict[str, asyncio.Task[int | BraidError]] = {}
        self._denial: ClusterAccessDenied | None = None
        self._entering: asyncio.Task[None] | None = None  # tries again while the cluster refuses this client
        self._asking_why: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """See `KafkaProducer.start`."""
        while not self._ended.is_set():
            producer = AIOKafkaProducer(**self._settings)
            aiokafka_internals.prepare(producer, self._on_topics_missing, self._on_ended, self._on_silence)
            try:
                await producer.start()
            except FAILURES as error:
                try:
                    denial = access_error(error, "its producer") or await self._why()
                finally:  # also when it is cancelled while it asks
                    await self._end(producer)
                if denial is not None:
                    self._deny(denial)
                    return
                self._denial = None
                await asyncio.sleep(_BACKOFF_SECONDS)
            except asyncio.CancelledError:
                await self._end(producer)
                raise
            else:
                self._producer, self._denial = producer, None
                return

    async def prepare(self, topic: str) -> None:
        """See `KafkaProducer.prepare`."""
        while (producer := self._producer) is not None:
            if await self._refresh(producer, topic) and await aiokafka_internals.connect(producer, topic):
                return
            if aiokafka_internals.is_denied(producer, topic):
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
        record = _Sent(key, value, headers, timestamp_ms, result)
        try:
            await self._queue(partition, record)
        except BraidError as error:
            _settle_future(record, error)
        return result

    def offer(
        self,
        partition: TopicPartition,
        record: SendableT,
        settle: Callable[[SendableT, Written | BraidError], None],
    ) -> bool:
        """See `KafkaProducer.offer`."""
        producer = self._producer
        if producer is None or not aiokafka_internals.knows(producer, partition):
            return False
        size = aiokafka_internals.record_size(record.key, record.value, record.headers)
        if size > self._max_record_bytes:
            raise _record_too_large(size, self._max_record_bytes)
        return aiokafka_internals.offer(producer, partition, record, settle)

    def leaderless(self, topic: str) -> Collection[int]:
        """See `KafkaProducer.leaderless`."""
        return aiokafka_internals.leaderless(self._producer, topic) if self._producer is not None else ()

    def withdraw(self, partition: TopicPartition) -> None:
        """See `KafkaProducer.withdraw`."""
        if self._producer is not None:
            for record, settle in aiokafka_internals.withdraw(self._producer, partition):
                settle(record, Withdrawn(f"{partition.topic} partition {partition.partition} was not asked to take it"))

    def cluster_id(self) -> str:
        """See `KafkaProducer.cluster_id`."""
        return "" if self._producer is None else aiokafka_internals.cluster_id(self._producer)

    async def abandon(self) -> None:
        """See `KafkaProducer.abandon`."""
        self._ended.set()
        producer, self._producer = self._producer, None
        if producer is not None:
            await self._end(producer)
        for task in (*self._refusals.values(), self._entering, self._asking_why):
            if task is not None:
                task.cancel()
        await self._admin.close()

    async def close(self, timeout_seconds: float) -> None:
        """See `KafkaProducer.close`."""
        if self._producer is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_seconds):
                    await self._producer.flush()
        if self._refusals:
            # Refused records are settled by what the cluster says of their topics.
            await asyncio.wait(self._refusals.values(), timeout=KAFKA_CLOSE_SECONDS)
        await self.abandon()

    async def _queue(self, partition: TopicPartition, record: "_Sent") -> None:
        """Waits for the topic to be known and the buffer to have room for a record, and queues it."""
        missing_since: float | None = None
        while not self.offer(partition, record, _settle_future):
            producer = self._producer
            if producer is None and self._is_entering():
                await asyncio.sleep(_BACKOFF_SECONDS)
                continue
            if producer is None:
                raise self._denial or ClusterUnavailable("the producer is not connected")
            if aiokafka_internals.knows(producer, partition):
                try:
                    await aiokafka_internals.room(producer, partition)
                except KafkaError as error:
                    raise ClusterUnavailable(f"the producer is closed: {error!r}") from error
                continue
            now = asyncio.get_running_loop().time()
            if await self._refresh(producer, partition.topic):
                if aiokafka_internals.is_denied(producer, partition.topic):
                    raise error_for(TOPIC_DENIED, f"topic {partition.topic}")
                missing_since = missing_since if missing_since is not None else now
                if not aiokafka_internals.knows(producer, partition) and now - missing_since > TOPIC_GONE_SECONDS:
                    raise _not_found(partition)
            else:
                missing_since = None
                await asyncio.sleep(_BACKOFF_SECONDS)

    async def _refresh(self, producer: AIOKafkaProducer, topic: str) -> bool:
        """Asks for metadata; False when no broker answered, or the producer was abandoned meanwhile."""
        asking = asyncio.create_task(aiokafka_internals.refresh(producer, topic))
        ended = asyncio.create_task(self._ended.wait())
        try:
            await asyncio.wait({asking, ended}, return_when=asyncio.FIRST_COMPLETED)
            return asking.done() and asking.result()
        finally:
            asking.cancel()
            ended.cancel()

    def _on_ended(
        self,
        partition: AioTopicPartition,
        done: asyncio.Future[RecordMetadata],
        taken: Sequence[aiokafka_internals.Taken],
        again: bool,
        identity: aiokafka_internals.BatchIdentity,
    ) -> None:
        """Tells whoever sent a batch's records what became of them."""
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

    def _came_over(self, partition: AioTopicPartition) -> int:
        """The number of the connection that a batch was just acknowledged over."""
        before = self._connections.get(partition)
        producer = self._producer
        found = aiokafka_internals.connection(producer, partition) if producer is not None else None
        if before is not None and (found is None or found is before[0]):
            return before[1]
        self._connections[partition] = (found, before[1] + 1 if before is not None else 0)
        return self._connections[partition][1]

    def _settle_refused(self, topic: str, taken: Sequence[aiokafka_internals.Taken]) -> None:
        """Too large: is the topic sealed, or the record, or its batch too large? One question per topic settles all."""
        if self._ended.is_set():
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

    def _on_topics_missing(self, topics: Sequence[str]) -> None:
        """Metadata has lacked these topics for a while: their records can go nowhere."""
        if self._producer is not None:
            for topic in topics:
                denied = aiokafka_internals.is_denied(self._producer, topic)
                gone = NotFound(f"topic {topic} does not exist")
                error = error_for(TOPIC_DENIED, f"topic {topic}") if denied else gone
                aiokafka_internals.fail_topic(self._producer, topic, error)

    # --- a cluster that refuses this client

    def _on_silence(self) -> None:
        """No broker answers. The client does not say why; a question of our own does."""
        if self._asking_why is None or self._asking_why.done():
            self._asking_why = asyncio.create_task(self._look_why(), name="kafka-why")

    async def _look_why(self) -> None:
        producer, denial = self._producer, await self._why()
        if denial is not None and producer is not None and self._producer is producer:
            self._producer, self._denial = None, denial
            await self._end(producer, denial)  # an idempotent producer that failed a batch cannot go on
            self._deny(denial)

    async def _why(self) -> ClusterAccessDenied | None:
        """Whether a cluster that does not answer refuses this client; None when it says nothing soon."""
        try:
            async with asyncio.timeout(KAFKA_ACCESS_SECONDS):
                await self._admin.describe_topics([])
        except ClusterAccessDenied as denial:
            return denial
        except (BraidError, TimeoutError):
            return None
        return None

    def _deny(self, denial: ClusterAccessDenied) -> None:
        self._denial = denial
        if not self._ended.is_set():
            self._entering = asyncio.create_task(self._enter(), name="kafka-enter")

    def _is_entering(self) -> bool:
        """Whether a cluster that refused this client is away now: as at the start, it is waited for."""
        return self._denial is None and self._entering is not None and not self._entering.done()

    async def _enter(self) -> None:
        """Tries again later: somebody may mend a password or a permission."""
        await asyncio.sleep(KAFKA_DENIED_SECONDS)
        await self.start()

    async def _end(self, producer: AIOKafkaProducer, error: BraidError | None = None) -> None:
        """Fails what is pending and ends the client, whatever state the cluster is in."""
        left = ClusterUnavailable("the producer was abandoned before the cluster answered")
        aiokafka_internals.abandon(producer, error or left)
        ending = asyncio.create_task(producer.stop())
        await asyncio.wait({ending}, timeout=KAFKA_CLOSE_SECONDS)
        if not ending.done():
            ending.cancel()
            await asyncio.wait({ending}, timeout=KAFKA_CLOSE_SECONDS)
            aiokafka_internals.end(producer)
        if ending.done() and not ending.cancelled():
            ending.exception()


class _Sent(NamedTuple):
    """A record of `send`, and who waits for it."""

    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes]]
    stamp_ms: int
    result: asyncio.Future[Written]


def _settle_future(record: _Sent, outcome: Written | BraidError) -> None:
    """Resolves a result whose owner may have stopped listening."""
    if record.result.done():
        return
    if isinstance(outcome, BraidError):
        record.result.set_exception(outcome)
        record.result.exception()
    else:
        record.result.set_result(outcome)


def _settle_by_limit(
    done: asyncio.Task[int | BraidError], topic: str, taken: Sequence[aiokafka_internals.Taken]
) -> None:
    limit = ClusterUnavailable("the producer is closed") if done.cancelled() else done.result()
    sizes = [aiokafka_internals.record_size(record.key, record.value, record.headers) for record, _ in taken]
    for (record, settle), size in zip(taken, sizes, strict=True):
        settle(record, limit if isinstance(limit, BraidError) else _refusal(size, sum(sizes), limit, topic))


def _refusal(size: int, batch_bytes: int, limit: int, topic: str) -> BraidError:
    """Why a topic that is said to take so many bytes took no record of a batch.

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
        return _record_too_large(size, limit)
    return BatchTooLarge(
        f"the batch of the record is larger than topic {topic} takes ({limit} bytes), and was not written",
        remedy=f"let the producer's max_batch_bytes be at most the topic's {MAX_MESSAGE_BYTES}",
    )


def _outcome_of(error: BaseException, partition: AioTopicPartition) -> BraidError:
    denial = access_error(error, f"topic {partition.topic}")
    if denial is not None:
        return denial
    return ClusterUnavailable(f"{partition.topic} partition {partition.partition} took no record: {error!r}")


def _record_too_large(size: int, limit: int) -> RecordTooLarge:
    return RecordTooLarge(f"the record has {size} bytes, more than the {limit} allowed", field="value")


def _not_found(partition: TopicPartition) -> NotFound:
    return NotFound(f"topic {partition.topic} or its partition {partition.partition} does not exist")
