"""Revoked identities at replicas: refused by every method of every service in every mode, and their streams end."""

import asyncio
from collections.abc import Coroutine
from dataclasses import replace

import pytest

from braid.api.assigner.v1.join_pb2 import JoinRequest
from braid.api.mesh.v1.event_pb2 import EventRecord, ListEventsRequest, ListEventsResponse, WatchEventsRequest
from braid.api.registry.v1 import registry_service_pb2 as registry
from braid.api.registry.v1.revocation_pb2 import RevokeIdentityRequest
from braid.api.registry.v1.route_pb2 import WatchRoutesRequest
from braid.kernel.access.table import TABLE
from braid.kernel.errors import AccessDenied, BraidError, IdentityRevoked, Unauthenticated, Unavailable
from braid.kernel.ports import Caller, CallOptions, DuplexCall, RpcChannel
from braid.rpc.memory.transport import MemoryTransport, memory_certificate
from braid.rpc.methods import method_path
from braid.runtime.access.identities import Identities
from braid.runtime.access.open_streams import OpenStreams
from braid.runtime.access.revocation_history import LiftRevocation, RevokeIdentity
from braid.runtime.access.settings import AccessMode, AccessSettings
from tests.support.virtual_time import run_virtual
from tests.unit.kernel.access.api import methods
from tests.unit.runtime.access.mesh import ADMIN, ANN, Client, Mesh

ORDERS = "spiffe://braid.local/app/orders"
OTHER = "spiffe://braid.local/app/other"
OPEN = AccessSettings(AccessMode.OPEN, (ADMIN,))
OPTIONS = CallOptions(5.0)
NOTICED_SECONDS = 1.0


def run(work: Coroutine[object, object, None]) -> None:
    run_virtual(work)


async def revoke(mesh: Mesh, identity: str) -> None:
    await mesh.replicas["registry"].identities.execute(RevokeIdentity(identity, reason="stolen"), ANN)


async def lift(mesh: Mesh, identity: str) -> None:
    await mesh.replicas["registry"].identities.execute(LiftRevocation(identity), ANN)


async def get_stream(channel: RpcChannel) -> None:
    path = method_path("registry", "GetStream")
    await channel.unary(path, registry.GetStreamRequest(name="logs"), registry.GetStreamRequest, OPTIONS)


async def watch_routes(client: Client) -> DuplexCall:
    call = client.channel.duplex(method_path("registry", "WatchRoutes"), WatchRoutesRequest, OPTIONS)
    await call.send(WatchRoutesRequest())
    assert await call.receive() is not None
    return call


async def ends(call: DuplexCall) -> IdentityRevoked:
    """The refusal that ends a stream; it comes in time, or the test fails."""
    async with asyncio.timeout(NOTICED_SECONDS):
        with pytest.raises(IdentityRevoked) as ended:
            while await call.receive() is not None:
                pass
    return ended.value


@pytest.mark.parametrize("service", TABLE)
def test_every_method_refuses_a_revoked_principal_in_open_access(service: str) -> None:
    async def scenario() -> None:
        mesh = await Mesh(service, access=OPEN).start()
        await revoke(mesh, ORDERS)
        await asyncio.sleep(NOTICED_SECONDS)
        client, reached = mesh.client(service, ORDERS), mesh.services[service].reached
        for method in (each for each in methods() if each.service == service):
            with pytest.raises(IdentityRevoked) as refused:
                await client.call(method, method.message())
            assert refused.value.message == f"{method.name}: {ORDERS} was revoked: stolen"
            assert refused.value.metadata == {"identity": ORDERS, "principal": ORDERS, "method": method.name}
        assert not reached
        counted = mesh.replicas[service].metrics.registry.get_sample_value(
            "braid_access_refusals_total", {"method": "ListEvents", "reason": "revoked"}
        )
        assert counted == 1

    run(scenario())


