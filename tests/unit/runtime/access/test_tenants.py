"""Tenants at replicas: a caller's principal decides, floods are refused at the door, and others go on."""

import asyncio
from collections.abc import Coroutine

import pytest

from braid.api.mesh.v1.event_pb2 import ListEventsRequest, ListEventsResponse
from braid.api.registry.v1.route_pb2 import WatchRoutesRequest
from braid.kernel.access.quotas import retry_seconds
from braid.kernel.access.table import TABLE
from braid.kernel.access.tenants import Quotas
from braid.kernel.errors import IdentityRevoked, QuotaExceeded, Unauthenticated, Unavailable
from braid.kernel.limits.access.rights import DOOR_HELD_MAX, DOOR_HOLD_MAX_SECONDS, DOOR_HOLD_SECONDS
from braid.kernel.ports import Caller, CallOptions, DuplexCall, RpcChannel
from braid.rpc.methods import method_path
from braid.runtime.access.revocation_history import RevokeIdentity
from braid.runtime.access.settings import AccessMode, AccessSettings
from braid.runtime.access.tenant_history import DeleteTenant, SetTenant
from braid.runtime.access.tenants import Tenants
from tests.support.virtual_time import run_virtual
from tests.unit.kernel.access.api import methods
from tests.unit.runtime.access.mesh import ADMIN, ANN, ENFORCED, Mesh

WEB = "spiffe://braid.local/acme/web"
BAKERY = "spiffe://braid.local/bakery/oven"
SERVICE = "spiffe://braid.local/service/assigner-0"
NONE = Quotas()
OPEN = AccessSettings(AccessMode.OPEN, (ADMIN,), services=ENFORCED.services)


def run(work: Coroutine[object, object, None]) -> None:
    run_virtual(work)


async def started(quotas: Quotas = NONE, *services: str) -> Mesh:
    """A mesh in which acme and bakery are tenants with the same quotas."""
    mesh = await Mesh(*services, access=OPEN).start()
    for name in ("acme", "bakery"):
        await declare(mesh, name, quotas)
    return mesh


async def declare(mesh: Mesh, name: str, quotas: Quotas) -> None:
    command = SetTenant(name, (f"spiffe://braid.local/{name}/*",), quotas)
    await mesh.replicas["registry"].tenants.execute(command, ANN)
    await asyncio.sleep(0.5)


async def ask(channel: RpcChannel, tenant: str = "default", service: str = "registry") -> None:
    path, options = method_path(service, "ListEvents"), CallOptions(5.0, tenant=tenant)
    await channel.unary(path, ListEventsRequest(), ListEventsResponse, options)


async def watch(channel: RpcChannel) -> DuplexCall:
    call = channel.duplex(method_path("registry", "WatchRoutes"), WatchRoutesRequest, CallOptions(5.0))
    await call.send(WatchRoutesRequest())
    assert await call.receive() is not None
    return call


async def answered(mesh: Mesh, principal: str | None, calls: int, tenant: str = "default") -> int:
    """How many of some calls at once are answered; the rest is refused for its tenant's quota."""
    channel = mesh.client("registry", principal, f"{principal} of {tenant}").channel
    results = await asyncio.gather(*(ask(channel, tenant) for _ in range(calls)), return_exceptions=True)
    refused = [each for each in results if each is not None]
    assert all(isinstance(each, QuotaExceeded) and retry_seconds(each) > 0 for each in refused), refused
    return calls - len(refused)


@pytest.mark.parametrize("service", TABLE)
def test_a_claim_of_another_tenant_is_refused_by_every_method(service: str) -> None:
    async def scenario() -> None:
        mesh = await started(Quotas(), service)
        client = mesh.client(service, WEB)
        await ask(client.channel, "acme", service)
        for method in (each for each in methods() if each.service == service):
            with pytest.raises(Unauthenticated, match=r"of tenant 'bakery'.*is of acme"):
                await client.call(method, method.message(), "bakery")
        assert not mesh.services[service].reached

    run(scenario())


def test_one_tenants_flood_is_refused_and_another_is_answered() -> None:
    async def scenario() -> None:
        mesh = await started(Quotas(requests_per_second=10))
        assert await answered(mesh, WEB, 1_000) == 10
        assert await answered(mesh, BAKERY, 10) == 10
        metrics = mesh.replicas["registry"].metrics.registry
        labels = {"tenant": "acme", "quota": "requests_per_second"}
        assert metrics.get_sample_value("braid_tenant_refusals_total", labels) == 990
        await asyncio.sleep(1.0)
        assert await answered(mesh, WEB, 1_000) == 10, "a second later it may begin as many"

    run(scenario())


