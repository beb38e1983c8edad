"""`braid acls` against a real broker that allows nothing else: each role works, and lacks each ACL by name."""

import asyncio
import contextlib
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from braid.kafka.offset_log.records import OFFSETS_TOPIC
from braid.kernel.acls import AclScope, acls_of
from braid.kernel.envelope.spill import TOPIC as PROGRESS_TOPIC
from braid.kernel.errors import AlreadyExists, ClusterAccessDenied
from braid.kernel.ports import Acl, Committed, Isolation, KafkaAdmin, KafkaCluster, TopicPartition
from testbed.patience import Deadline, until
from tests.support.secured_kafka import ADMIN, SecuredKafka, secured_kafka

pytestmark = [pytest.mark.real, pytest.mark.untimed, pytest.mark.timeout(300)]

STREAM: Final = "braid.orders.live.1"
LETTERS: Final = "braid.orders.dlq.1"
GONE: Final = "braid.gone.live.1"
GROUP: Final = "billing"
Exercise = Callable[[KafkaCluster, str], Awaitable[None]]


class Case(NamedTuple):
    """An ACL of a role, what needs it, and the resource that an error names."""

    role: str
    acl: Acl
    exercise: Exercise
    resource: str

    def __str__(self) -> str:
        return f"{self.role}-{self.acl.operation}-{self.acl.resource}-{self.acl.name}"


async def sends(cluster: KafkaCluster, topic: str) -> None:
    """An idempotent producer sends a record."""
    producer = cluster.producer(linger_ms=0, compression=None, max_batch_bytes=10_000)
    try:
        async with asyncio.timeout(20.0):
            await producer.start()
            await (await producer.send(TopicPartition(topic, 0), b"x", None, [], 1))
    finally:
        await producer.abandon()


async def fetches(cluster: KafkaCluster, topic: str) -> None:
    """A fetcher is served, or knows why not."""
    fetcher = cluster.fetcher(max_partition_bytes=1 << 20, isolation=Isolation.READ_COMMITTED, client_rack="")
    starting = asyncio.ensure_future(fetcher.start())
    try:
        fetcher.assign({TopicPartition(topic, 0): 0})
        await until(lambda: fetcher.contact().denied or fetcher.contact().answered_seconds_ago < 60.0, "no answer")
        if denied := fetcher.contact().denied:
            raise ClusterAccessDenied(denied)
    finally:
        starting.cancel()
        await fetcher.close()


async def commits(cluster: KafkaCluster, group: str) -> None:
    """A group's progress is read and written."""
    offsets = cluster.offsets()
    try:
        await offsets.commit(group, {TopicPartition(STREAM, 0): Committed(0, "")}, None)
        await offsets.committed(group, [TopicPartition(STREAM, 0)])
    finally:
        await offsets.close()


async def administers(cluster: KafkaCluster, call: Callable[..., Awaitable[object]]) -> None:
    """One call of an admin client."""
    admin = cluster.admin()
    try:
        await call(admin)
    finally:
        await admin.close()


def admin(call: Callable[..., Awaitable[object]]) -> Exercise:
    """An exercise of one call of an admin client."""
    return lambda cluster, resource: administers(cluster, lambda client: call(client, resource))


async def deletes_group(cluster: KafkaCluster, group: str) -> None:
    """Deletes a missing group, which every principal may do that may delete it."""
    offsets = cluster.offsets()
    try:
        await offsets.delete_group(group)
    finally:
        await offsets.close()


async def creates(cluster: KafkaCluster, topic: str) -> None:
    """Creates a topic, or would if it were not there."""
    with contextlib.suppress(AlreadyExists):
        await administers(cluster, lambda client: client.try_create_topic(topic, 1, 1, {}))


READS_CONFIG: Final = admin(lambda client, topic: client.topic_config(topic))
DESCRIBES: Final = admin(lambda client, _: client.describe_cluster())


