"""Tenants' quotas of bytes reach every cluster and leave it again, whatever befalls leaders and clusters meanwhile."""

import asyncio
from collections.abc import Mapping
from unittest import mock

import pytest

from braid.api.registry.v1 import cluster_pb2, tenant_pb2
from braid.api.registry.v1 import registry_service_pb2 as api
from braid.kafka.memory import MemoryCluster
from braid.kafka.memory.world import MemoryProcess
from braid.kernel.errors import ClusterAccessDenied, Invalid
from braid.kernel.limits.registry.resources import (
    CLIENT_QUOTAS_ABSENT_SECONDS,
    CLIENT_QUOTAS_LOOK_SECONDS,
    CLIENT_QUOTAS_RETRY_SECONDS,
)
from braid.kernel.ports import CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE, QuotaEntity
from services.registry.histories import CLUSTERS
from services.registry.model.clusters.client_quotas import ClientQuota
from tests.unit.registry.mesh import Mesh
from tests.unit.registry.scenarios.test_requests import play, refused

SHOP, WEB = QuotaEntity("shop"), QuotaEntity("web")
RATE = 1_000_000
APPLIED, PENDING, REFUSED = (
    tenant_pb2.KAFKA_QUOTA_STATE_APPLIED,
    tenant_pb2.KAFKA_QUOTA_STATE_PENDING,
    tenant_pb2.KAFKA_QUOTA_STATE_REFUSED,
)
SOON_SECONDS = 3.0
FORGOTTEN_SECONDS = 3 * CLIENT_QUOTAS_LOOK_SECONDS + CLIENT_QUOTAS_ABSENT_SECONDS


async def began(mesh: Mesh) -> MemoryCluster:
    await mesh.start_registry("registry-0")
    await mesh.start_assigner()
    for name in ("east", "west"):
        await mesh.create_cluster(name)
    return mesh.kafka.named("east")


async def declare(mesh: Mesh, name: str = "acme", rate: int = RATE, user: str = "shop", **more: object) -> None:
    users = [tenant_pb2.KafkaUser(name=user, **more)]  # type: ignore[arg-type]
    spec = tenant_pb2.TenantSpec(kafka_users=users, quotas=tenant_pb2.TenantQuotas(producer_bytes_per_second=rate))
    await mesh.client.unary("SetTenant", tenant_pb2.SetTenantRequest(name=name, spec=spec), tenant_pb2.Tenant)


async def delete(mesh: Mesh, name: str = "acme") -> None:
    await mesh.client.unary("DeleteTenant", tenant_pb2.DeleteTenantRequest(name=name), tenant_pb2.Tenant)


async def listed(mesh: Mesh) -> tenant_pb2.ListTenantsResponse:
    return await mesh.client.unary("ListTenants", tenant_pb2.ListTenantsRequest(), tenant_pb2.ListTenantsResponse)


async def states(mesh: Mesh, name: str = "acme") -> dict[str, tenant_pb2.KafkaQuotaStatus]:
    [tenant] = [each for each in (await listed(mesh)).tenants if each.name == name]
    return {each.cluster: each for each in tenant.kafka_quotas}


async def until_state(
    mesh: Mesh, cluster: str, state: int, seconds: float, name: str = "acme"
) -> tenant_pb2.KafkaQuotaStatus:
    deadline = mesh.me.host.clock.elapsed() + seconds
    while (found := (await states(mesh, name))[cluster]).state != state:
        assert mesh.me.host.clock.elapsed() < deadline, f"still {found}"
        await asyncio.sleep(0.1)
    return found


def on(mesh: Mesh, cluster: str, *users: str) -> Mapping[QuotaEntity, Mapping[str, float]]:
    return mesh.kafka.named(cluster).client_quotas.describe(users or ("shop", "web"))


async def until_on(
    mesh: Mesh, cluster: str, expected: Mapping[QuotaEntity, Mapping[str, float]], seconds: float = SOON_SECONDS
) -> None:
    await mesh.until(lambda: on(mesh, cluster) == expected, seconds, f"{cluster} has {on(mesh, cluster)}")


def remembered(mesh: Mesh, cluster: str) -> tuple[ClientQuota, ...]:
    replica = next(each for name, each in mesh.replicas.items() if name.startswith("registry"))
    return replica.aggregates.state(CLUSTERS, cluster).client_quotas


