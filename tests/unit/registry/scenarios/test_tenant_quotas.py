"""Quotas of streams and partitions at the registry: created, moved, declared anew, at once, and after a failover."""

import asyncio
from collections.abc import Coroutine, Mapping

import pytest

from braid.api.registry.v1 import registry_service_pb2 as api
from braid.api.registry.v1 import stream_pb2, tenant_pb2
from braid.kernel.errors import Invalid, NotFound, QuotaExceeded
from tests.support.virtual_time import run_virtual
from tests.unit.registry.mesh import Mesh, two_clusters


def run(work: Coroutine[object, object, None]) -> None:
    run_virtual(work)


class Acme:
    """A client of tenant acme, in a mesh without identities: there the claim counts."""

    def __init__(self, mesh: Mesh, tenant: str = "acme") -> None:
        self.client = mesh.client_of(f"client of {tenant}", tenant=tenant)

    async def create(self, name: str, partitions: int = 2, *, dry_run: bool = False) -> stream_pb2.Stream:
        request = api.CreateStreamRequest(name=name, spec=spec({"live": partitions}), dry_run=dry_run)
        return await self.client.unary("CreateStream", request, stream_pb2.Stream)

    async def update(self, name: str, lanes: Mapping[str, int], *, dry_run: bool = False) -> None:
        request = api.UpdateStreamRequest(name=name, spec=spec(lanes), dry_run=dry_run)
        await self.client.unary("UpdateStream", request, stream_pb2.Stream)

    async def move(self, name: str, **order: object) -> None:
        request = api.MoveStreamRequest(stream=name, **order)  # type: ignore[arg-type]
        await self.client.unary("MoveStream", request, api.MoveStreamResponse)


def spec(lanes: Mapping[str, int]) -> stream_pb2.StreamSpec:
    declared = {name: stream_pb2.LaneSpec(partitions=number) for name, number in lanes.items()}
    return stream_pb2.StreamSpec(lanes=declared, clusters=["east", "west"])


async def set_tenant(mesh: Mesh, name: str = "acme", **quotas: int) -> tenant_pb2.Tenant:
    declared = tenant_pb2.TenantSpec(quotas=tenant_pb2.TenantQuotas(**quotas))
    request = tenant_pb2.SetTenantRequest(name=name, spec=declared)
    return await mesh.client.unary("SetTenant", request, tenant_pb2.Tenant)


async def tenants(mesh: Mesh, name: str = "") -> list[tenant_pb2.Tenant]:
    request = tenant_pb2.ListTenantsRequest(name=name)
    return list((await mesh.client.unary("ListTenants", request, tenant_pb2.ListTenantsResponse)).tenants)


async def refused(work: Coroutine[object, object, object]) -> QuotaExceeded:
    with pytest.raises(QuotaExceeded) as error:
        await work
    return error.value


def test_a_stream_belongs_to_its_creators_tenant() -> None:
    async def scenario() -> None:
        mesh = Mesh()
        assert (await two_clusters(mesh)).tenant == "default"
        assert (await Acme(mesh).create("orders")).tenant == "acme"
        assert (await mesh.stream("orders")).tenant == "acme"

    run(scenario())


def test_one_stream_too_many_is_refused_and_others_are_not() -> None:
    async def scenario() -> None:
        mesh = Mesh()
        await two_clusters(mesh)
        await set_tenant(mesh, streams=2)
        acme = Acme(mesh)
        await acme.create("a")
        await acme.create("b")
        error = await refused(acme.create("c"))
        assert error.metadata == {"tenant": "acme", "quota": "streams", "used": "2", "limit": "2"}
        assert (await refused(acme.create("c", dry_run=True))).metadata["quota"] == "streams"
        await Acme(mesh, "bakery").create("c")
        await mesh.create_stream("d")
        await acme.client.unary("DeleteStream", api.DeleteStreamRequest(name="a"), stream_pb2.Stream)
        await acme.create("e")

    run(scenario())


def test_a_repeated_request_is_answered_at_the_quota() -> None:
    async def scenario() -> None:
        mesh = Mesh()
        await two_clusters(mesh)
        await set_tenant(mesh, streams=1)
        request = api.CreateStreamRequest(name="a", spec=spec({"live": 1}))
        for _ in range(2):
            made = await Acme(mesh).client.unary("CreateStream", request, stream_pb2.Stream, request_id="same")
            assert made.name == "a"

    run(scenario())


