"""The producer's access to aiokafka's client: its metadata, its connections, and which hosts it may reach.

No public call forbids topic creation, tells a missing topic from a cluster that is away, or bounds the addresses.
"""

import asyncio
import math
from collections.abc import Callable, Sequence
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.client import AIOKafkaClient, ConnectionGroup
from aiokafka.conn import AIOKafkaConnection
from aiokafka.errors import KafkaError
from aiokafka.protocol.api import Request, Response
from aiokafka.protocol.metadata import MetadataRequest
from aiokafka.structs import TopicPartition as AioTopicPartition

from braid.kafka.protocol.sasl_sessions import is_answered, is_due, open_connection
from braid.kafka.protocol.wire import hang_up
from braid.kafka.security import Security
from braid.kernel.errors import ClusterAccessDenied
from braid.kernel.limits.kafka import KAFKA_METADATA_PACE_SECONDS, TOPIC_GONE_SECONDS
from braid.kernel.ports import TopicPartition


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
        """Renews the credentials of the next connection, as the profile's files say it now. Raises `KafkaError`."""
        self.security = self.security.current()
        for name, value in self.security.client_settings().items():
            setattr(self, f"_{name}", value)
        await self.security.prepare()

    async def bootstrap(self) -> None:
        """Connects as aiokafka does. Raises `CredentialsWithheld` where the cluster has no broker that may be asked."""
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
        """Nothing is awaited between the comparison and where the same address is read."""
        key = (node_id, options.get("group", ConnectionGroup.DEFAULT))
        open_one = self._conns.get(key)
        if open_one is not None and is_due(open_one) and is_answered(open_one):
            open_one.close()
            del self._conns[key]
            open_one = None
        if open_one is None or not open_one.connected():  # every request passes here
            try:
                await self._renew()
            except KafkaError:  # who asks why hears of it
                return None
        if self._denial(node_id) is not None:
            return None
        open_one, broker = self._conns.get(key), self.cluster.broker_metadata(node_id)
        if broker is None or (open_one is not None and open_one.connected()):
            return await super()._get_conn(node_id, **options)
        return await self._connect(key, broker.host, broker.port)

    async def _connect(self, key: tuple[Any, ConnectionGroup], host: str, port: int) -> AIOKafkaConnection | None:
        """Opens a connection as aiokafka does, to one that notes the end of its session; None where that fails."""
        async with self._get_conn_lock:
            found: AIOKafkaConnection | None = self._conns.get(key)
            if found is not None and found.connected():
                return found
            try:
                made = await open_connection(
                    host,
                    port,
                    client_id=self._client_id,
                    request_timeout_ms=self._request_timeout_ms,
                    on_close=self._on_connection_closed,
                    max_idle_ms=self._connections_max_idle_ms,
                    **{name: getattr(self, f"_{name}") for name in self.security.client_settings()},
                )
            except (OSError, TimeoutError, KafkaError):
                self.force_metadata_update()  # its address may have changed
                return None
            self._conns[key] = made
            return made

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
    on_silence: Callable[[], None] | None,
    security: Security | None,
) -> None:
    """Adapts the client of a producer that is not started; see `sender.prepare`."""
    producer.client.__class__ = QuietClient
    producer.client.on_silence = on_silence
    producer.client.security = security or Security()
    producer.client.cluster.add_listener(_MissingTopics(producer, on_topics_missing))


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


def forget(producer: AIOKafkaProducer, topic: str) -> None:
    """Stops following a topic."""
    producer.client._topics.discard(topic)
