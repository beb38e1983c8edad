"""A replica's access control: it learns of grants, ends open streams, and keeps its last knowledge."""

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path

import pytest

from braid.api.assigner.v1.assigner_service_pb2 import GetGroupRequest
from braid.api.assigner.v1.group_pb2 import GroupSpec
from braid.api.assigner.v1.join_pb2 import Heartbeat, JoinRequest, MemberHello
from braid.api.lagmon.v1.lagmon_service_pb2 import WatchLagRequest
from braid.api.mesh.v1.event_pb2 import EventRecord, WatchEventsRequest
from braid.api.registry.v1 import registry_service_pb2 as registry
from braid.api.registry.v1.grant_pb2 import CheckAccessRequest, GrantAccessRequest
from braid.api.registry.v1.route_pb2 import ChannelLeft, ProducerHello, WatchChannelsRequest, WatchRoutesRequest
from braid.kernel.access.roles import MESH, Resource, ResourceKind, Role
from braid.kernel.errors import AccessDenied, DeadlineExceeded, Unauthenticated, Unavailable
from braid.kernel.limits.access.rights import ACCESS_RECHECK_SECONDS, REFUSAL_LOG_SECONDS, REFUSALS_REMEMBERED_MAX
from braid.kernel.limits.rpc import HELLO_SECONDS
from braid.kernel.ports import Caller, CallOptions, DuplexCall
from braid.rpc.methods import method_path
from braid.runtime.access.refusals import DENIED, Refusals
from braid.runtime.access.settings import AccessMode, AccessSettings
from braid.runtime.telemetry import logger, make_metrics
from tests.support.virtual_time import VirtualProcess, run_virtual, running_loop
from tests.unit.runtime.access.mesh import ADMIN, ENFORCED, Client, Mesh

ORDERS = "spiffe://braid.local/app/orders"
LOGS, PAY = Resource(ResourceKind.STREAM, "logs"), Resource(ResourceKind.STREAM, "pay")
INDEXER = Resource(ResourceKind.GROUP, "indexer")
OPTIONS = CallOptions(5.0)


def run(work: Coroutine[object, object, None]) -> None:
    run_virtual(work)


async def get_stream(client: Client, name: str = "logs") -> None:
    path = method_path("registry", "GetStream")
    await client.channel.unary(path, registry.GetStreamRequest(name=name), registry.GetStreamRequest, OPTIONS)


async def watch_routes(client: Client, stream: str = "logs") -> DuplexCall:
    call = client.channel.duplex(method_path("registry", "WatchRoutes"), WatchRoutesRequest, OPTIONS)
    await call.send(WatchRoutesRequest(hello=ProducerHello(stream=stream)))
    assert await call.receive() is not None
    return call


async def join(client: Client, *streams: str) -> DuplexCall:
    call = client.channel.duplex(method_path("assigner", "Join"), JoinRequest, OPTIONS)
    await call.send(JoinRequest(hello=MemberHello(group="indexer", spec=GroupSpec(streams=streams))))
    assert await call.receive() is not None
    return call


def refusals(mesh: Mesh, service: str, method: str, reason: str) -> float:
    found = mesh.replicas[service].metrics.registry.get_sample_value(
        "braid_access_refusals_total", {"method": method, "reason": reason}
    )
    return found or 0.0


def test_a_refusal_says_what_is_missing_and_is_counted() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start()
        with pytest.raises(AccessDenied) as refused:
            await get_stream(mesh.client("registry", ORDERS))
        error = refused.value
        assert error.message == f"GetStream: {ORDERS} may not view stream/logs: it is not viewer on stream/logs"
        assert error.remedy == f"an admin can allow it: braid grant viewer --to {ORDERS} --on stream/logs"
        facts = {"principal": ORDERS, "action": "view", "resource": "stream/logs", "method": "GetStream"}
        assert error.metadata == facts
        with pytest.raises(Unauthenticated):
            await get_stream(mesh.client("registry", None))
        assert refusals(mesh, "registry", "GetStream", "denied") == 1
        assert refusals(mesh, "registry", "GetStream", "unauthenticated") == 1

    run(scenario())