def test_creations_at_once_do_not_pass_the_quota() -> None:
    async def scenario() -> None:
        mesh = Mesh()
        await two_clusters(mesh)
        await set_tenant(mesh, streams=3)
        mesh.slow_appends(0.2)
        acme = Acme(mesh)
        made = await asyncio.gather(*(acme.create(f"s{n}") for n in range(8)), return_exceptions=True)
        assert sum(isinstance(each, QuotaExceeded) for each in made) == 5
        assert (await tenants(mesh, "acme"))[0].use.streams == 3

    run(scenario())


def test_partitions_count_when_created_added_and_moved_to() -> None:
    async def scenario() -> None:
        mesh = Mesh()
        await two_clusters(mesh)
        await set_tenant(mesh, partitions=12)  # each stream has one more, of its lane dlq
        acme = Acme(mesh)
        assert (await refused(acme.create("a", 12))).metadata["used"] == "0"
        await acme.create("a", 4)
        await acme.create("b", 4)
        assert (await tenants(mesh, "acme"))[0].use.partitions == 10
        assert (await refused(acme.update("a", {"live": 4, "bulk": 3}))).metadata["quota"] == "partitions"
        assert (await refused(acme.update("a", {"live": 4, "bulk": 3}, dry_run=True))).metadata["used"] == "10"
        await acme.update("a", {"live": 4, "bulk": 2})
        order = {"lanes": ["live"], "to_cluster": "west"}
        assert (await refused(acme.move("b", partitions=5, **order))).metadata["used"] == "12"
        await acme.move("b", **order)
        await acme.move("b", lanes=["live"], to_cluster="east", partitions=2)
        assert (await tenants(mesh, "acme"))[0].use.partitions == 10
        spread = [api.ClusterShare(cluster=name, weight=1) for name in ("east", "west")]
        assert (await refused(acme.move("a", lanes=["live"], spread=spread))).metadata["quota"] == "partitions"

    run(scenario())


def test_a_failover_is_never_refused() -> None:
    async def scenario() -> None:
        mesh = Mesh()
        await two_clusters(mesh)
        stream = await Acme(mesh).create("a", 4)
        first = mesh.active(stream)[0]
        await set_tenant(mesh, streams=1, partitions=1)  # less than it has already
        other = {"east": "west", "west": "east"}[first]
        mesh.kafka.named(first).kill()
        await mesh.until_health(first, "DOWN", 5.0)
        await asyncio.sleep(5)
        assert mesh.active(await mesh.stream("a")) == [other]

    run(scenario())


def test_a_new_leader_knows_tenants_and_what_they_have() -> None:
    async def scenario() -> None:
        mesh = Mesh()
        await two_clusters(mesh, registries=2)
        await set_tenant(mesh, streams=1)
        await Acme(mesh).create("a")
        mesh.kill((await mesh.leader()).instance)
        await mesh.leader()
        assert (await refused(Acme(mesh).create("b"))).metadata["used"] == "1"

    run(scenario())


def test_tenants_are_listed_declared_anew_and_deleted() -> None:
    async def scenario() -> None:
        mesh = Mesh()
        await two_clusters(mesh)
        await set_tenant(mesh, "bakery", streams=5)
        await set_tenant(mesh, streams=1)
        dry = tenant_pb2.SetTenantRequest(name="acme", dry_run=True)
        assert not (await mesh.client.unary("SetTenant", dry, tenant_pb2.Tenant)).spec.HasField("quotas")
        assert [(each.name, each.spec.quotas.streams) for each in await tenants(mesh)] == [("acme", 1), ("bakery", 5)]
        await Acme(mesh).create("a")
        request = tenant_pb2.DeleteTenantRequest(name="acme")
        gone = await mesh.client.unary("DeleteTenant", request, tenant_pb2.Tenant)
        assert (gone.name, gone.use.streams) == ("acme", 1)
        with pytest.raises(NotFound):
            await mesh.client.unary("DeleteTenant", request, tenant_pb2.Tenant)
        assert (await mesh.stream("a")).tenant == "acme", "it keeps the name, and counts again for one declared anew"
        assert [each.name for each in await tenants(mesh)] == ["bakery"]

    run(scenario())


def test_a_tenant_out_of_form_is_refused_by_its_field() -> None:
    async def scenario() -> None:
        mesh = Mesh()
        await two_clusters(mesh)
        with pytest.raises(Invalid) as error:
            await set_tenant(mesh, streams=-1)
        assert error.value.field == "spec.quotas.streams"

    run(scenario())