# What needs an ACL of a role, by its operation, its resource, and the one that is touched.
EXERCISES: Final[Mapping[str, Sequence[tuple[str, str, str, Exercise, str]]]] = {
    "producer": [
        ("Write", "Topic", "braid.orders.", sends, STREAM),
        ("DescribeConfigs", "Topic", "braid.orders.", READS_CONFIG, STREAM),
    ],
    "consumer": [
        ("Read", "Topic", "braid.orders.", fetches, STREAM),
        ("Write", "Topic", "braid.orders.dlq.", sends, LETTERS),
        ("DescribeConfigs", "Topic", "braid.orders.dlq.", READS_CONFIG, LETTERS),
        ("Read", "Group", GROUP, commits, GROUP),
        ("Create", "Topic", PROGRESS_TOPIC, creates, PROGRESS_TOPIC),
        ("Read", "Topic", PROGRESS_TOPIC, fetches, PROGRESS_TOPIC),
        ("Write", "Topic", PROGRESS_TOPIC, sends, PROGRESS_TOPIC),
        ("DescribeConfigs", "Cluster", "kafka-cluster", DESCRIBES, "kafka-cluster"),
    ],
    "service": [
        ("Create", "Topic", "braid.", creates, "braid.canary.registry"),
        ("Delete", "Topic", "braid.", admin(lambda client, name: client.delete_topic(name)), GONE),
        (
            "AlterConfigs",
            "Topic",
            "braid.",
            admin(lambda client, name: client.alter_topic_config(name, {"retention.ms": "-1"})),
            STREAM,
        ),
        ("Read", "Topic", "braid.", fetches, STREAM),
        ("Write", "Topic", "braid.", sends, STREAM),
        ("Read", "Topic", OFFSETS_TOPIC, fetches, OFFSETS_TOPIC),
        ("Create", "Topic", PROGRESS_TOPIC, creates, PROGRESS_TOPIC),
        ("Read", "Topic", PROGRESS_TOPIC, fetches, PROGRESS_TOPIC),
        ("Write", "Topic", PROGRESS_TOPIC, sends, PROGRESS_TOPIC),
        ("Read", "Group", "*", commits, GROUP),
        ("Delete", "Group", "*", deletes_group, "nobody"),
        (
            "Describe",
            "Cluster",
            "kafka-cluster",
            admin(lambda client, _: client.reassignments(STREAM, 1)),
            "kafka-cluster",
        ),
        ("DescribeConfigs", "Cluster", "kafka-cluster", DESCRIBES, "kafka-cluster"),
    ],
}
SCOPES: Final = {
    "producer": AclScope(streams=["orders"]),
    "consumer": AclScope(streams=["orders"], groups=[GROUP]),
    "service": AclScope(),
}
# Brokers leave out what one may not see, without an error: `test_other_topics_are_unseen_and_no_error_says_so`.
SILENT: Final = ("service", "Describe", "Topic", "*")


def cases() -> list[Case]:
    """All ACLs of all roles; each must have an exercise."""
    found = []
    for role, scope in SCOPES.items():
        by_acl = {each[:3]: each[3:] for each in EXERCISES[role]}
        for acl in acls_of(role, scope):
            if (role, acl.operation, acl.resource, acl.name) != SILENT:
                exercise, resource = by_acl[acl.operation, acl.resource, acl.name]
                found.append(Case(role, acl, exercise, resource))
    return found


CASES: Final = cases()


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    """A broker with a user for each case and each role, and topics that nobody may use yet."""
    users = [*SCOPES, "applied", "blind", *(f"user-{number}" for number in range(len(CASES)))]
    with secured_kafka(tmp_path_factory.mktemp("secured"), users) as made:
        asyncio.run(make_topics(made))
        yield made


async def make_topics(secured: SecuredKafka) -> None:
    """The topics of a stream, of progress, and of committed offsets, which a first commit makes."""
    cluster = secured.seen_by(ADMIN)
    client = cluster.admin()
    for topic in (STREAM, LETTERS, GONE, PROGRESS_TOPIC, "elsewhere.mesh.registry"):
        await client.create_topic(topic, 1, 1, {})
    await commits(cluster, "first")
    await client.close()