def test_a_claim_is_worth_nothing_without_a_proof() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start()
        client = mesh.client("registry", None)
        options = replace(OPTIONS, principal=ADMIN)
        with pytest.raises(Unauthenticated):
            await client.channel.unary(
                method_path("registry", "ListStreams"), registry.ListStreamsRequest(), object, options
            )

    run(scenario())


def test_every_replica_learns_of_a_grant_and_of_its_end() -> None:
    async def scenario() -> None:
        mesh = await Mesh("assigner").start()
        await mesh.grant(ORDERS, Role.CONSUMER, LOGS, INDEXER)
        call = await join(mesh.client("assigner", ORDERS), "logs")
        await call.close()
        await mesh.revoke(ORDERS, Role.CONSUMER, LOGS)
        await asyncio.sleep(0.5)
        with pytest.raises(AccessDenied, match="consume stream/logs"):
            await join(mesh.client("assigner", ORDERS), "logs")

    run(scenario())


def test_an_open_stream_ends_when_its_grant_is_revoked() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start()
        await mesh.grant(ORDERS, Role.PRODUCER, LOGS, PAY)
        lost = await watch_routes(mesh.client("registry", ORDERS), "logs")
        kept = await watch_routes(mesh.client("registry", ORDERS, "another"), "pay")
        await mesh.revoke(ORDERS, Role.PRODUCER, LOGS)
        async with asyncio.timeout(1):
            with pytest.raises(AccessDenied, match="may not produce stream/logs"):
                await lost.receive()
        await kept.send(WatchRoutesRequest(channel_left=ChannelLeft(channel="pay/live/1")))
        assert await kept.receive() is not None, "the other stream goes on"
        assert refusals(mesh, "registry", "WatchRoutes", "ended") == 1

    run(scenario())


def test_an_open_stream_ends_when_its_grant_ends_by_the_clock() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start()
        await mesh.grant(ORDERS, Role.PRODUCER, LOGS, lasting_ms=60_000)
        call = await watch_routes(mesh.client("registry", ORDERS))
        waiting = asyncio.ensure_future(call.receive())
        await asyncio.sleep(58)
        assert not waiting.done()
        await asyncio.sleep(2 + ACCESS_RECHECK_SECONDS)
        with pytest.raises(AccessDenied, match="has ended"):
            await waiting

    run(scenario())


def test_of_a_callers_streams_only_the_one_without_a_grant_ends() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start()
        await mesh.grant(ORDERS, Role.PRODUCER, LOGS)
        await mesh.grant(ORDERS, Role.PRODUCER, PAY, lasting_ms=60_000)
        client = mesh.client("registry", ORDERS)
        kept, lost = await watch_routes(client), await watch_routes(client, "pay")
        waiting = asyncio.ensure_future(lost.receive())
        await asyncio.sleep(60 + ACCESS_RECHECK_SECONDS)
        with pytest.raises(AccessDenied, match="stream/pay"):
            async with asyncio.timeout(1):
                await waiting
        await kept.send(WatchRoutesRequest(channel_left=ChannelLeft(channel="logs/live/1")))
        assert await kept.receive() is not None

    run(scenario())


def test_a_watch_that_is_told_nothing_ends_too() -> None:
    async def scenario() -> None:
        mesh = await Mesh("assigner").start()
        await mesh.grant(ORDERS, Role.VIEWER, MESH)
        client = mesh.client("assigner", ORDERS)
        path = method_path("assigner", "WatchEvents")
        events = client.channel.server_stream(path, WatchEventsRequest(), EventRecord, OPTIONS)
        waiting = asyncio.ensure_future(anext(events))
        await asyncio.sleep(1)
        await mesh.revoke(ORDERS, Role.VIEWER, MESH)
        async with asyncio.timeout(1):
            with pytest.raises(AccessDenied):
                await waiting

    run(scenario())


def test_a_service_goes_on_when_grants_change() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start()
        path, request = method_path("registry", "WatchChannels"), WatchChannelsRequest()
        with pytest.raises(AccessDenied, match="only services of the mesh may"):
            await anext(mesh.client("registry", ADMIN).channel.server_stream(path, request, type(request), OPTIONS))
        service = mesh.client("registry", "spiffe://braid.local/service/lagmon-0")
        told = service.channel.server_stream(path, request, WatchChannelsRequest, OPTIONS)
        assert await anext(told) is not None
        await mesh.grant(ORDERS, Role.PRODUCER, LOGS)
        await asyncio.sleep(2 * ACCESS_RECHECK_SECONDS)
        assert await anext(told) is not None

    run(scenario())