def test_a_tenants_quotas_reach_every_cluster_and_leave_again() -> None:
    async def scene(mesh: Mesh) -> None:
        await began(mesh)
        await declare(mesh)
        for cluster in ("east", "west"):
            await until_on(mesh, cluster, {SHOP: {PRODUCER_BYTE_RATE: RATE}})
            await until_state(mesh, cluster, APPLIED, SOON_SECONDS)
        await declare(mesh, rate=2 * RATE, clusters=["east"])
        await until_on(mesh, "east", {SHOP: {PRODUCER_BYTE_RATE: 2 * RATE}})
        await until_on(mesh, "west", {})
        assert list(await states(mesh)) == ["east"]
        await delete(mesh)
        await until_on(mesh, "east", {})
        await asyncio.sleep(FORGOTTEN_SECONDS)
        assert not remembered(mesh, "east") and not remembered(mesh, "west")
        assert not (await listed(mesh)).leftovers

    play(scene)


def test_a_mesh_without_byte_quotas_asks_no_cluster_for_any() -> None:
    async def scene(mesh: Mesh) -> None:
        east = await began(mesh)
        with mock.patch.object(east.client_quotas, "describe", side_effect=AssertionError):
            await asyncio.sleep(3 * CLIENT_QUOTAS_LOOK_SECONDS)
        assert not east.client_quotas.changes

    play(scene)


def test_quotas_of_users_that_nobody_names_are_never_touched() -> None:
    async def scene(mesh: Mesh) -> None:
        east = await began(mesh)
        east.client_quotas.alter(WEB, {PRODUCER_BYTE_RATE: 5})
        east.client_quotas.alter(SHOP, {CONSUMER_BYTE_RATE: 9})
        await declare(mesh)
        both = {SHOP: {CONSUMER_BYTE_RATE: 9.0, PRODUCER_BYTE_RATE: RATE}, WEB: {PRODUCER_BYTE_RATE: 5.0}}
        await until_on(mesh, "east", both)
        await delete(mesh)
        await until_on(mesh, "east", {SHOP: {CONSUMER_BYTE_RATE: 9.0}, WEB: {PRODUCER_BYTE_RATE: 5.0}})

    play(scene)


def test_a_foreign_quota_is_told_and_taken_over_on_demand() -> None:
    async def scene(mesh: Mesh) -> None:
        east = await began(mesh)
        east.client_quotas.alter(SHOP, {PRODUCER_BYTE_RATE: 7})
        await declare(mesh)
        told = await until_state(mesh, "east", REFUSED, SOON_SECONDS)
        assert "user shop has producer_byte_rate 7, which Braid did not set" in told.reason
        assert "take_over: true" in told.remedy
        await until_state(mesh, "west", APPLIED, SOON_SECONDS)
        assert on(mesh, "east") == {SHOP: {PRODUCER_BYTE_RATE: 7.0}}
        await declare(mesh, take_over=True)
        await until_on(mesh, "east", {SHOP: {PRODUCER_BYTE_RATE: RATE}})
        await until_state(mesh, "east", APPLIED, SOON_SECONDS)
        await delete(mesh)
        await until_on(mesh, "east", {})

    play(scene)


def test_a_value_that_somebody_changed_is_set_back() -> None:
    async def scene(mesh: Mesh) -> None:
        east = await began(mesh)
        await declare(mesh)
        await until_on(mesh, "east", {SHOP: {PRODUCER_BYTE_RATE: RATE}})
        east.client_quotas.alter(SHOP, {PRODUCER_BYTE_RATE: 7})
        await until_on(mesh, "east", {SHOP: {PRODUCER_BYTE_RATE: RATE}}, 2 * CLIENT_QUOTAS_LOOK_SECONDS)
        east.client_quotas.alter(SHOP, {PRODUCER_BYTE_RATE: None})
        await until_on(mesh, "east", {SHOP: {PRODUCER_BYTE_RATE: RATE}}, 2 * CLIENT_QUOTAS_LOOK_SECONDS)

    play(scene)


def test_a_cluster_that_is_away_holds_up_no_other_one() -> None:
    async def scene(mesh: Mesh) -> None:
        east = await began(mesh)
        await asyncio.sleep(1)
        east.kill()
        await declare(mesh)
        await until_on(mesh, "west", {SHOP: {PRODUCER_BYTE_RATE: RATE}})
        told = (await states(mesh))["east"]
        assert told.state == PENDING and told.reason
        await asyncio.sleep(20)
        assert "east is DOWN" in (await states(mesh))["east"].reason
        east.start()
        await until_on(mesh, "east", {SHOP: {PRODUCER_BYTE_RATE: RATE}}, 2 * CLIENT_QUOTAS_RETRY_SECONDS[1])
        await until_state(mesh, "east", APPLIED, SOON_SECONDS)

    play(scene)


