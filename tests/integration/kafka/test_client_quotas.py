"""A tenant at its byte rate is held back by a real broker, and another user beside it is not.

The registry logs in as a user with only the ACLs that `braid acls` lists for services. The one that quotas need is
given when its absence was told.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

import pytest

from braid.api.registry.v1 import cluster_pb2, stream_pb2, tenant_pb2
from braid.api.registry.v1 import registry_service_pb2 as api
from braid.client.mesh import Mesh
from braid.host.system import system_host
from braid.kafka.cluster import AioKafka
from braid.kafka.security import Security
from braid.kernel.acls import AclScope, acls_of
from braid.kernel.errors import BraidError, Invalid
from braid.kernel.ports import QuotaEntity
from braid.rpc.memory.network import MemoryNetwork
from braid.rpc.memory.transport import MemoryTransport
from braid.stores.memory_server import MemoryStoreServer
from services.registry.service import RegistryService
from testbed.patience import until
from tests.support.secured_kafka import ADMIN, SecuredKafka, secured_kafka
from tests.support.wired_registry import ADDRESSES, serving_replica

pytestmark = [pytest.mark.real, pytest.mark.untimed, pytest.mark.timeout(120)]

STREAM: Final = "orders"
CLUSTER: Final = "guarded"
RATE: Final = 20_000  # bytes a second
WINDOW_SECONDS: Final = 11.0  # over which Kafka counts by default: so much may come at once
SENT_SECONDS: Final = 4.0
FREE_SECONDS: Final = 2.0
VALUE: Final = bytes(8_000)
AHEAD: Final = 16  # records of a producer on their way


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    """A broker with the registry's user, and two of applications."""
    users = ["service", "acme", "bakery"]
    with secured_kafka(tmp_path_factory.mktemp("quotas"), users) as made:
        asyncio.run(prepare(made))
        yield made


async def prepare(secured: SecuredKafka) -> None:
    """Gives each user what its role needs."""
    await secured.give("service", acls_of("service", AclScope()))
    for user in ("acme", "bakery"):
        await secured.give(user, acls_of("producer", AclScope(streams=[STREAM])))


class Registry(NamedTuple):
    """A registry in this process, and what applications call it by."""

    mesh: Mesh
    network: MemoryNetwork

    def seen_by(self, user: str, security: Security) -> Mesh:
        """The mesh for an application of a Kafka user."""
        transport = MemoryTransport(self.network, user)
        return Mesh(system_host(), AioKafka(user, lambda _: security), transport, [ADDRESSES["registry"]], user, "")


@asynccontextmanager
async def registry_of(secured: SecuredKafka) -> AsyncIterator[Registry]:
    """A mesh of one registry in this process, which logs in as `service`, with the cluster registered."""
    host = system_host()
    server, network = MemoryStoreServer(host.clock), MemoryNetwork(host.clock, host.randomness)
    service = RegistryService(AioKafka("registry", lambda _: secured.security("service")))
    own = AioKafka("test")
    mesh = Mesh(host, own, MemoryTransport(network, "test"), [ADDRESSES["registry"]], "test", "")
    async with serving_replica(host, server, network, "registry", service), mesh:
        spec = cluster_pb2.ClusterSpec(bootstrap=secured.bootstrap, security_profile=CLUSTER)
        request = api.CreateClusterRequest(name=CLUSTER, spec=spec)

        async def registered() -> bool:
            try:
                await mesh.service("registry").unary("CreateCluster", request, cluster_pb2.Cluster)
            except BraidError as error:  # the broker has not heard of all ACLs yet
                print(error)
                return False
            return True

        await until(registered, "the cluster is registered", 30.0, poll=0.2)
        yield Registry(mesh, network)


async def create_stream(mesh: Mesh) -> None:
    """Creates the stream."""
    lanes = {"live": stream_pb2.LaneSpec(partitions=1)}
    spec = stream_pb2.StreamSpec(lanes=lanes, clusters=[CLUSTER], replication_factor=1)
    request = api.CreateStreamRequest(name=STREAM, spec=spec)
    await mesh.service("registry").unary("CreateStream", request, stream_pb2.Stream)


async def judged(mesh: Mesh, reasons: set[str]) -> None:
    """Notes every reason for which the cluster is doubted, until cancelled: a starved machine has its own."""
    request = api.GetClusterRequest(name=CLUSTER)
    while True:
        found = await mesh.service("registry").unary("GetCluster", request, cluster_pb2.Cluster)
        reasons.add(found.status.health_reason)
        await asyncio.sleep(0.2)


