"""A mesh whose services, producers and consumers each have only the Kafka ACLs that `braid acls` lists for them."""

import os
import re
from collections.abc import Iterator
from typing import Final, NamedTuple
from unittest import mock

import pytest

import braid
from braid.api.dlq.v1 import dlq_service_pb2 as dlq_api
from braid.api.dlq.v1.replay_pb2 import ReplaySpec
from braid.api.lagmon.v1 import lag_pb2
from braid.api.lagmon.v1 import lagmon_service_pb2 as lagmon_api
from braid.api.registry.v1 import cluster_pb2
from braid.api.registry.v1 import registry_service_pb2 as registry_api
from braid.api.registry.v1.stream_pb2 import CHANNEL_STATE_DRAINED, LaneSpec, Stream, StreamSpec
from braid.client.mesh import Mesh
from braid.client.reading.stream_reader import Reader
from braid.host.system import system_host
from braid.kafka.cluster import AioKafka
from braid.kernel.acls import AclScope, acls_of
from braid.kernel.errors import Refused
from braid.kernel.limits.kafka import KAFKA_DENIED_SECONDS
from braid.rpc.grpc.transport import GrpcTransport
from devmesh.mesh import DevMesh
from testbed.mesh import running_mesh
from testbed.patience import until
from tests.support.secured_kafka import SecuredKafka, secured_kafka

pytestmark = [pytest.mark.real, pytest.mark.untimed, pytest.mark.timeout(600)]

STREAM: Final = "orders"
GROUP: Final = "billing"
READER: Final = "console"
SENT: Final = 50
PROFILE: Final = "guarded"
WATCHED_SECONDS: Final = 8.0
UNWELL: Final = re.compile(r"\bit is (SUSPECT|DOWN|SLOW|HALF_DEAD|FLAPPING)\b")
ATTEMPTS_MAX: Final = 6 * (1 + WATCHED_SECONDS / KAFKA_DENIED_SECONDS)


class Ground(NamedTuple):
    """A mesh whose only cluster beside `east` is a broker that allows nothing by default."""

    mesh: DevMesh
    secured: SecuredKafka

    def seen_by(self, user: str, password: str = "") -> Mesh:
        """The mesh, for an application that is a Kafka user; with the right password where none is given."""
        kafka = AioKafka(user, lambda name: self.secured.security(user, password))
        return Mesh(system_host(), kafka, GrpcTransport(), [self.mesh.ready.endpoint], user, "")


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """One of each service, as the Kafka user `service`."""
    directory = tmp_path_factory.mktemp("least")
    with secured_kafka(directory / "secured", ["service", "shop", "billing", "console"]) as secured:
        secured.write_profile(directory / "profiles", PROFILE, secured.profile_text("service"))
        with (
            mock.patch.dict(os.environ, BRAID_KAFKA_PROFILES=str(directory / "profiles")),
            running_mesh(directory / "mesh", clusters=("east",), registries=1, assigners=1, lagmons=1, dlqs=1) as mesh,
        ):
            yield Ground(mesh, secured)


async def give_roles(secured: SecuredKafka) -> None:
    """To each user what its role needs, and no more."""
    await secured.give("service", acls_of("service", AclScope(groups=[GROUP])))
    await secured.give("shop", acls_of("producer", AclScope(streams=[STREAM], lanes=["live"])))
    await secured.give("billing", acls_of("consumer", AclScope(streams=[STREAM], groups=[GROUP])))
    await secured.give(READER, acls_of("reader", AclScope(streams=[STREAM], lanes=["live"])))


async def register(mesh: Mesh, secured: SecuredKafka) -> None:
    """Registers the cluster, and makes a stream on it alone."""
    spec = cluster_pb2.ClusterSpec(bootstrap=secured.bootstrap, security_profile=PROFILE)
    request = registry_api.CreateClusterRequest(name=PROFILE, spec=spec)

    async def registered() -> bool:
        try:
            await mesh.service("registry").unary("CreateCluster", request, cluster_pb2.Cluster, timeout_seconds=60)
        except braid.BraidError as error:  # the broker has not heard of all ACLs yet
            print(error)
            return False
        return True

    await until(registered, "the cluster is registered", 60.0, poll=0.5)
    stream = StreamSpec(lanes={"live": LaneSpec(partitions=4)}, clusters=[PROFILE], replication_factor=1)
    await mesh.service("registry").unary(
        "CreateStream", registry_api.CreateStreamRequest(name=STREAM, spec=stream), Stream, timeout_seconds=60
    )


async def test_each_part_has_its_acls_alone_and_the_whole_mesh_works(ground: Ground) -> None:
    await give_roles(ground.secured)
    async with ground.seen_by("shop") as shop, ground.seen_by("billing") as billing:
        await register(shop, ground.secured)
        await send(shop)
        assert await looked_at(ground, SENT) == sorted(b"%d" % number for number in range(SENT))
        handled = await handle(billing, SENT, letters=1)
        assert sorted(handled) == sorted(b"%d" % number for number in range(SENT))
        await until(lambda: letter_count(billing, 1), "the letter is indexed", 60.0)
        await until(lambda: lag_is_none(billing), "lag is measured, and there is none", 60.0)
        await replay(billing)
        assert await handle(billing, 1) == [b"7"]
        await repartition(shop)
        await send(shop)
        assert len(await handle(billing, SENT)) == SENT
        await until(lambda: drained(shop), "the old channel is sealed, read by all and drained", 120.0, poll=0.5)
        assert await denials(shop) == ""


