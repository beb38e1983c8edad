"""How many calls one caller may have open at a replica: many members fit, others keep their room, ends make room."""

import asyncio

import pytest

from braid.api.mesh.v1.event_pb2 import EventRecord, WatchEventsRequest
from braid.api.registry.v1.route_pb2 import WatchRoutesRequest
from braid.kernel.access.open_calls import counted_as, counted_for
from braid.kernel.access.tenants import Quotas
from braid.kernel.audit.calls import Outcome
from braid.kernel.audit.forms import Reads
from braid.kernel.errors import BraidError, Exhausted, QuotaExceeded
from braid.kernel.limits.assigner.leases import GROUP_MEMBERS_MAX
from braid.kernel.limits.rpc import HELLO_SECONDS, OPEN_WATCHES_PER_CALLER_MAX
from braid.kernel.ports import Caller, CallOptions, RpcChannel
from braid.rpc.methods import method_path
from braid.runtime.access import admissions
from braid.runtime.access.admissions import Admissions
from braid.runtime.access.settings import AccessMode, AccessSettings
from braid.runtime.access.tenant_history import SetTenant
from braid.runtime.audit.settings import AuditSettings
from tests.support.virtual_time import run_virtual
from tests.unit.runtime.access.mesh import Mesh
from tests.unit.runtime.audit.records import records

ANN = "spiffe://braid.local/user/ann"
BOB = "spiffe://braid.local/user/bob"
OPEN = AccessSettings(AccessMode.OPEN)
OPTIONS = CallOptions(5.0)
WATCH = method_path("registry", "WatchEvents")
ROUTES = method_path("registry", "WatchRoutes")


async def watching(channel: RpcChannel) -> None:
    """Watches events until it is cancelled or refused."""
    async for _ in channel.server_stream(WATCH, WatchEventsRequest(), EventRecord, OPTIONS):
        pass


async def begin(channel: RpcChannel, count: int) -> "list[asyncio.Task[None]]":
    """Opens watches, and waits until the replica has them."""
    tasks = [asyncio.ensure_future(watching(channel)) for _ in range(count)]
    await asyncio.sleep(1.0)
    return tasks


async def stop(tasks: "list[asyncio.Task[None]]") -> None:
    """Ends watches, and waits until the replica knows."""
    for each in tasks:
        each.cancel()
    await asyncio.wait(tasks)
    await asyncio.sleep(1.0)


def test_a_watch_too_many_is_refused_and_another_callers_is_not() -> None:
    async def scenario() -> None:
        mesh = await Mesh(access=OPEN, audit=AuditSettings(reads=Reads.NONE)).start()
        ann, bob = (mesh.client("registry", each).channel for each in (ANN, BOB))
        open_ = await begin(ann, OPEN_WATCHES_PER_CALLER_MAX)
        with pytest.raises(Exhausted, match=f"WatchEvents: {ANN} has 200 WatchEvents streams open here") as refused:
            async with asyncio.timeout(5.0):
                await watching(ann)
        assert "end some" in refused.value.remedy
        assert refused.value.metadata == {"problem": "too_many_open", "limit": "200"}
        open_.extend(await begin(bob, 1))
        assert not any(each.done() for each in open_)
        counted = mesh.replicas["registry"].metrics.registry.get_sample_value(
            "braid_access_refusals_total", {"method": "WatchEvents", "reason": "too_many_open"}
        )
        assert counted == 1
        await asyncio.sleep(1.0)
        found = [(each.principal, each.outcome, each.reason) for each, _ in (await records(mesh)).of("WatchEvents")]
        assert found == [(ANN, Outcome.REFUSED, "too_many_open")]
        await stop(open_)

    run_virtual(scenario())


def test_a_watch_that_ended_makes_room_for_another() -> None:
    async def scenario() -> None:
        mesh = await Mesh(access=OPEN).start()
        ann = mesh.client("registry", ANN).channel
        open_ = await begin(ann, OPEN_WATCHES_PER_CALLER_MAX)
        await stop(open_[:1])
        again = await begin(ann, 1)
        assert not again[0].done()
        await stop([*open_[1:], *again])

    run_virtual(scenario())


