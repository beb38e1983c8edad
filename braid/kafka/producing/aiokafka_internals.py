"""Every use of aiokafka's private parts by the producer, in one place; a test pins each against one release.

No public call forgets pending records, forbids topic creation, tells a missing topic from a cluster that is away, or
keeps an idempotent producer's sequence right after a refused batch.
"""

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import Any, Final, NamedTuple

from aiokafka import AIOKafkaProducer
from aiokafka.client import AIOKafkaClient, ConnectionGroup
from aiokafka.conn import AIOKafkaConnection
from aiokafka.errors import BrokerResponseError, KafkaError, ProducerClosed
from aiokafka.producer.message_accumulator import BatchBuilder, MessageBatch
from aiokafka.protocol.api import Request, Response
from aiokafka.protocol.metadata import MetadataRequest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.structs import RecordMetadata
from aiokafka.structs import TopicPartition as AioTopicPartition

from braid.kafka.protocol.wire import hang_up
from braid.kafka.security import Security
from braid.kernel.errors import BraidError, ClusterAccessDenied, Withdrawn
from braid.kernel.limits.kafka import KAFKA_METADATA_PACE_SECONDS, KAFKA_REQUEST_MS, TOPIC_GONE_SECONDS
from braid.kernel.ports import SendableT, TopicPartition, Written
from braid.kernel.resumptions import SEQUENCES

Taken = tuple[Any, Callable[[Any, Any], None]]  # a record and whom to tell of its fate


class BatchIdentity(NamedTuple):
    """A batch's identity for brokers: Kafka's own id of its producer, and the sequence of its first record."""

    producer: int
    sequence: int


NO_IDENTITY: Final = BatchIdentity(-1, -1)


class CredentialsWithheld(KafkaError):
    """A broker was sent nothing, because its address is none of the security profile's; the cause says which."""

    invalid_metadata = True  # its address may have been told wrong


class QuietClient(AIOKafkaClient):
    """A client that never creates a topic, limits its metadata requests, and connects only to allowed hosts.

    For a topic that is gone, aiokafka's sender asks without pause. Brokers are asked in turn: otherwise one that learns
    late who leads (it has just started, or is about to stop) would be asked again and again, and a frozen one waited
    for.
    """

    asked_at = -math.inf
    turn = 0  # how many questions were asked: each begins with the next broker
    on_silence: Callable[[], None] | None = None  # hears that no broker answered, for whatever reason
    cluster_id = ""  # as metadata last told it: aiokafka does not keep it
    security = Security()  # its `hosts` are compared before each connection

    @property
    def hosts(self) -> list[tuple[str, int, int]]:
        """The bootstrap addresses that the security profile may be sent to."""
        return [each for each in super().hosts if self.security.denial(each[0], each[1]) is None]

    async def _renew(self) -> None:
        """What the next connection proves itself by, as the profile's files say it now. Raises `KafkaError`."""
        self.security = self.security.current()
        for name, value in self.security.client_settings().items():
            setattr(self, f"_{name}", value)
        await self.security.prepare()

    async def bootstrap(self) -> None:
        """Connects as aiokafka does. Raises `CredentialsWithheld` when the cluster has no broker that may be connected
        to."""
        await self._renew()
        await super().bootstrap()
        denials = [self._denial(broker.nodeId) for broker in self.cluster.brokers()]
        if denials and None not in denials:
            raise CredentialsWithheld() from denials[0]

    async def send(
        self, node_id: int, request: Request, *, group: ConnectionGroup = ConnectionGroup.DEFAULT
    ) -> Response:
        """Sends as aiokafka does. Raises `CredentialsWithheld`, which is not tried again."""
        if (denial := self._denial(node_id)) is not None:
            raise CredentialsWithheld() from denial
        return await super().send(node_id, request, group=group)

    async def _get_conn(self, node_id: Any, **options: Any) -> AIOKafkaConnection | None:
        """Nothing is awaited between the comparison and where aiokafka reads the same address."""
        open_one = self._conns.get((node_id, options.get("group", ConnectionGroup.DEFAULT)))
        if open_one is None or not open_one.connected():  # every request passes here
            try:
                await self._renew()
            except KafkaError:  # who asks why hears of it
                return None
        return None if self._denial(node_id) is not None else await super()._get_conn(node_id, **options)

    def _denial(self, node_id: Any) -> ClusterAccessDenied | None:
        if not self.security.hosts:  # every request passes here
            return None
        broker = self.cluster.broker_metadata(node_id)
        return None if broker is None else self.security.denial(broker.host, broker.port)

    async def _metadata_update(self, cluster_metadata: Any, topics: Sequence[str] | None) -> bool:
        """Asks any broker for the topics; without topics it asks for none, because a producer never needs all."""
        pause = self.asked_at + KAFKA_METADATA_PACE_SECONDS - self._loop.time()
        if pause > 0:
            await asyncio.sleep(pause)
        self.asked_at = self._loop.time()
        request = MetadataRequest(list(topics or ()), allow_auto_topic_creation=False)
        brokers = [broker.nodeId for broker in self.cluster.brokers()]
        first = self.turn % max(1, len(brokers))
        self.turn += 1
        for broker in brokers[first:] + brokers[:first]:
            connection = await self._get_conn(broker)
            if connection is None:
                continue
            try:
                answer = await connection.send(request)
            except (KafkaError, TimeoutError):
                # Frozen: the next question deserves a new connection.
                hang_up(connection)
                continue
            if answer.brokers:
                self.cluster_id = getattr(answer, "cluster_id", None) or ""  # no broker before 0.10.1 tells it
                cluster_metadata.update_metadata(answer)
                return True
        cluster_metadata.failed_update(None)
        if self.on_silence is not None:
            self.on_silence()
        return False


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