def test_grants_and_settings_do_not_help_a_revoked_admin() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start()
        await revoke(mesh, ADMIN)
        await asyncio.sleep(NOTICED_SECONDS)
        with pytest.raises(IdentityRevoked):
            await get_stream(mesh.client("registry", ADMIN).channel)

    run(scenario())


@pytest.mark.parametrize("service", ["registry", "assigner"])
def test_open_streams_end_at_once_and_those_of_others_go_on(service: str) -> None:
    method = {"registry": ("WatchRoutes", WatchRoutesRequest), "assigner": ("Join", JoinRequest)}[service]

    async def stream(mesh: Mesh, principal: str) -> DuplexCall:
        call = mesh.client(service, principal).channel.duplex(method_path(service, method[0]), method[1], OPTIONS)
        await call.send(method[1]())
        assert await call.receive() is not None
        return call

    async def scenario() -> None:
        mesh = await Mesh(service, access=OPEN).start()
        lost, kept = await stream(mesh, ORDERS), await stream(mesh, OTHER)
        events = mesh.client(service, ORDERS).channel.server_stream(
            method_path(service, "WatchEvents"), WatchEventsRequest(), EventRecord, OPTIONS
        )
        waiting = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0.1)
        await revoke(mesh, ORDERS)
        assert (await ends(lost)).metadata["identity"] == ORDERS
        async with asyncio.timeout(NOTICED_SECONDS):
            with pytest.raises(IdentityRevoked):
                await waiting
        await kept.send(method[1]())
        assert await kept.receive() is not None

    run(scenario())


