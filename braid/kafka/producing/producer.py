"""An idempotent producer for a real cluster: aiokafka's, with an exit that works while the cluster is away.

aiokafka never gives up an idempotent record and offers no way to take one back, so its accumulator, sender and client
are reached into. Every such place is a function of `braid.kafka.producing.internals`, pinned by a test.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any, Final, NamedTuple

from aiokafka import AIOKafkaProducer
from aiokafka.conn import AIOKafkaConnection
from aiokafka.errors import KafkaError
from aiokafka.structs import TopicPartition as AioTopicPartition

from braid.kafka.admin import AioAdmin
from braid.kafka.errors import TOPIC_DENIED, access_error, error_for
from braid.kafka.permissions import Need
from braid.kafka.producing.batch_outcomes import BatchOutcomes, record_too_large
from braid.kafka.producing.internals import accumulator, metadata, sender
from braid.kafka.producing.internals.throttling import Throttle
from braid.kafka.protocol.wire import FAILURES
from braid.kafka.security import Security
from braid.kernel.errors import BraidError, ClusterAccessDenied, ClusterUnavailable, Invalid, NotFound, Withdrawn
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

_BACKOFF_SECONDS: Final = KAFKA_BACKOFF_MS / 1_000
_PRODUCER_ID: Final = Need("IdempotentWrite", instead="Write on any topic")  # KIP-679
_COMPRESSIONS: Final = (None, "gzip", "lz4", "snappy", "zstd")


class AioProducer:
    """The `KafkaProducer` of real clusters, over `AIOKafkaProducer`."""

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
        _check_compression(compression)
        self._admin = admin
        self._security = security
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
        self._ended = asyncio.Event()
        self._outcomes = BatchOutcomes(admin, self._connection, self._ended.is_set)
        self._throttle = Throttle()
        self._denial: ClusterAccessDenied | None = None
        self._entering: asyncio.Task[None] | None = None  # tries again while the cluster refuses this client
        self._asking_why: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """See `KafkaProducer.start`."""
        while not self._ended.is_set():
            producer = AIOKafkaProducer(**self._settings)
            sender.prepare(producer, self._on_topics_missing, self._outcomes.settle, self._on_silence, self._security)
            self._throttle.prepare(producer)
            try:
                await producer.start()
            except FAILURES as error:
                try:
                    denial = access_error(error, "its producer", _PRODUCER_ID) or await self._why()
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
            if await self._refresh(producer, topic) and await metadata.connect(producer, topic):
                return
            if metadata.is_denied(producer, topic):
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
        if producer is None or not metadata.knows(producer, partition):
            return False
        size = accumulator.record_size(record.key, record.value, record.headers)
        if size > self._max_record_bytes:
            raise record_too_large(size, self._max_record_bytes)
        return accumulator.offer(producer, partition, record, settle)

    def leaderless(self, topic: str) -> Collection[int]:
        """See `KafkaProducer.leaderless`."""
        return metadata.leaderless(self._producer, topic) if self._producer is not None else ()

    def throttled_seconds(self) -> float:
        """See `KafkaProducer.throttled_seconds`."""
        return self._throttle.seconds()

    def withdraw(self, partition: TopicPartition) -> None:
        """See `KafkaProducer.withdraw`."""
        if self._producer is not None:
            for record, settle in accumulator.withdraw(self._producer, partition):
                settle(
                    record, Withdrawn(f"{partition.topic} partition {partition.partition} was never sent the record")
                )

    def cluster_id(self) -> str:
        """See `KafkaProducer.cluster_id`."""
        return "" if self._producer is None else metadata.cluster_id(self._producer)

    async def abandon(self) -> None:
        """See `KafkaProducer.abandon`."""
        self._ended.set()
        producer, self._producer = self._producer, None
        if producer is not None:
            await self._end(producer)
        self._outcomes.close()
        for task in (self._entering, self._asking_why):
            if task is not None:
                task.cancel()
        await self._admin.close()

    async def close(self, timeout_seconds: float) -> None:
        """See `KafkaProducer.close`."""
        if self._producer is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_seconds):
                    await self._producer.flush()
        await self._outcomes.wait(KAFKA_CLOSE_SECONDS)
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
            if metadata.knows(producer, partition):
                try:
                    await accumulator.room(producer, partition)
                except KafkaError as error:
                    raise ClusterUnavailable(f"the producer is closed: {error!r}") from error
                continue
            now = asyncio.get_running_loop().time()
            if await self._refresh(producer, partition.topic):
                if metadata.is_denied(producer, partition.topic):
                    raise _unseen(partition.topic)
                missing_since = missing_since if missing_since is not None else now
                if not metadata.knows(producer, partition) and now - missing_since > TOPIC_GONE_SECONDS:
                    raise _not_found(partition)
            else:
                missing_since = None
                await asyncio.sleep(_BACKOFF_SECONDS)

    async def _refresh(self, producer: AIOKafkaProducer, topic: str) -> bool:
        """Asks for metadata; False when no broker answered, or the producer was abandoned meanwhile."""
        asking = asyncio.create_task(metadata.refresh(producer, topic))
        ended = asyncio.create_task(self._ended.wait())
        try:
            await asyncio.wait({asking, ended}, return_when=asyncio.FIRST_COMPLETED)
            return asking.done() and asking.result()
        finally:
            asking.cancel()
            ended.cancel()

    def _connection(self, partition: AioTopicPartition) -> AIOKafkaConnection | None:
        return None if self._producer is None else metadata.connection(self._producer, partition)

    def _on_topics_missing(self, topics: Sequence[str]) -> None:
        """Metadata has lacked these topics for a while: their records can go nowhere."""
        if self._producer is not None:
            for topic in topics:
                denied = metadata.is_denied(self._producer, topic)
                gone = NotFound(f"topic {topic} does not exist")
                error = _unseen(topic) if denied else gone
                sender.fail_topic(self._producer, topic, error)

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
        """Asks whether a silent cluster refuses this client; None when it does not say so soon."""
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
        """Whether a cluster that refused this client is now away; it is waited for, as at the start."""
        return self._denial is None and self._entering is not None and not self._entering.done()

    async def _enter(self) -> None:
        """Tries again later, because somebody may fix the password or the permission."""
        await asyncio.sleep(KAFKA_DENIED_SECONDS)
        await self.start()

    async def _end(self, producer: AIOKafkaProducer, error: BraidError | None = None) -> None:
        """Fails what is pending and ends the client, also while the cluster does not answer."""
        left = ClusterUnavailable("the producer was abandoned before the cluster answered")
        sender.abandon(producer, error or left)
        ending = asyncio.create_task(producer.stop())
        await asyncio.wait({ending}, timeout=KAFKA_CLOSE_SECONDS)
        if not ending.done():
            ending.cancel()
            await asyncio.wait({ending}, timeout=KAFKA_CLOSE_SECONDS)
            sender.end(producer)
        if ending.done() and not ending.cancelled():
            ending.exception()


class _Sent(NamedTuple):
    """A record of `send`, and the future of its sender."""

    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes]]
    stamp_ms: int
    result: asyncio.Future[Written]


def _settle_future(record: _Sent, outcome: Written | BraidError) -> None:
    """Resolves a future, unless its owner has stopped waiting."""
    if record.result.done():
        return
    if isinstance(outcome, BraidError):
        record.result.set_exception(outcome)
        record.result.exception()
    else:
        record.result.set_result(outcome)


def _check_compression(name: str | None) -> None:
    if name not in _COMPRESSIONS:
        remedy = "use gzip, lz4, snappy or zstd"
        raise Invalid(f"compression {name!r} is unknown", field="compression", remedy=remedy)


def _unseen(topic: str) -> BraidError:
    """Metadata refuses to tell of a topic that one may send to: Write implies that it may be seen."""
    return error_for(TOPIC_DENIED, f"topic {topic}", Need("Write", topic))


def _not_found(partition: TopicPartition) -> NotFound:
    return NotFound(f"topic {partition.topic} or its partition {partition.partition} does not exist")