def test_a_tenant_deleted_while_a_cluster_is_away_leaves_nothing() -> None:
    async def scene(mesh: Mesh) -> None:
        east = await began(mesh)
        await declare(mesh)
        await until_on(mesh, "east", {SHOP: {PRODUCER_BYTE_RATE: RATE}})
        east.kill()
        await delete(mesh)
        await asyncio.sleep(20)
        [left] = (await listed(mesh)).leftovers
        assert (left.cluster, left.state) == ("east", PENDING) and "east is DOWN" in left.reason
        mesh.kill("registry-0")
        await mesh.start_registry("registry-1")
        east.start()
        await until_on(mesh, "east", {}, 2 * CLIENT_QUOTAS_RETRY_SECONDS[1])
        assert not (await listed(mesh)).leftovers

    play(scene)


@pytest.mark.parametrize("after_seconds", [0.1, 0.35, 0.55, 0.75, 0.95])
@pytest.mark.parametrize("deleting", [False, True])
def test_the_next_leader_ends_what_a_dead_one_began(after_seconds: float, deleting: bool) -> None:
    """Each request takes a fifth of a second, so that leaders die before, at and after each of them."""

    async def scene(mesh: Mesh) -> None:
        east = await began(mesh)
        if deleting:
            await declare(mesh)
            await until_on(mesh, "east", {SHOP: {PRODUCER_BYTE_RATE: RATE}})
        east.slow_seconds = 0.2
        await (delete if deleting else declare)(mesh)
        await asyncio.sleep(after_seconds)
        mesh.kill("registry-0")
        await mesh.start_registry("registry-1")
        east.slow_seconds = 0.0
        await until_on(mesh, "east", {} if deleting else {SHOP: {PRODUCER_BYTE_RATE: RATE}}, 30.0)
        if not deleting:
            await until_state(mesh, "east", APPLIED, 30.0)
            await delete(mesh)
            await until_on(mesh, "east", {})

    play(scene)


def test_a_new_leader_reads_all_tenants_before_it_removes_any() -> None:
    async def scene(mesh: Mesh) -> None:
        east = await began(mesh)
        await mesh.start_registry("registry-1")
        mesh.stores["registry-1"].latency = lambda operation: 20.0 if operation == "watch" else 0.0
        await declare(mesh)
        await until_on(mesh, "east", {SHOP: {PRODUCER_BYTE_RATE: RATE}})
        changes = east.client_quotas.changes
        mesh.kill("registry-0")
        await mesh.leader()
        await asyncio.sleep(10)
        assert on(mesh, "east") and east.client_quotas.changes == changes
        assert [each.name for each in (await listed(mesh)).tenants] == ["acme"]

    play(scene)


def test_a_late_write_of_a_deposed_leader_is_taken_back() -> None:
    async def scene(mesh: Mesh) -> None:
        east = await began(mesh)
        await declare(mesh)
        await until_on(mesh, "east", {SHOP: {PRODUCER_BYTE_RATE: RATE}})
        await delete(mesh)
        await until_on(mesh, "east", {})
        await asyncio.sleep(CLIENT_QUOTAS_LOOK_SECONDS + CLIENT_QUOTAS_ABSENT_SECONDS / 2)  # it was seen to be gone
        east.client_quotas.alter(SHOP, {PRODUCER_BYTE_RATE: RATE})  # sent while it led, taken only now
        await until_on(mesh, "east", {}, 2 * CLIENT_QUOTAS_LOOK_SECONDS)

    play(scene)


def test_a_missing_permission_is_named_and_holds_nothing_up() -> None:
    denied = ClusterAccessDenied("it lacks AlterConfigs on the cluster", remedy="kafka-acls.sh --add …")

    async def scene(mesh: Mesh) -> None:
        east = await began(mesh)
        with mock.patch.object(east.client_quotas, "alter", side_effect=denied):
            await declare(mesh)
            told = await until_state(mesh, "east", REFUSED, SOON_SECONDS)
            assert (told.reason, told.remedy) == (denied.message, denied.remedy)
            await until_state(mesh, "west", APPLIED, SOON_SECONDS)
        await until_state(mesh, "east", APPLIED, 2 * CLIENT_QUOTAS_RETRY_SECONDS[1])

    play(scene)


