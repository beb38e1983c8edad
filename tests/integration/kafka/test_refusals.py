"""A real broker refuses a client, for each reason its own error, at once, and the client does not storm it."""

import asyncio
import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from braid.kernel.errors import ClusterAccessDenied
from braid.kernel.limits.kafka import KAFKA_DENIED_SECONDS
from braid.kernel.ports import Acl, Committed, Isolation, KafkaCluster, TopicPartition
from testbed.patience import until
from tests.support.secured_kafka import ADMIN, SecuredKafka, secured_kafka
from tests.support.tls_files import Authority

pytestmark = [pytest.mark.real, pytest.mark.untimed, pytest.mark.timeout(300)]

TOPIC: Final = TopicPartition("t", 0)
GROUP: Final = "g"
AT_ONCE_SECONDS: Final = 6.0  # with room for a loaded machine: nothing that hangs ends before 30 s
WATCHED: Final = ("wrong", "topicless")  # in `make test`: one is refused its connection, and one its requests
WATCHED_SECONDS: Final = 6.0
# A client of each kind: a producer tries by itself and asks why, all others share what a broker said to one of them.
ATTEMPTS_MAX: Final = 3 * (1 + WATCHED_SECONDS / KAFKA_DENIED_SECONDS)
CAN_WRITE: Final = [Acl("Topic", "other", "Literal", "Write", "")]


class Refusal(NamedTuple):
    """A refused principal, and the error's words for it."""

    name: str
    acls: list[Acl]
    problem: str
    message: str

    def __str__(self) -> str:
        return self.name


READS: Final = [Acl("Topic", "t", "Literal", "Read", "")]
REFUSALS: Final = [
    Refusal("wrong", [], "credentials", "name or password are wrong"),
    Refusal("expired", [], "client_certificate_expired", "expired on "),
    Refusal("stranger", [], "client_certificate", "it takes no certificate of this client"),
    Refusal("misled", [], "broker_certificate", "its certificate is not accepted: "),
    Refusal("topicless", CAN_WRITE, "topic", "lacks Write on the topic t "),
    Refusal("groupless", READS, "group", "lacks Read on the group g "),
    Refusal("idless", [], "idempotent_write", "lacks IdempotentWrite on the cluster, or Write on any topic"),
]


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    """A broker with one topic, and what each user may do."""
    with secured_kafka(tmp_path_factory.mktemp("secured"), [each.name for each in REFUSALS]) as made:
        asyncio.run(prepare(made))
        yield made


async def prepare(secured: SecuredKafka) -> None:
    """Makes the topic, and gives what is given."""
    admin = secured.seen_by(ADMIN).admin()
    await admin.create_topic(TOPIC.topic, 1, 1, {})
    await admin.close()
    for each in REFUSALS:
        await secured.give(each.name, each.acls)


def seen(secured: SecuredKafka, refusal: Refusal, directory: Path) -> KafkaCluster:
    """The cluster as a refused principal reaches it."""
    authority = secured.authority
    if refusal.name == "wrong":
        return secured.seen_by("wrong", "another password")
    if refusal.name == "expired":
        return secured.seen_with(secured.mutual_text(authority.issue("expired", days=-2)))
    if refusal.name == "stranger":
        return secured.seen_with(secured.mutual_text(Authority(directory, "another").issue("stranger")))
    if refusal.name == "misled":
        text, other = secured.mutual_text(authority.issue("misled")), Authority(directory, "another").ca_file
        return secured.seen_with(text.replace(str(authority.ca_file), str(other)))
    return secured.seen_by(refusal.name)


async def refused(refusal: Refusal, cluster: KafkaCluster) -> ClusterAccessDenied:
    """Returns the error of a user that commits, where it lacks the group, or else sends."""
    async with contextlib.AsyncExitStack() as stack:
        if refusal.problem == "group":
            offsets = cluster.offsets()
            stack.push_async_callback(offsets.close)
            with pytest.raises(ClusterAccessDenied) as raised:
                await offsets.commit(GROUP, {TOPIC: Committed(0, "")}, None)
        else:
            producer = cluster.producer(linger_ms=0, compression=None, max_batch_bytes=10_000)
            stack.push_async_callback(producer.abandon)
            await producer.start()
            with pytest.raises(ClusterAccessDenied) as raised:
                await (await producer.send(TOPIC, b"x", None, [], 1))
    return raised.value


@pytest.mark.parametrize("refusal", REFUSALS, ids=str)
async def test_who_is_refused_gets_an_error_of_its_own_at_once(
    secured: SecuredKafka, refusal: Refusal, tmp_path: Path
) -> None:
    cluster, began = seen(secured, refusal, tmp_path), time.monotonic()

    async def named() -> bool:
        """A broker may not have heard of an ACL yet."""
        async with asyncio.timeout(AT_ONCE_SECONDS):
            error = await refused(refusal, cluster)
        print(f"{time.monotonic() - began:.2f} s: {error}")
        return error.problem == refusal.problem and refusal.message in error.message and bool(error.remedy)

    await until(named, f"the error says {refusal.problem}: {refusal.message}", 20.0, poll=0.5)


@pytest.mark.parametrize(
    "refusal",
    [pytest.param(each, marks=() if each.name in WATCHED else pytest.mark.extended) for each in REFUSALS],
    ids=str,
)
async def test_who_is_refused_tries_again_no_oftener_than_it_should(
    secured: SecuredKafka, refusal: Refusal, tmp_path: Path
) -> None:
    """A member's clients at work for a while: it fetches, commits, looks around and sends."""
    cluster = seen(secured, refusal, tmp_path)
    before = sum(counter.count for counter in secured.counters)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(each) for each in (sending(cluster), fetching(cluster), committing(cluster))]
        await asyncio.sleep(WATCHED_SECONDS)
        for task in tasks:
            task.cancel()
    attempts = sum(counter.count for counter in secured.counters) - before
    print(f"{attempts} connections in {WATCHED_SECONDS} s")
    assert 0 < attempts <= ATTEMPTS_MAX
    # One that was refused while it was opened takes leave over TLS, and the loop must not be closed before.
    await until(lambda: not secured.own_connections(), "all connections end")


async def sending(cluster: KafkaCluster) -> None:
    """Sends a record whenever the last one was refused."""
    producer = cluster.producer(linger_ms=0, compression=None, max_batch_bytes=10_000)
    try:
        await producer.start()
        while True:
            with contextlib.suppress(ClusterAccessDenied):
                await (await producer.send(TOPIC, b"x", None, [], 1))
            await asyncio.sleep(0.05)
    finally:
        await producer.abandon()


async def fetching(cluster: KafkaCluster) -> None:
    """Fetches as a member does."""
    fetcher = cluster.fetcher(max_partition_bytes=1 << 20, isolation=Isolation.READ_COMMITTED, client_rack="")
    try:
        fetcher.assign({TOPIC: 0})
        await fetcher.start()
        await asyncio.Event().wait()
    finally:
        await fetcher.close()


async def committing(cluster: KafkaCluster) -> None:
    """Commits and looks again and again."""
    offsets, admin = cluster.offsets(), cluster.admin()
    try:
        while True:
            with contextlib.suppress(ClusterAccessDenied):
                await offsets.commit(GROUP, {TOPIC: Committed(0, "")}, None)
            with contextlib.suppress(ClusterAccessDenied):
                await admin.describe_topics([TOPIC.topic])
            await asyncio.sleep(0.05)
    finally:
        await offsets.close()
        await admin.close()