class _MissingTopics:
    """Notices topics with pending records that metadata has lacked for a while."""

    def __init__(self, producer: AIOKafkaProducer, notify: Callable[[Sequence[str]], None]) -> None:
        self._producer = producer
        self._notify = notify
        self._since: dict[str, float] = {}

    def __call__(self, cluster: Any) -> None:
        """Called by aiokafka after each metadata answer."""
        now = asyncio.get_running_loop().time()
        pending = {partition.topic for partition in self._producer._message_accumulator._batches}
        missing = {topic for topic in pending if cluster.partitions_for_topic(topic) is None}
        self._since = {topic: self._since.get(topic, now) for topic in missing}
        gone = [topic for topic, since in self._since.items() if now - since > TOPIC_GONE_SECONDS]
        if gone:
            self._notify(sorted(gone))


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
    producer.client.__class__ = QuietClient
    producer.client.on_silence = on_silence
    producer.client.security = security or Security()
    producer.client.cluster.add_listener(_MissingTopics(producer, on_topics_missing))
    accumulator = producer._message_accumulator
    # Without a leader a batch of an idempotent producer must wait, not fail: failing leaves a gap in its sequence.
    accumulator._batch_ttl = math.inf
    append_batch = accumulator._append_batch

    def append_watched(builder: BatchBuilder, partition: AioTopicPartition) -> MessageBatch:
        batch = append_batch(builder, partition)
        batch.__class__ = KnownBatch
        batch.taken = []

        def ended(done: asyncio.Future[RecordMetadata]) -> None:
            _take_back_sequence(producer, batch, done)
            on_ended(partition, done, batch.taken, batch.retry_count > 1, batch.identity)

        batch.future.add_done_callback(ended)
        return batch

    accumulator._append_batch = append_watched
    producer._txn_manager.increment_sequence_number = lambda partition, by: _advance(producer, partition, by)


def knows(producer: AIOKafkaProducer, partition: TopicPartition) -> bool:
    """Whether metadata has the partition. Asked for each record, and `partitions_for_topic` builds a set each time."""
    return partition.partition in producer.client.cluster._partitions.get(partition.topic, ())


def is_denied(producer: AIOKafkaProducer, topic: str) -> bool:
    """Whether metadata says that this client may not see the topic."""
    return topic in producer.client.cluster.unauthorized_topics


def leaderless(producer: AIOKafkaProducer, topic: str) -> frozenset[int]:
    """Partitions of a topic that metadata knows and names no leader for."""
    partitions = producer.client.cluster._partitions.get(topic, {})
    return frozenset(number for number, told in partitions.items() if told.leader < 0)


def cluster_id(producer: AIOKafkaProducer) -> str:
    """The cluster's own id, as metadata last told it; empty until it did."""
    client = producer.client
    return client.cluster_id if isinstance(client, QuietClient) else ""


async def refresh(producer: AIOKafkaProducer, topic: str) -> bool:
    """Follows a topic and asks for metadata now; False when no broker answered."""
    producer.client._topics.add(topic)
    return bool(await producer.client.force_metadata_update())


async def connect(producer: AIOKafkaProducer, topic: str) -> bool:
    """Connects to a topic's known leaders; returns whether every partition has a leader that answers."""
    partitions = producer.client.cluster._partitions.get(topic, {}).values()
    leaders = sorted({partition.leader for partition in partitions})
    if not leaders or leaders[0] < 0:
        return False
    return all([await producer.client.ready(leader) for leader in leaders])


def connection(producer: AIOKafkaProducer, partition: AioTopicPartition) -> AIOKafkaConnection | None:
    """Returns the connection to a partition's leader in the metadata; None without one."""
    leader = producer.client.cluster.leader_for_partition(partition)
    found: AIOKafkaConnection | None = producer.client._conns.get((leader, ConnectionGroup.DEFAULT))
    return found


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
    """Fails the records that wait to be sent to a topic, and stops following the topic."""
    accumulator = producer._message_accumulator
    for partition in [partition for partition in accumulator._batches if partition.topic == topic]:
        for batch in accumulator._batches.pop(partition):
            # Tried before and queued again, it is not counted as pending, which its end relies on.
            if batch.retry_count:
                accumulator._pending_batches.add(batch)
            batch.failure(error)
            _forgive(batch)
    producer.client._topics.discard(topic)


def abandon(producer: AIOKafkaProducer, error: BraidError) -> None:
    """Fails everything pending and drops what is not on the wire yet. `stop` then has nothing to wait for."""
    accumulator = producer._message_accumulator
    # A request under way fails with its connection and would queue its batches, which are forgotten, again.
    accumulator.reenqueue = lambda batch: None
    batches = [*accumulator._pending_batches, *(batch for queue in accumulator._batches.values() for batch in queue)]
    accumulator._pending_batches.update(batch for batch in batches if batch.retry_count)
    accumulator.fail_all(error)
    accumulator._batches.clear()  # or the sender, which still runs, takes up a batch that has ended, and dies of it
    for batch in batches:
        _forgive(batch)
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


def _forgive(batch: MessageBatch) -> None:
    """Ignores the error of a failed batch, because no task may wait for it to leave the buffer."""
    if batch._drain_waiter.done():
        batch._drain_waiter.exception()


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
