"""Secrets replaced on disk under clients at work: the next handshake with a real broker has the new ones."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from braid.kernel.errors import ClusterAccessDenied, ClusterUnavailable
from braid.kernel.ports import Acl, KafkaCluster, KafkaProducer, TopicPartition
from testbed.patience import until
from tests.support.planted import credential
from tests.support.secured_kafka import ADMIN, SecuredKafka, password_of, secured_kafka
from tests.support.tls_files import Authority

pytestmark = [pytest.mark.real, pytest.mark.untimed, pytest.mark.timeout(300)]

TOPIC: Final = TopicPartition("t", 0)
WRITES: Final = [Acl("Topic", "t", "Literal", "Write", "")]


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    """A topic that `app` and the holder of the second certificate may write to."""
    with secured_kafka(tmp_path_factory.mktemp("rotation"), ["app"]) as made:
        asyncio.run(prepare(made))
        yield made


async def prepare(secured: SecuredKafka) -> None:
    """Makes the topic, and gives what is given."""
    admin = secured.seen_by(ADMIN).admin()
    await admin.create_topic(TOPIC.topic, 1, 1, {})
    await admin.close()
    for user in ("app", "CN=second"):
        await secured.give(user, WRITES)


@asynccontextmanager
async def producing(cluster: KafkaCluster) -> AsyncIterator[KafkaProducer]:
    """A producer that lives while secrets change."""
    producer = cluster.producer(linger_ms=0, compression=None, max_batch_bytes=10_000)
    try:
        await producer.start()
        yield producer
    finally:
        await producer.abandon()


async def sent(producer: KafkaProducer) -> bool:
    """Whether a record arrives."""
    try:
        async with asyncio.timeout(20.0):
            await (await producer.send(TOPIC, b"x", None, [], 1))
    except (ClusterAccessDenied, ClusterUnavailable) as error:
        print(error)
        return False
    return True


async def described(cluster: KafkaCluster) -> bool:
    """Whether a client of another kind is let in."""
    admin = cluster.admin()
    try:
        return TOPIC.topic in await admin.describe_topics([TOPIC.topic])
    except ClusterAccessDenied:
        return False
    finally:
        await admin.close()


async def test_a_certificate_is_replaced_and_the_next_handshake_has_it(secured: SecuredKafka) -> None:
    first, second = secured.authority.issue("first"), secured.authority.issue("second")
    cluster = secured.seen_with(secured.mutual_text(first))
    async with producing(cluster) as producer:
        assert not await sent(producer)
        for new, old in zip(second, first, strict=True):
            shutil.copy(new, old)
        await until(lambda: sent(producer), "the producer is let in by its new certificate", poll=0.5)
    assert await described(cluster)


async def test_a_certificate_expires_and_its_successor_is_taken(secured: SecuredKafka) -> None:
    files = secured.authority.issue("expiring", days=-1)
    cluster = secured.seen_with(secured.mutual_text(files))
    assert not await described(cluster)
    await secured.give("CN=expiring", WRITES)
    secured.authority.issue("expiring")
    await until(lambda: described(cluster), "the new certificate is taken", poll=0.5)


async def test_a_password_is_replaced_under_a_producer(secured: SecuredKafka, tmp_path: Path) -> None:
    path = tmp_path / "password"
    write(path, credential("old"))
    text = secured.profile_text("app").replace(f'password = "{password_of("app")}"', f'password_file = "{path}"')
    cluster = secured.seen_with(text)
    async with producing(cluster) as producer:
        assert not await sent(producer)
        write(path, password_of("app"))
        await until(lambda: sent(producer), "the producer is let in by its new password", poll=0.5)
    assert await described(cluster)


async def test_an_authority_is_replaced_and_the_new_one_counts(secured: SecuredKafka, tmp_path: Path) -> None:
    ca_file, other = tmp_path / "ca.pem", Authority(tmp_path / "other", "another")
    shutil.copy(other.ca_file, ca_file)
    text = secured.profile_text("app").replace(str(secured.authority.ca_file), str(ca_file))
    cluster = secured.seen_with(text)
    assert not await described(cluster)
    shutil.copy(secured.authority.ca_file, ca_file)
    await until(lambda: described(cluster), "the authority is trusted", poll=0.5)
    shutil.copy(other.ca_file, ca_file)
    assert not await described(cluster), "the authority that was taken out counts no more"


async def test_an_encrypted_key_is_used(secured: SecuredKafka, tmp_path: Path) -> None:
    path = tmp_path / "key-password"
    write(path, credential("of a key"))
    files = secured.authority.issue("encrypted", password=credential("of a key"))
    await secured.give("CN=encrypted", WRITES)
    cluster = secured.seen_with(f'{secured.mutual_text(files)}key_password_file = "{path}"\n')
    await until(lambda: described(cluster), "the encrypted key is used", poll=0.5)


def write(path: Path, text: str) -> None:
    """A file that nobody else may read."""
    path.write_text(text)
    path.chmod(0o600)