async def until_done(exercise: Callable[[], Awaitable[None]]) -> None:
    """Repeats what a broker may refuse that has not heard of new ACLs yet."""
    deadline = Deadline(30.0)
    while True:
        try:
            await exercise()
        except ClusterAccessDenied:
            if deadline.passed:
                raise
            await asyncio.sleep(0.1)
        else:
            return


async def until_refused(exercise: Callable[[], Awaitable[None]], named: str) -> None:
    """Repeats it until the error names what is missing: before, a broker may not have heard of the other ACLs yet."""
    deadline = Deadline(30.0)
    while True:
        try:
            await exercise()
        except ClusterAccessDenied as error:
            if named in str(error):
                print(error)
                return
            assert not deadline.passed, error
        else:
            assert not deadline.passed, f"nothing was refused without {named}"
        await asyncio.sleep(0.1)


@pytest.mark.parametrize("case", CASES, ids=str)
async def test_an_acl_is_left_out_and_the_error_names_it(secured: SecuredKafka, case: Case) -> None:
    user = f"user-{CASES.index(case)}"
    others = [acl for acl in acls_of(case.role, SCOPES[case.role]) if acl != case.acl]
    await secured.give(user, others)
    cluster = secured.seen_by(user)
    await until_refused(lambda: case.exercise(cluster, case.resource), f"lacks {missing(case)}")
    await secured.give(user, [case.acl])
    await until_done(lambda: case.exercise(cluster, case.resource))


def missing(case: Case) -> str:
    """How an error names what a case leaves out."""
    if case.role == "service" and case.exercise is sends and case.resource == STREAM:
        return f"Write on the topic {STREAM}"
    if (case.role, case.exercise) == ("producer", sends):  # it may write to no topic, so it gets no id
        return "IdempotentWrite on the cluster, or Write on any topic"
    if case.acl.resource == "Cluster":
        return f"{case.acl.operation} on the cluster"
    return f"{case.acl.operation} on the {case.acl.resource.lower()} {case.resource}"


@pytest.mark.parametrize("role", SCOPES)
async def test_a_role_has_its_acls_alone_and_everything_it_does_works(secured: SecuredKafka, role: str) -> None:
    await secured.give(role, acls_of(role, SCOPES[role]))
    cluster = secured.seen_by(role)
    for case in CASES:
        if case.role == role:
            await until_done(lambda case=case: case.exercise(cluster, case.resource))  # type: ignore[misc]


async def test_other_topics_are_unseen_and_no_error_says_so(secured: SecuredKafka) -> None:
    """Why the ACL that no error names is in the list: the mark of another mesh would not be seen."""
    own = [acl for acl in acls_of("service", AclScope()) if (acl.resource, acl.name) != ("Topic", "*")]
    await secured.give("blind", own)
    admin = secured.seen_by("blind").admin()
    await until_lists(admin, STREAM)
    assert "elsewhere.mesh.registry" not in await admin.list_topics()
    await secured.give("blind", acls_of("service", AclScope()))
    await until_lists(admin, "elsewhere.mesh.registry")
    await admin.close()


async def until_lists(client: KafkaAdmin, topic: str) -> None:
    """Waits until a client sees a topic."""

    async def seen() -> bool:
        return topic in await client.list_topics()

    await until(seen, f"{topic} is listed")


def test_the_command_gives_acls_and_the_user_may_send(secured: SecuredKafka, tmp_path: Path) -> None:
    secured.write_profile(tmp_path, "guard", secured.profile_text(ADMIN))
    generate = ["acls", "generate", "--principal", "applied", "--role", "producer", "--stream", "orders"]
    given = ["--apply", "--bootstrap", secured.bootstrap, "--security-profile", "guard"]
    command = [str(Path(sys.executable).with_name("braid")), *generate, *given]
    environment = {**os.environ, "BRAID_KAFKA_PROFILES": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"User:applied may do what a producer needs on {secured.bootstrap}: 2 ACLs\n"
    asyncio.run(until_done(lambda: sends(secured.seen_by("applied"), STREAM)))
    secured.write_profile(tmp_path, "guard", secured.profile_text("applied"))
    refused = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
    assert refused.returncode == 4 and "lacks Alter on the cluster" in refused.stderr
