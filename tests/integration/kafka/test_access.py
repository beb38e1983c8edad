"""A real broker that refuses clients: a wrong password, permissions that are missing, given, and taken back."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from aiokafka.protocol.admin import CreateAclsRequest

from braid.kafka.allowed_hosts import parse_allowed_host
from braid.kafka.cluster import AioKafka
from braid.kafka.protocol.wire import ANY_BROKER, Wire
from braid.kafka.security import Security
from braid.kernel.errors import ClusterAccessDenied, ClusterUnavailable
from braid.kernel.ports import Committed, Isolation, KafkaCluster, KafkaFetcher, TopicPartition
from devmesh.processes.brokers import KafkaBroker
from testbed.brokers import READY_SECONDS, new_broker
from testbed.patience import until
from testbed.ports import free_port
from tests.support.planted import credential

pytestmark = pytest.mark.untimed

PASSWORDS = {name: credential(name) for name in ("admin", "app")}
AT_ONCE_SECONDS = 6.0  # with room for a loaded machine: nothing that hangs ends before 30 s
TOPIC, LITERAL, DENY, ALLOW, WRITE = 2, 3, 2, 3, 4  # as Kafka numbers them in ACLs
JAAS = "listener.name.sasl_plaintext.plain.sasl.jaas.config"


def jaas(passwords: Mapping[str, str]) -> str:
    """The users that a broker knows."""
    users = " ".join(f'user_{name}="{word}"' for name, word in passwords.items())
    return f"org.apache.kafka.common.security.plain.PlainLoginModule required {users};"


class Guarded:
    """A broker with SASL and an authorizer, as `admin`, `app` and somebody with a wrong password see it."""

    def __init__(self, broker: KafkaBroker, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._broker = broker

    def seen_by(self, user: str, password: str = "", hosts: Sequence[str] = ()) -> KafkaCluster:
        """The cluster for a user; with the right password where none is given, and sent to these hosts alone."""
        security = replace(self.security(user, password), profile="prod", hosts=tuple(map(parse_allowed_host, hosts)))
        return AioKafka("test", lambda _: security).cluster(self.bootstrap, "prod")

    def restart(self, **passwords: str) -> None:
        """Begins anew, with other passwords."""
        self._broker.kill()
        self._broker.own_settings[JAAS] = jaas(PASSWORDS | passwords)
        self._broker.start()
        self._broker.wait_ready(READY_SECONDS)

    def security(self, user: str, password: str = "") -> Security:
        """Returns the credentials of a user."""
        return Security("SASL_PLAINTEXT", "PLAIN", user, password or PASSWORDS[user])

    async def permit(self, topic: str, operation: int, permission: int) -> None:
        """Gives `app` a permission on a topic, or takes it back."""
        wire = Wire(self.bootstrap, "test", self.security("admin"), 5.0)
        request = CreateAclsRequest(TOPIC, topic, LITERAL, "User:app", "*", operation, permission)
        [(code, _)] = (await wire.ask(ANY_BROKER, request)).creation_responses
        assert code == 0
        await wire.close()


def guarded_broker(directory: Path, port: int, advertised: int) -> KafkaBroker:
    """A broker of one listener without a password, for itself, and one for everybody else, which it tells of."""
    broker = new_broker("guarded", directory)
    own = f"PLAINTEXT://{broker.bootstrap}"
    controller = f"CONTROLLER://127.0.0.1:{broker.controller_port}"
    broker.own_settings |= {
        "listeners": f"{own},SASL_PLAINTEXT://127.0.0.1:{port},{controller}",
        "advertised.listeners": f"{own},SASL_PLAINTEXT://127.0.0.1:{advertised}",
        "listener.security.protocol.map": ",".join(f"{each}:{each}" for each in ("PLAINTEXT", "SASL_PLAINTEXT"))
        + ",CONTROLLER:PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        JAAS: jaas(PASSWORDS),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:admin",
    }
    return broker


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """A broker that serves users with a password."""
    port = free_port()
    broker = guarded_broker(tmp_path_factory.mktemp("guarded"), port, port)
    try:
        broker.start()
        broker.wait_ready(READY_SECONDS)
        yield Guarded(broker, f"127.0.0.1:{port}")
    finally:
        broker.kill()


@pytest.fixture
async def topic(guarded: Guarded, request: pytest.FixtureRequest) -> AsyncIterator[TopicPartition]:
    """A topic of the test's own that `app` has no permission on."""
    admin, place = guarded.seen_by("admin").admin(), TopicPartition(request.node.name, 0)
    await admin.create_topic(place.topic, 1, 1, {})
    yield place
    await admin.close()


def is_refused(fetcher: KafkaFetcher) -> bool:
    """Whether a fetcher knows that its cluster refuses it."""
    return bool(fetcher.contact().denied)


async def outcome(cluster: KafkaCluster, topic: TopicPartition) -> tuple[ClusterAccessDenied, float]:
    """Why a producer's first record is refused, and after how many seconds."""
    producer, began = cluster.producer(linger_ms=0, compression=None, max_batch_bytes=10_000), time.monotonic()
    try:
        async with asyncio.timeout(AT_ONCE_SECONDS):
            await producer.start()
            with pytest.raises(ClusterAccessDenied) as refused:
                await (await producer.send(topic, b"x", None, [], 1))
        return refused.value, time.monotonic() - began
    finally:
        await producer.abandon()