def test_a_caller_in_a_loop_is_held_up_and_no_more_than_some_are() -> None:
    async def scenario() -> None:
        mesh = await started(Quotas(requests_per_second=1))
        channel, clock = mesh.client("registry", WEB).channel, mesh.me.host.clock
        await ask(channel)
        begun = clock.elapsed()
        held = [asyncio.ensure_future(ask(channel)) for _ in range(DOOR_HELD_MAX + 5)]
        await asyncio.sleep(DOOR_HOLD_SECONDS * 0.9)
        assert sum(each.done() for each in held) == 5, "those above the bound are answered at once"
        assert await answered(mesh, BAKERY, 1) == 1
        await asyncio.sleep((DOOR_HOLD_SECONDS + DOOR_HOLD_MAX_SECONDS) / 2 - (clock.elapsed() - begun))
        assert DOOR_HELD_MAX // 3 < sum(each.done() for each in held) < DOOR_HELD_MAX, "not all come back together"
        refused = await asyncio.gather(*held, return_exceptions=True)
        assert {type(each) for each in refused} == {QuotaExceeded}

    run(scenario())


def test_a_refused_request_is_not_parsed() -> None:
    async def scenario() -> None:
        mesh = await started(Quotas(requests_per_second=1))
        channel = mesh.client("registry", WEB).channel
        await ask(channel)
        call = channel.duplex(method_path("registry", "WatchRoutes"), WatchRoutesRequest, CallOptions(5.0))
        with pytest.raises(QuotaExceeded):  # although nothing was sent that could be read
            await call.receive()
        assert not mesh.services["registry"].reached

    run(scenario())


def test_open_streams_count_until_they_end() -> None:
    async def scenario() -> None:
        mesh = await started(Quotas(open_calls=2))
        channel, tenants = mesh.client("registry", WEB).channel, mesh.replicas["registry"].tenants
        first, _ = await watch(channel), await watch(channel)
        with pytest.raises(QuotaExceeded, match="tenant acme is at its limit of 2 open_calls"):
            await ask(channel)
        await first.close()
        await asyncio.sleep(0.1)
        await ask(channel)
        assert tenants.open_calls("acme") == 1
        gauge = mesh.replicas["registry"].metrics.registry.get_sample_value(
            "braid_tenant_open_calls", {"tenant": "acme"}
        )
        assert gauge == 1

    run(scenario())


@pytest.mark.parametrize("principal", [ADMIN, SERVICE])
def test_admins_and_services_pass_although_everybody_else_floods(principal: str) -> None:
    async def scenario() -> None:
        mesh = await started()
        await mesh.replicas["registry"].tenants.execute(SetTenant("default", (), Quotas(requests_per_second=1)), ANN)
        await asyncio.sleep(0.5)
        assert await answered(mesh, "spiffe://braid.local/app/anybody", 100) == 1
        assert await answered(mesh, principal, 100) == 100

    run(scenario())


def test_a_revoked_principal_uses_nothing_of_its_tenant() -> None:
    async def scenario() -> None:
        mesh = await started(Quotas(requests_per_second=2))
        stolen = "spiffe://braid.local/acme/stolen"
        await mesh.replicas["registry"].identities.execute(RevokeIdentity(stolen), ANN)
        await asyncio.sleep(0.5)
        for _ in range(10):
            with pytest.raises(IdentityRevoked):
                await ask(mesh.client("registry", stolen).channel)
        assert await answered(mesh, WEB, 2) == 2

    run(scenario())


def test_without_a_proof_the_tenant_that_is_claimed_is_limited() -> None:
    async def scenario() -> None:
        mesh = await started(Quotas(requests_per_second=5))
        assert await answered(mesh, None, 100, "acme") == 5
        assert await answered(mesh, None, 100) == 100, "services say no tenant, so nobody without one is limited"

    run(scenario())


def test_a_changed_quota_holds_and_a_deleted_tenant_has_none() -> None:
    async def scenario() -> None:
        mesh = await started(Quotas(requests_per_second=1))
        assert await answered(mesh, WEB, 50) == 1
        await declare(mesh, "acme", Quotas(requests_per_second=20))
        assert await answered(mesh, WEB, 50) == 20
        await mesh.replicas["registry"].tenants.execute(DeleteTenant("acme"), ANN)
        await asyncio.sleep(0.5)
        assert await answered(mesh, WEB, 50) == 50
        samples = {
            sample.labels.get("tenant")
            for metric in mesh.replicas["registry"].metrics.registry.collect()
            for sample in metric.samples
            if sample.name.startswith("braid_tenant")
        }
        assert "acme" not in samples

    run(scenario())


def test_nobody_is_in_a_wrong_tenant_before_the_list_was_read() -> None:
    async def scenario() -> None:
        mesh = await started()
        fresh = Tenants(mesh.replicas["registry"])
        with pytest.raises(Unavailable, match="has not read the tenants yet"):
            fresh.door(Caller(WEB, "default", "", "host", authenticated=True))
        caller, door = fresh.door(Caller(SERVICE, "default", "", "host", authenticated=True))
        assert (caller.principal, door) == (SERVICE, None)

    run(scenario())


def test_the_history_of_tenants_is_listed_by_name() -> None:
    async def scenario() -> None:
        mesh = await started()
        request = ListEventsRequest(history="tenants/mesh")
        path = method_path("registry", "ListEvents")
        found = await mesh.client("registry", ADMIN).channel.unary(path, request, ListEventsResponse, CallOptions(5.0))
        assert [each.type for each in found.events] == ["TenantSet", "TenantSet"]

    run(scenario())