def test_a_quota_that_kafka_refuses_keeps_no_other_one_out() -> None:
    async def scene(mesh: Mesh) -> None:
        east = await began(mesh)
        real = east.client_quotas.alter

        def alter(entity: QuotaEntity, changes: Mapping[str, float | None]) -> None:
            if entity == WEB:
                raise Invalid("no such key")
            real(entity, changes)

        with mock.patch.object(east.client_quotas, "alter", alter):
            await declare(mesh, "bakery", user="web")
            await declare(mesh)
            told = await until_state(mesh, "east", REFUSED, SOON_SECONDS, "bakery")
            assert told.reason == "no such key"
            await until_state(mesh, "east", APPLIED, SOON_SECONDS)
        assert on(mesh, "east") == {SHOP: {PRODUCER_BYTE_RATE: RATE}}

    play(scene)


def test_a_user_that_the_registry_logs_in_as_is_refused() -> None:
    async def scene(mesh: Mesh) -> None:
        await began(mesh)
        with mock.patch.object(MemoryProcess, "user", return_value="braid"):
            error = await refused(declare(mesh, user="braid"), Invalid, "spec.kafka_users[0].name")
            assert "Braid's registry logs in as on cluster east" in error.message
            await declare(mesh, user="braid", clusters=["north"])
        await declare(mesh)
        await until_on(mesh, "east", {SHOP: {PRODUCER_BYTE_RATE: RATE}})
        with mock.patch.object(MemoryProcess, "user", return_value="shop"):  # its profile changed
            told = await until_state(mesh, "east", REFUSED, 2 * CLIENT_QUOTAS_LOOK_SECONDS)
            assert "logs in as" in told.reason
            await until_on(mesh, "east", {}, 2 * CLIENT_QUOTAS_LOOK_SECONDS)

    play(scene)


def test_a_cluster_that_nobody_registered_is_told() -> None:
    async def scene(mesh: Mesh) -> None:
        await began(mesh)
        await declare(mesh, clusters=["north"])
        assert (await states(mesh))["north"].reason == "there is no cluster north"
        await mesh.create_cluster("north")
        await until_state(mesh, "north", APPLIED, 2 * CLIENT_QUOTAS_LOOK_SECONDS)
        assert on(mesh, "north") and not on(mesh, "east")

    play(scene)


def test_a_cluster_that_comes_back_empty_gets_its_quotas_again() -> None:
    async def scene(mesh: Mesh) -> None:
        east = await began(mesh)
        await declare(mesh)
        await until_on(mesh, "east", {SHOP: {PRODUCER_BYTE_RATE: RATE}})
        east.kill()
        east.empty()
        await asyncio.sleep(15)
        east.start()
        await until_on(mesh, "east", {SHOP: {PRODUCER_BYTE_RATE: RATE}}, 3 * CLIENT_QUOTAS_RETRY_SECONDS[1])
        await until_state(mesh, "east", APPLIED, SOON_SECONDS)
        await asyncio.sleep(2 * CLIENT_QUOTAS_LOOK_SECONDS)
        assert (await states(mesh))["east"].state == APPLIED

    play(scene)


def test_a_decommissioned_cluster_keeps_no_quota() -> None:
    async def scene(mesh: Mesh) -> None:
        await began(mesh)
        await declare(mesh)
        await until_on(mesh, "east", {SHOP: {PRODUCER_BYTE_RATE: RATE}})
        request = api.DecommissionClusterRequest(name="east", reason="it leaks")
        await mesh.client.unary("DecommissionCluster", request, api.DecommissionClusterResponse)
        await until_on(mesh, "east", {}, 2 * CLIENT_QUOTAS_LOOK_SECONDS)
        assert on(mesh, "west")

    play(scene)


def test_another_meshs_cluster_is_not_touched() -> None:
    async def scene(mesh: Mesh) -> None:
        await began(mesh)
        cluster = mesh.replicas["registry-0"].aggregates.state(CLUSTERS, "east")
        with mock.patch.object(type(cluster.belonging), "refusal", "marked by mesh 01J"):
            await declare(mesh)
            told = await until_state(mesh, "east", PENDING, SOON_SECONDS)
            await asyncio.sleep(5)
            told = (await states(mesh))["east"]
            assert "marked by mesh 01J" in told.reason and not on(mesh, "east")
        await until_state(mesh, "east", APPLIED, 2 * CLIENT_QUOTAS_RETRY_SECONDS[1])

    play(scene)


def test_a_deleted_cluster_is_shown_no_more() -> None:
    async def scene(mesh: Mesh) -> None:
        await began(mesh)
        await declare(mesh)
        await until_state(mesh, "east", APPLIED, SOON_SECONDS)
        await mesh.client.unary("DeleteCluster", api.DeleteClusterRequest(name="east"), cluster_pb2.Cluster)
        assert list(await states(mesh)) == ["west"]

    play(scene)