async def test_who_is_refused_hears_why_at_once(guarded: Guarded, topic: TopicPartition) -> None:
    wrong, app = guarded.seen_by("app", "wrong"), guarded.seen_by("app")
    refused, seconds = await outcome(wrong, topic)
    print(f"wrong password: {seconds:.2f} s: {refused}")
    assert not refused.authenticated and "name or password are wrong" in refused.message
    refused, seconds = await outcome(app, topic)
    print(f"no permission: {seconds:.2f} s: {refused}")
    assert refused.authenticated
    for cluster in (wrong, app):
        admin, offsets = cluster.admin(), cluster.offsets()
        with pytest.raises(ClusterAccessDenied):
            await admin.describe_topics([topic.topic])  # it is not gone
        with pytest.raises(ClusterAccessDenied):
            await offsets.commit("g", {topic: Committed(0, "")}, None)
        fetcher = cluster.fetcher(max_partition_bytes=1 << 20, isolation=Isolation.READ_COMMITTED, client_rack="")
        starting = asyncio.ensure_future(fetcher.start())
        fetcher.assign({topic: 0})
        await until(partial(is_refused, fetcher), "nobody was refused")
        assert fetcher.contact().owed_seconds == 0.0
        starting.cancel()
        for client in (fetcher.close(), offsets.close(), admin.close()):
            await client


async def test_permissions_hold_from_being_given_until_taken_away(guarded: Guarded, topic: TopicPartition) -> None:
    producer = guarded.seen_by("app").producer(linger_ms=0, compression=None, max_batch_bytes=10_000)
    await producer.start()
    with pytest.raises(ClusterAccessDenied):
        await (await producer.send(topic, b"refused", None, [], 1))
    await guarded.permit(topic.topic, WRITE, ALLOW)

    async def taken() -> bool:
        try:
            async with asyncio.timeout(AT_ONCE_SECONDS):
                await (await producer.send(topic, b"taken", None, [], 1))
        except ClusterAccessDenied:
            return False
        return True

    deadline = time.monotonic() + 30.0
    while not await taken():
        assert time.monotonic() < deadline, "permitted, and refused all the same"
        await asyncio.sleep(0.2)
    await guarded.permit(topic.topic, WRITE, DENY)
    while await taken():
        assert time.monotonic() < deadline, "denied, and taken all the same"
        await asyncio.sleep(0.1)
    await producer.abandon()


async def test_a_changed_password_is_reported_and_is_no_outage(guarded: Guarded, topic: TopicPartition) -> None:
    await guarded.permit(topic.topic, WRITE, ALLOW)
    producer = guarded.seen_by("app").producer(linger_ms=0, compression=None, max_batch_bytes=10_000)
    await producer.start()
    await (await producer.send(topic, b"taken", None, [], 1))
    guarded.restart(app="another")
    began = time.monotonic()
    with pytest.raises(ClusterAccessDenied) as refused:
        async with asyncio.timeout(20.0):
            await (await producer.send(topic, b"refused", None, [], 1))
    print(f"{time.monotonic() - began:.2f} s: {refused.value}")
    guarded.restart()
    deadline = time.monotonic() + 30.0
    while True:
        try:
            async with asyncio.timeout(20.0):
                await (await producer.send(topic, b"taken", None, [], 1))
            break
        except ClusterAccessDenied:
            assert time.monotonic() < deadline, "let in, and refused all the same"
            await asyncio.sleep(0.2)
    await producer.abandon()


async def test_only_hosts_of_the_profile_are_sent_anything(
    tmp_path: Path,
) -> None:
    """The broker advertises a listener of our own, as one would that an attacker owns."""
    received: list[bytes] = []

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.append(await reader.read(1_000))
        writer.close()

    port = free_port()
    server = await asyncio.start_server(take, "127.0.0.1", 0)
    elsewhere = server.sockets[0].getsockname()[1]
    broker = guarded_broker(tmp_path, port, elsewhere)
    try:
        await asyncio.to_thread(broker.start)
        await asyncio.to_thread(broker.wait_ready, READY_SECONDS)
        misled = Guarded(broker, f"127.0.0.1:{port}")
        unbounded = misled.seen_by("admin").admin()
        with pytest.raises(ClusterUnavailable):
            await unbounded.describe_cluster()
        await unbounded.close()
        assert received, "a profile without hosts follows whatever is advertised"
        received.clear()
        bounded = misled.seen_by("admin", hosts=[f"127.0.0.1:{port}"])
        admin = bounded.admin()
        with pytest.raises(ClusterAccessDenied, match=rf"'prod' may not be sent to 127\.0\.0\.1:{elsewhere}"):
            await admin.describe_cluster()
        await admin.close()
        refused, seconds = await outcome(bounded, TopicPartition("lies", 0))
        print(f"a producer hears after {seconds:.2f} s: {refused}")
        assert refused.withheld and str(elsewhere) in refused.message
        assert received == []
    finally:
        broker.kill()
        server.close()
        await server.wait_closed()


async def test_a_profile_names_the_brokers_and_clients_work(guarded: Guarded, topic: TopicPartition) -> None:
    await guarded.permit(topic.topic, WRITE, ALLOW)
    producer = guarded.seen_by("app", hosts=["127.0.0.1:*"]).producer(
        linger_ms=0, compression=None, max_batch_bytes=10_000
    )
    await producer.start()
    assert (await (await producer.send(topic, b"taken", None, [], 1))).offset == 0
    await producer.abandon()