def test_a_watch_ends_between_two_answers() -> None:
    """Its handler is not at work when the right goes: the next answer is the refusal."""

    async def scenario() -> None:
        mesh = await Mesh("lagmon").start()
        await mesh.grant(ORDERS, Role.VIEWER, MESH)
        path = method_path("lagmon", "WatchLag")
        told = mesh.client("lagmon", ORDERS).channel.server_stream(path, WatchLagRequest(), WatchLagRequest, OPTIONS)
        assert await anext(told) is not None
        await mesh.revoke(ORDERS, Role.VIEWER, MESH)
        async with asyncio.timeout(2):
            with pytest.raises(AccessDenied):
                async for _ in told:
                    pass

    run(scenario())


def test_a_member_ends_if_its_group_gets_a_stream_denied_to_it() -> None:
    async def scenario() -> None:
        mesh = await Mesh("assigner").start()
        await mesh.grant(ORDERS, Role.CONSUMER, LOGS, INDEXER)
        call = await join(mesh.client("assigner", ORDERS), "logs")
        mesh.services["assigner"].group_streams["indexer"] = ("logs", "pay")
        async with asyncio.timeout(2 * ACCESS_RECHECK_SECONDS):
            with pytest.raises(AccessDenied, match="consume stream/pay"):
                await call.receive()

    run(scenario())


def test_a_later_message_is_about_the_stream_of_the_hello_alone() -> None:
    async def scenario() -> None:
        mesh = await Mesh("assigner").start()
        await mesh.grant(ORDERS, Role.PRODUCER, LOGS)
        await mesh.grant(ORDERS, Role.CONSUMER, LOGS, INDEXER)
        call = await watch_routes(mesh.client("registry", ORDERS))
        await call.send(WatchRoutesRequest(channel_left=ChannelLeft(channel="logs/live/1")))
        assert await call.receive() is not None
        await call.send(WatchRoutesRequest(channel_left=ChannelLeft(channel="pay/live/1")))
        with pytest.raises(AccessDenied, match="opened for something else than stream/pay"):
            await call.receive()
        member = await join(mesh.client("assigner", ORDERS), "logs")
        await member.send(JoinRequest(heartbeat=Heartbeat(sequence=1)))
        assert await member.receive() is not None
        await member.send(JoinRequest(hello=MemberHello(group="other")))
        with pytest.raises(AccessDenied, match="only the first message says hello"):
            await member.receive()

    run(scenario())


def test_a_stream_that_ends_before_its_hello_reaches_no_handler() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start()
        client = mesh.client("registry", ORDERS)
        call = client.channel.duplex(method_path("registry", "WatchRoutes"), WatchRoutesRequest, OPTIONS)
        await call.close()
        await asyncio.sleep(1)
        assert not mesh.services["registry"].reached

    run(scenario())


@pytest.mark.parametrize(
    ("service", "method", "kind"), [("registry", "WatchRoutes", WatchRoutesRequest), ("assigner", "Join", JoinRequest)]
)
@pytest.mark.parametrize("access", [ENFORCED, AccessSettings(AccessMode.OPEN)], ids=["enforced", "open"])
def test_a_stream_without_a_hello_ends_in_time(service: str, method: str, kind: type, access: AccessSettings) -> None:
    async def scenario() -> None:
        mesh = await Mesh(service, access=access).start()
        call = mesh.client(service, ORDERS).channel.duplex(method_path(service, method), kind, OPTIONS)
        begun = running_loop().time()
        with pytest.raises(DeadlineExceeded, match="no hello came"):
            async with asyncio.timeout(10 * HELLO_SECONDS):
                await call.receive()
        assert running_loop().time() - begun < 2 * HELLO_SECONDS
        assert not mesh.services[service].reached

    run(scenario())


