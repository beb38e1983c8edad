"""A real broker ends SASL sessions after a few seconds (KIP-368), under clients at work."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Final

import pytest

from braid.kernel.errors import BraidError
from braid.kernel.ports import Committed, Isolation, KafkaCluster, KafkaFetcher, KafkaProducer, TopicPartition
from tests.support.secured_kafka import ADMIN, SecuredKafka, secured_kafka

pytestmark = [pytest.mark.real, pytest.mark.untimed, pytest.mark.timeout(300)]

TOPIC: Final = TopicPartition("t", 0)
SESSION_SECONDS: Final = 4.0
WORK_SECONDS: Final = 3.5 * SESSION_SECONDS
CONNECTIONS_MAX: Final = 60  # four clients, two or three connections each, replaced up to five times
CALL_SECONDS: Final = 5.0  # of a busy machine; what is closed under a client is tried again much sooner


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    """A broker whose sessions end."""
    settings = {"connections.max.reauth.ms": str(int(SESSION_SECONDS * 1_000))}
    with secured_kafka(tmp_path_factory.mktemp("sessions"), [], settings) as made:
        yield made


@asynccontextmanager
async def at_work(cluster: KafkaCluster) -> AsyncIterator[tuple[KafkaProducer, KafkaFetcher]]:
    """A producer and a fetcher of a new topic."""
    admin = cluster.admin()
    await admin.create_topic(TOPIC.topic, 1, 1, {})
    await admin.close()
    producer = cluster.producer(linger_ms=0, compression=None, max_batch_bytes=10_000)
    fetcher = cluster.fetcher(max_partition_bytes=1 << 20, isolation=Isolation.READ_COMMITTED, client_rack="")
    try:
        await producer.start()
        await fetcher.start()
        fetcher.assign({TOPIC: 0})
        yield producer, fetcher
    finally:
        await producer.abandon()
        await fetcher.close()


class Work:
    """Calls that are repeated while sessions end, and what went wrong."""

    def __init__(self) -> None:
        self.ends_at = asyncio.get_running_loop().time() + WORK_SECONDS
        self.errors: list[str] = []
        self.calls = 0

    async def repeat(self, pause: float, call: Callable[[], Awaitable[object]]) -> None:
        """Makes a call again and again, with pauses."""
        while asyncio.get_running_loop().time() < self.ends_at:
            try:
                async with asyncio.timeout(CALL_SECONDS):
                    await call()
                self.calls += 1
            except (BraidError, TimeoutError) as error:
                self.errors.append(f"{type(error).__name__}: {error}")
            await asyncio.sleep(pause)


async def test_sessions_end_under_clients_and_no_call_fails(secured: SecuredKafka) -> None:
    cluster = secured.seen_by(ADMIN)
    admin, offsets, rare = cluster.admin(), cluster.offsets(), cluster.admin()
    async with at_work(cluster) as (producer, fetcher):
        work, sent, read, before = Work(), list[bytes](), list[bytes](), secured.counters[0].count

        async def send() -> None:
            value = str(len(sent)).encode()
            await (await producer.send(TOPIC, value, None, [], 1))
            sent.append(value)

        async def fetch() -> None:
            for each in await fetcher.fetch(500, 0.2):
                read.extend(record.value or b"" for record in each.records)

        await asyncio.gather(
            work.repeat(0.01, send),
            work.repeat(0.0, fetch),
            work.repeat(0.3, lambda: offsets.commit("g", {TOPIC: Committed(len(read), "")}, None)),
            work.repeat(0.25, lambda: admin.describe_topics([TOPIC.topic])),
            work.repeat(1.3 * SESSION_SECONDS, lambda: rare.describe_topics([TOPIC.topic])),
        )
        async with asyncio.timeout(20.0):
            while len(read) < len(sent):
                await fetch()
    for client in (admin.close(), offsets.close(), rare.close()):
        await client
    assert work.errors == [] and work.calls > 100
    assert read == sent, "nothing is lost, repeated or out of order"
    assert secured.counters[0].count - before <= CONNECTIONS_MAX, "a connection is replaced once a session"