@pytest.mark.parametrize("mutated", [(OpenStreams, "look_at_callers"), (Identities, "guards")])
def test_a_mutant_that_ignores_open_streams_or_calls_is_found(
    mutated: tuple[type, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(*mutated, lambda *arguments: False)

    async def scenario() -> None:
        mesh = await Mesh(access=OPEN).start()
        lost = await watch_routes(mesh.client("registry", ORDERS))
        await revoke(mesh, ORDERS)
        with pytest.raises(TimeoutError):
            await ends(lost)

    run(scenario())


@pytest.mark.parametrize("form", ["sha256", "serial"])
def test_only_the_revoked_certificate_of_a_principal_is_out(form: str) -> None:
    async def scenario() -> None:
        mesh = await Mesh(access=OPEN).start()
        old, new = memory_certificate(ORDERS), memory_certificate(ORDERS, 2)
        transport = MemoryTransport(mesh.network, "orders-0", ORDERS)
        channel = transport.channel("registry:1")
        transport.show(new)
        later = transport.channel("registry:1")
        identity = f"sha256:{old.fingerprint}" if form == "sha256" else f"serial:{old.serial}"
        lost = await watch_routes(Client("registry", channel))
        kept = await watch_routes(Client("registry", later))
        await revoke(mesh, identity)
        assert (await ends(lost)).message == f"WatchRoutes: the certificate {identity} of {ORDERS} was revoked: stolen"
        with pytest.raises(IdentityRevoked):
            await get_stream(channel)
        await get_stream(later)
        await kept.send(WatchRoutesRequest())
        assert await kept.receive() is not None

    run(scenario())


def test_who_is_lifted_is_served_again() -> None:
    async def scenario() -> None:
        mesh = await Mesh(access=OPEN).start()
        channel = mesh.client("registry", ORDERS).channel
        await revoke(mesh, ORDERS)
        await asyncio.sleep(NOTICED_SECONDS)
        with pytest.raises(IdentityRevoked):
            await get_stream(channel)
        await lift(mesh, ORDERS)
        await asyncio.sleep(NOTICED_SECONDS)
        await get_stream(channel)

    run(scenario())


def test_a_caller_without_a_certificate_has_nothing_to_revoke() -> None:
    async def scenario() -> None:
        mesh = await Mesh(access=OPEN).start()
        await revoke(mesh, ORDERS)
        await asyncio.sleep(NOTICED_SECONDS)
        channel = mesh.client("registry", None).channel
        path = method_path("registry", "GetStream")
        claiming = replace(OPTIONS, principal=ORDERS)
        await channel.unary(path, registry.GetStreamRequest(), registry.GetStreamRequest, claiming)

    run(scenario())


def test_the_last_list_holds_while_registry_and_store_are_away() -> None:
    async def scenario() -> None:
        mesh = await Mesh("assigner", access=OPEN).start()
        await revoke(mesh, ORDERS)
        await asyncio.sleep(NOTICED_SECONDS)
        mesh.network.kill("registry-0")
        mesh.processes["registry"].kill()
        mesh.stores["assigner"].disconnect()
        await asyncio.sleep(300)
        for principal, refused in ((ORDERS, True), (OTHER, False)):
            path, request = method_path("assigner", "ListEndpoints"), methods()
            assert request
            caller = Caller(principal, "default", "", "x", authenticated=True)
            if refused:
                with pytest.raises(IdentityRevoked):
                    mesh.replicas["assigner"].identities.authorize(path, None, caller)
            else:
                mesh.replicas["assigner"].identities.authorize(path, None, caller)

    run(scenario())


def test_a_replica_without_the_list_serves_no_certificate_holder() -> None:
    async def scenario() -> None:
        mesh = Mesh("assigner", access=OPEN)
        mesh.stores["assigner"].disconnect()
        await asyncio.sleep(5)
        client = mesh.client("assigner", OTHER)
        endpoints = next(each for each in methods() if each.name == "ListEndpoints" and each.service == "assigner")
        with pytest.raises(Unavailable, match="assigner-0 has not read yet who is revoked"):
            await client.call(endpoints, endpoints.message())
        assert not mesh.network.serving("assigner:1")
        mesh.stores["assigner"].reconnect()
        await mesh.replicas["assigner"].ready()
        await client.call(endpoints, endpoints.message())

    run(scenario())


def test_an_unreadable_list_keeps_the_last_one_and_opens_nothing() -> None:
    """A list that a newer release wrote: a replica that starts over it does not serve."""

    async def scenario() -> None:
        mesh = await Mesh("lagmon", access=OPEN).start()
        await revoke(mesh, ORDERS)
        await asyncio.sleep(NOTICED_SECONDS)
        registry_replica = mesh.replicas["registry"]
        held = registry_replica.require_leader()
        history = registry_replica.identities.histories.histories()[0]
        await mesh.stores["registry"].append(history, [b"\xff"], 1, held.leader.fence)
        await asyncio.sleep(NOTICED_SECONDS)
        with pytest.raises(IdentityRevoked):
            await mesh.client("lagmon", ORDERS).channel.unary(
                method_path("lagmon", "ListEvents"), ListEventsRequest(), ListEventsResponse, OPTIONS
            )
        late = mesh.begin("dlq", OPEN)
        await asyncio.sleep(5)
        with pytest.raises(Unavailable, match="not read yet who is revoked"):
            late.identities.require_known()
        assert not mesh.network.serving("dlq:1")

    run(scenario())


def test_only_an_admin_over_mutual_tls_revokes_in_open_access() -> None:
    async def scenario() -> None:
        mesh = await Mesh(access=OPEN).start()
        path = method_path("registry", "RevokeIdentity")
        attempts: list[tuple[str | None, type[BraidError], str]] = [
            (None, Unauthenticated, "connect by mutual TLS"),
            (ORDERS, AccessDenied, f"braid grant admin --to {ORDERS}"),
        ]
        for principal, error, remedy in attempts:
            with pytest.raises(error) as refused:
                channel = mesh.client("registry", principal).channel
                await channel.unary(path, RevokeIdentityRequest(), RevokeIdentityRequest, OPTIONS)
            assert remedy in refused.value.remedy
        await mesh.client("registry", ADMIN).channel.unary(
            path, RevokeIdentityRequest(), RevokeIdentityRequest, OPTIONS
        )
        assert mesh.services["registry"].reached["RevokeIdentity"] == 1

    run(scenario())