def test_last_read_grants_hold_while_registry_and_store_are_away() -> None:
    async def scenario() -> None:
        mesh = await Mesh("assigner").start()
        await mesh.grant(ORDERS, Role.CONSUMER, LOGS, INDEXER)
        mesh.network.kill("registry-0")
        mesh.processes["registry"].kill()
        mesh.stores["assigner"].disconnect()
        await asyncio.sleep(10 * ACCESS_RECHECK_SECONDS)
        call = await join(mesh.client("assigner", ORDERS), "logs")
        await call.close()
        with pytest.raises(AccessDenied):
            await join(mesh.client("assigner", "dns:nobody"), "logs")

    run(scenario())


def test_an_unread_replica_admits_only_services_and_admins() -> None:
    async def scenario() -> None:
        mesh = Mesh("assigner")
        mesh.stores["assigner"].disconnect()
        await asyncio.sleep(5)
        control, path = mesh.replicas["assigner"].access, method_path("assigner", "GetGroup")
        request = GetGroupRequest(name="indexer")
        for principal in (ADMIN, "spiffe://braid.local/service/dlq-0"):
            control.authorize(path, request, Caller(principal, "default", "", "x", authenticated=True))
        with pytest.raises(Unavailable, match="assigner-0 has not read the grants yet"):
            control.authorize(path, request, Caller(ORDERS, "default", "", "x", authenticated=True))
        mesh.stores["assigner"].reconnect()
        await asyncio.sleep(5)
        with pytest.raises(AccessDenied):
            control.authorize(path, request, Caller(ORDERS, "default", "", "x", authenticated=True))

    run(scenario())


def test_while_access_is_open_only_grants_are_guarded() -> None:
    async def scenario() -> None:
        mesh = await Mesh(access=AccessSettings(AccessMode.OPEN, (ADMIN,))).start()
        anybody = mesh.client("registry", None)
        await get_stream(anybody)
        path = method_path("registry", "GrantAccess")
        with pytest.raises(Unauthenticated):
            await anybody.channel.unary(path, GrantAccessRequest(), GrantAccessRequest, OPTIONS)
        with pytest.raises(AccessDenied):
            await mesh.client("registry", ORDERS).channel.unary(path, GrantAccessRequest(), GrantAccessRequest, OPTIONS)
        await mesh.client("registry", ADMIN).channel.unary(path, GrantAccessRequest(), GrantAccessRequest, OPTIONS)
        assert mesh.services["registry"].reached["GrantAccess"] == 1
        check = method_path("registry", "CheckAccess")
        await anybody.channel.unary(check, CheckAccessRequest(), CheckAccessRequest, OPTIONS)

    run(scenario())


def test_an_admin_is_one_as_long_as_the_file_names_it(tmp_path: Path) -> None:
    file = tmp_path / "admins"
    file.write_text(f"# first admins\n\n{ORDERS}\n")

    async def scenario() -> None:
        mesh = await Mesh(access=replace(ENFORCED, admins_file=file)).start()
        client = mesh.client("registry", ORDERS)
        await get_stream(client)
        file.write_text("nobody in form\n")
        await asyncio.sleep(ACCESS_RECHECK_SECONDS + 1)
        await get_stream(client)  # a file that cannot be read changes nothing
        file.write_text("")
        await asyncio.sleep(ACCESS_RECHECK_SECONDS + 1)
        with pytest.raises(AccessDenied):
            await get_stream(client)

    run(scenario())


def test_the_same_refusal_is_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        clock = VirtualProcess(running_loop(), "me", 1).host.clock
        found = Refusals(clock, make_metrics("registry", "registry-0"), logger("registry", "registry-0"))
        caller = Caller(ORDERS, "default", "", "host", authenticated=True)
        for _ in range(3):
            found.record("GetStream", DENIED, caller, "why")
        assert len(caplog.records) == 1
        await asyncio.sleep(REFUSAL_LOG_SECONDS)
        found.record("GetStream", DENIED, caller, "why")
        assert len(caplog.records) == 2
        for number in range(2 * REFUSALS_REMEMBERED_MAX):
            found.record("GetStream", DENIED, replace(caller, principal=f"dns:{number}"), "why")
        assert len(found._logged_at) == REFUSALS_REMEMBERED_MAX

    run(scenario())