async def declare(mesh: Mesh, user: str) -> None:
    """Gives tenant acme a byte rate for one Kafka user."""
    quotas = tenant_pb2.TenantQuotas(producer_bytes_per_second=RATE)
    spec = tenant_pb2.TenantSpec(kafka_users=[tenant_pb2.KafkaUser(name=user)], quotas=quotas)
    request = tenant_pb2.SetTenantRequest(name="acme", spec=spec)
    await mesh.service("registry").unary("SetTenant", request, tenant_pb2.Tenant)


async def status(mesh: Mesh) -> tenant_pb2.KafkaQuotaStatus:
    """Where the tenant's quotas stand."""
    request = tenant_pb2.ListTenantsRequest(name="acme")
    found = await mesh.service("registry").unary("ListTenants", request, tenant_pb2.ListTenantsResponse)
    [told] = found.tenants[0].kafka_quotas
    return told


async def until_stands(mesh: Mesh, state: "tenant_pb2.KafkaQuotaState.ValueType") -> tenant_pb2.KafkaQuotaStatus:
    """Waits until the tenant's quotas stand so."""

    async def stands() -> bool:
        return (await status(mesh)).state == state

    await until(stands, "the tenant's quotas stand as they should", 30.0)
    return await status(mesh)


async def written_per_second(secured: SecuredKafka, registry: Registry, user: str, seconds: float) -> float:
    """Bytes a second that an application of a user gets acknowledged, as fast as it may."""
    acknowledged = 0
    async with registry.seen_by(user, secured.security(user)) as mesh, mesh.producer(STREAM) as producer:
        loop = asyncio.get_running_loop()
        await producer.send(b"first", lane="live")
        end = loop.time() + seconds

        async def send_on() -> None:
            nonlocal acknowledged
            while loop.time() < end:
                await producer.send(VALUE, lane="live")
                acknowledged += len(VALUE) * (loop.time() < end)

        sending = [asyncio.ensure_future(send_on()) for _ in range(AHEAD)]
        await asyncio.wait(sending, timeout=seconds + 0.5)  # what is held back may wait for seconds more
        for each in sending:
            each.cancel()
        await asyncio.gather(*sending, return_exceptions=True)
    return acknowledged / seconds


async def test_a_tenant_at_its_byte_rate_is_held_back_others_are_not(secured: SecuredKafka) -> None:
    admin = secured.seen_by(ADMIN).admin()
    async with registry_of(secured) as registry:
        mesh = registry.mesh
        await create_stream(mesh)
        with pytest.raises(Invalid, match="Braid's registry logs in as"):
            await declare(mesh, "service")
        await declare(mesh, "acme")
        told = await until_stands(mesh, tenant_pb2.KAFKA_QUOTA_STATE_REFUSED)
        assert (
            "lacks AlterConfigs on the cluster" in told.reason and "--operation AlterConfigs --cluster" in told.remedy
        )
        await secured.give("service", acls_of("service", AclScope(set_quotas=True)))
        await until_stands(mesh, tenant_pb2.KAFKA_QUOTA_STATE_APPLIED)
        assert await admin.client_quotas(["acme"]) == {QuotaEntity("acme"): {"producer_byte_rate": float(RATE)}}
        reasons = set[str]()
        judging = asyncio.ensure_future(judged(mesh, reasons))
        acme = await written_per_second(secured, registry, "acme", SENT_SECONDS)
        judging.cancel()
        bakery = await written_per_second(secured, registry, "bakery", FREE_SECONDS)
        print(f"acme {acme:,.0f} B/s of its {RATE:,}, bakery {bakery:,.0f} B/s")
        assert 0 < acme * SENT_SECONDS <= RATE * (WINDOW_SECONDS + SENT_SECONDS) + AHEAD * len(VALUE)
        assert bakery >= 5 * acme
        complaints = {reason for reason in reasons if "do not reach it" in reason}
        assert not complaints, "producers that wait as brokers ask have no failure to report"
        await mesh.service("registry").unary(
            "DeleteTenant", tenant_pb2.DeleteTenantRequest(name="acme"), tenant_pb2.Tenant
        )

        async def gone() -> bool:
            return await admin.client_quotas(["acme"]) == {}

        await until(gone, "the quota is gone", 30.0)
        free = await written_per_second(secured, registry, "acme", FREE_SECONDS)
        print(f"acme {free:,.0f} B/s without a quota")
        assert free >= 5 * acme
    await admin.close()