def test_streams_count_before_they_say_what_they_are_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admissions, "counted_as", lambda method, *, stream: (method, 3))

    async def scenario() -> None:
        mesh = await Mesh(access=OPEN).start()
        channel = mesh.client("registry", ANN).channel
        silent = [channel.duplex(ROUTES, WatchRoutesRequest, OPTIONS) for _ in range(3)]
        await asyncio.sleep(0.5)
        late = channel.duplex(ROUTES, WatchRoutesRequest, OPTIONS)
        with pytest.raises(Exhausted, match="3 WatchRoutes streams"):
            await late.receive()
        await asyncio.sleep(2 * HELLO_SECONDS)  # the silent ones are ended
        again = channel.duplex(ROUTES, WatchRoutesRequest, OPTIONS)
        await again.send(WatchRoutesRequest())
        assert await again.receive() is not None
        for each in (*silent, late, again):
            await each.close()

    run_virtual(scenario())


@pytest.mark.parametrize("method", ["Join", "Beat", "WatchRoutes", "WatchClusters"])
def test_a_whole_group_of_one_principal_fits_while_it_reconnects(method: str) -> None:
    assert counted_as(method, stream=True) == (method, 2 * GROUP_MEMBERS_MAX)


def test_all_members_of_a_principal_may_ask_at_once() -> None:
    assert counted_as("ListEndpoints", stream=False)[1] >= GROUP_MEMBERS_MAX
    assert counted_as("GetStream", stream=False)[0] == counted_as("ListEndpoints", stream=False)[0]


def test_invented_names_share_the_room_of_their_host() -> None:
    claimed = [Caller(f"invented-{each}", "default", "", f"ipv4:10.0.0.7:{each}") for each in range(3)]
    assert {counted_for(each) for each in claimed} == {"10.0.0.7"}
    assert counted_for(Caller(ANN, "default", "", "ipv4:10.0.0.7:1", authenticated=True)) == ANN


def test_one_release_gives_back_to_the_caller_and_its_tenant() -> None:
    async def scenario() -> None:
        replica = (await Mesh(access=OPEN).start()).replicas["registry"]
        declared = SetTenant("acme", (ANN,), Quotas(open_calls=3))
        await replica.tenants.execute(declared, Caller("root", "", "", "", authenticated=True))
        await asyncio.sleep(1.0)
        refused: list[BraidError] = []
        door = Admissions(replica, (WATCH,), lambda path, caller, error: refused.append(error))
        ann = Caller(ANN, "", "", "", authenticated=True)
        admitted = [await door.admit(each, ann) for each in ("/s/Get", WATCH, "/s/Get")]
        assert (len(door), replica.tenants.open_calls("acme")) == (3, 3)
        with pytest.raises(QuotaExceeded):
            await door.admit("/s/Get", ann)
        assert (len(door), replica.tenants.open_calls("acme"), len(refused)) == (3, 3, 1)
        for each in admitted:
            each.done()
        assert (len(door), replica.tenants.open_calls("acme")) == (0, 0)

    run_virtual(scenario())


def test_a_caller_with_too_much_open_takes_nothing_of_its_tenant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admissions, "counted_as", lambda method, *, stream: (method, 1))

    async def scenario() -> None:
        replica = (await Mesh(access=OPEN).start()).replicas["registry"]
        declared = SetTenant("acme", (ANN,), Quotas(open_calls=2))
        await replica.tenants.execute(declared, Caller("root", "", "", "", authenticated=True))
        await asyncio.sleep(1.0)
        door, ann = Admissions(replica, (), lambda *_: None), Caller(ANN, "", "", "", authenticated=True)
        await door.admit("/s/Get", ann)
        for _ in range(5):
            with pytest.raises(Exhausted, match="no more may be"):
                await door.admit("/s/Get", ann)
        assert replica.tenants.open_calls("acme") == 1

    run_virtual(scenario())


def test_nothing_is_remembered_of_calls_that_ended() -> None:
    async def scenario() -> None:
        replica = (await Mesh(access=OPEN).start()).replicas["registry"]
        door = Admissions(replica, (), lambda *_: None)
        callers = [Caller(f"p{each}", "", "", "", authenticated=True) for each in range(10)]
        admitted = [await door.admit("/s/Get", each) for each in callers]
        assert len(door) == 10
        for each in admitted:
            each.done()
        assert len(door) == 0

    run_virtual(scenario())