async def test_an_application_with_a_wrong_password_storms_no_broker(ground: Ground) -> None:
    """A consumer and a producer of the SDK, as they are: each of their clients tries again for itself."""
    async with (
        ground.seen_by("billing", "another word") as mesh,
        mesh.producer(STREAM) as producer,
        mesh.consumer([STREAM], group=GROUP) as consumer,
    ):
        before = sum(counter.count for counter in ground.secured.counters)
        with pytest.raises(braid.BraidError, match="name or password are wrong"):
            await producer.send(b"refused", key=b"k")
        assert await consumer.take(WATCHED_SECONDS) is None
        attempts = sum(counter.count for counter in ground.secured.counters) - before
    print(f"{attempts} connections in {WATCHED_SECONDS} s")
    assert 0 < attempts <= ATTEMPTS_MAX


async def send(mesh: Mesh) -> None:
    """Sends some records."""
    async with mesh.producer(STREAM) as producer:
        await producer.send_many([braid.Outgoing(b"%d" % number, key=b"%d" % number) for number in range(SENT)])


async def handle(mesh: Mesh, count: int, letters: int = 0) -> list[bytes]:
    """Values of so many records; gives up the one that says 7 where a letter is wanted."""
    values: list[bytes] = []
    async with mesh.consumer([STREAM], group=GROUP) as consumer:
        while len(values) < count:
            for record in await consumer.take_many(count, 60.0):
                values.append(record.value or b"")
                if letters and record.value == b"7":
                    record.dead_letter(ValueError("seven"))
                else:
                    record.ack()
        await until(lambda: not any(lease.in_flight for lease in consumer.leases()), "everything is settled", 60.0)
    return values


async def looked_at(ground: Ground, count: int) -> list[bytes]:
    """Values of so many records, read without a group by the Kafka user of the console."""
    kafka = AioKafka(READER, lambda name: ground.secured.security(READER, ""))
    async with ground.seen_by(READER) as mesh:
        reader = Reader(system_host(), kafka, mesh.service("registry"), stream=STREAM)
        async with reader:
            seen = [await reader.take(60.0) for _ in range(count)]
    return sorted(each.record.value or b"" for each in seen if each is not None)


async def letter_count(mesh: Mesh, count: int) -> bool:
    """Whether so many letters are listed."""
    request = dlq_api.ListDeadLettersRequest(stream=STREAM, page_size=1)
    page = await mesh.service("dlq").unary("ListDeadLetters", request, dlq_api.ListDeadLettersResponse)
    return not page.catching_up and page.total == count


async def lag_is_none(mesh: Mesh) -> bool:
    """Whether the lag monitor knows that the group has done everything."""
    filter = lagmon_api.LagFilter(group=GROUP, stream=STREAM)
    request = lagmon_api.ListLagRequest(filter=filter, detail=lag_pb2.LAG_DETAIL_PARTITION, page_size=100)
    lags = (await mesh.service("lagmon").unary("ListLag", request, lagmon_api.ListLagResponse)).lags
    return bool(lags) and all(not each.stale and each.lag_records == 0 for each in lags)


async def replay(mesh: Mesh) -> None:
    """Delivers the letter again."""
    request = dlq_api.CreateReplayRequest(spec=ReplaySpec(stream=STREAM))
    await mesh.service("dlq").unary("CreateReplay", request, dlq_api.CreateReplayResponse)


async def repartition(mesh: Mesh) -> None:
    """Moves the stream to a channel with more partitions on the same cluster, once that takes traffic.

    A broker that is short of time answers late, so the registry may find its cluster unwell: rights have no part in
    that. Nobody judges a cluster that denies something; `denials` tells of it.
    """
    request = registry_api.MoveStreamRequest(stream=STREAM, lanes=["live"], to_cluster=PROFILE, partitions=8)

    async def moved() -> bool:
        registry = mesh.service("registry")
        try:
            await registry.unary("MoveStream", request, registry_api.MoveStreamResponse, timeout_seconds=60)
        except Refused as error:
            assert UNWELL.search(error.message), error
            return False
        return True

    await until(moved, "the cluster takes traffic", 60.0)


async def denials(mesh: Mesh) -> str:
    """Returns why the cluster denies the registry something; empty where it denies nothing."""
    answer = await mesh.service("registry").unary(
        "ListClusters", registry_api.ListClustersRequest(), registry_api.ListClustersResponse
    )
    (found,) = [each for each in answer.clusters if each.name == PROFILE]
    return found.status.evidence.denied


async def drained(mesh: Mesh) -> bool:
    """Whether a channel of the stream is drained."""
    found = await mesh.service("registry").unary("GetStream", registry_api.GetStreamRequest(name=STREAM), Stream)
    return any(each.state == CHANNEL_STATE_DRAINED for each in found.status.channels)
