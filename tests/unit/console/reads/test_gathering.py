"""Reads that are asked for at one moment go as one call; what that call cannot answer is asked for alone."""

import asyncio
from collections import Counter
from typing import Any, Final
from unittest.mock import patch

from google.protobuf.wrappers_pb2 import StringValue

from braid.api.mesh.v1.event_pb2 import ListEventsRequest, ListEventsResponse
from braid.api.registry.v1 import registry_service_pb2 as api
from braid.kernel.access.roles import Role
from braid.kernel.access.tenants import Quotas
from braid.kernel.errors import AccessDenied, Unavailable
from braid.kernel.limits.rpc import READ_PARTS_MAX, REQUEST_TEXT_CHARS_MAX
from braid.rpc.directory import Directory
from braid.rpc.mesh_client import ServiceClient
from braid.runtime import read_many
from braid.runtime.access.settings import AccessMode, AccessSettings
from braid.runtime.access.tenant_history import SetTenant
from console.server.limits import PART_SECONDS, READ_SECONDS, SINGLE_SECONDS
from console.server.reads.gathering import Gathering
from tests.support.authenticated import AuthenticatedTransport
from tests.support.console_mesh import ConsoleMesh
from tests.unit.cli.mesh import virtual
from tests.unit.console.test_calls import Calls, started
from tests.unit.rpc.replicas import World
from tests.unit.runtime.access.mesh import ANN, Mesh
from tests.unit.runtime.access.test_matrix import GRANTED

OPEN: Final = AccessSettings(AccessMode.OPEN)
ME: Final = "spiffe://braid.local/acme/me"


class Counted(ServiceClient):
    """A client that counts its calls by method."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.calls: Counter[str] = Counter()

    async def unary(self, method: str, *args: Any, **named: Any) -> Any:
        self.calls[method] += 1
        return await super().unary(method, *args, **named)


class Asking:
    """The reads of a registry whose handlers count, as one caller."""

    def __init__(self, mesh: Mesh) -> None:
        self.mesh = mesh
        mesh.principals["console"] = ME
        transport = AuthenticatedTransport(mesh.network, "console", mesh.principals)
        self.client = Counted(Directory(transport, mesh.me.host, ["registry:1"]), "registry", mesh.me.host)
        self.reads = Gathering(mesh.me.host, self.client)

    @property
    def calls(self) -> Counter[str]:
        """The calls so far, by method; they are forgotten then."""
        found, self.client.calls = self.client.calls, Counter()
        return found

    async def streams(self, **named: Any) -> object:
        return await self._ask("ListStreams", api.ListStreamsRequest(), api.ListStreamsResponse, **named)

    async def clusters(self, **named: Any) -> object:
        return await self._ask("ListClusters", api.ListClustersRequest(), api.ListClustersResponse, **named)

    async def events(self) -> ListEventsResponse:
        found = await self._ask("ListEvents", ListEventsRequest(), ListEventsResponse)
        assert isinstance(found, ListEventsResponse)
        return found

    async def channels(self, stream: str) -> object:
        request = api.ListChannelsRequest(stream=stream)
        return await self._ask("ListChannels", request, api.ListChannelsResponse)

    async def _ask(self, *what: Any, leader: bool = True, alone: bool = False) -> object:
        method, request, kind = what
        return await self.reads.ask(method, request, kind, READ_SECONDS, leader=leader, alone=alone)


async def asking(access: AccessSettings = OPEN) -> Asking:
    return Asking(await Mesh(access=access).start())


@virtual
async def test_reads_of_one_moment_are_one_call() -> None:
    mine = await asking()
    await asyncio.gather(mine.streams(), mine.clusters(), mine.streams(leader=False))
    assert mine.calls == {"ReadMany": 1}
    assert mine.mesh.services["registry"].reached == {"ListStreams": 2, "ListClusters": 1}
    await mine.streams()
    await asyncio.gather(mine.streams(alone=True), mine.clusters(alone=True))
    assert mine.calls == {"ListStreams": 2, "ListClusters": 1}, "one read needs no call for several"


@virtual
async def test_more_reads_than_fit_a_call_take_another() -> None:
    mine = await asking()
    await asyncio.gather(*(mine.streams() for _ in range(READ_PARTS_MAX + 2)))
    assert mine.calls == {"ReadMany": 2}


@virtual
async def test_an_older_release_is_asked_in_single_calls_for_a_while() -> None:
    world = await World().start()
    client = Counted(world.directory, "assigner", world.host)
    reads = Gathering(world.host, client)

    async def both() -> list[str]:
        asked = (
            reads.ask("Do", StringValue(value="x"), StringValue, READ_SECONDS, leader=True),
            reads.ask("Read", StringValue(), StringValue, READ_SECONDS, leader=False),
        )
        return [each.value for each in await asyncio.gather(*asked)]

    assert (await both())[0].startswith("assigner-0 for")
    await both()
    assert client.calls == {"ReadMany": 1, "Do": 2, "Read": 2}
    await world.host.clock.sleep(SINGLE_SECONDS)
    await both()
    assert client.calls["ReadMany"] == 2, "it may have been upgraded"


@virtual
async def test_a_slow_read_leaves_the_calls_of_the_others() -> None:
    mine = await asking()
    mine.mesh.services["registry"].delays["ListClusters"] = 1.0
    loop = asyncio.get_running_loop()
    slow = asyncio.ensure_future(mine.clusters())
    begun = loop.time()
    await mine.streams()
    assert loop.time() - begun < 2 * PART_SECONDS
    await slow
    assert mine.calls == {"ReadMany": 1, "ListClusters": 1}
    await asyncio.gather(mine.clusters(), mine.streams(), mine.events())
    assert mine.calls == {"ListClusters": 1, "ReadMany": 1}
    assert mine.mesh.services["registry"].reached["ListClusters"] == 3, "the first time alone it was asked for twice"


@virtual
async def test_a_refused_read_fails_alone() -> None:
    mine = await asking(AccessSettings(AccessMode.ENFORCED, (ANN.principal,)))
    await mine.mesh.grant(ME, Role.VIEWER, *GRANTED["right"])
    streams, channels = await asyncio.gather(mine.streams(), mine.channels("logs"), return_exceptions=True)
    assert isinstance(streams, AccessDenied) and "ListStreams" in streams.message and streams.remedy
    assert isinstance(channels, api.ListChannelsResponse)
    assert mine.calls == {"ReadMany": 1}, "a refusal is not asked for again"


@virtual
async def test_an_answer_that_was_left_out_is_asked_for_alone() -> None:
    mine = await asking()
    with patch.object(read_many, "READ_BYTES_MAX", 3):
        _, events = await asyncio.gather(mine.streams(), mine.events())
    assert events.revision and mine.calls == {"ReadMany": 1, "ListEvents": 1}


@virtual
async def test_a_read_with_a_long_request_goes_alone() -> None:
    mine = await asking()
    await asyncio.gather(mine.channels("s" * (REQUEST_TEXT_CHARS_MAX - 1)), mine.streams(), mine.clusters())
    assert mine.calls == {"ListChannels": 1, "ReadMany": 1}


@virtual
async def test_a_read_beyond_a_quota_waits_as_a_call_of_its_own() -> None:
    mine = await asking()
    await mine.streams()  # it finds the registry
    assert mine.calls == {"ListStreams": 1}
    command = SetTenant("acme", (ME,), Quotas(requests_per_second=10))
    await mine.mesh.replicas["registry"].tenants.execute(command, ANN)
    await asyncio.sleep(1.0)
    found = await asyncio.gather(*(mine.streams() for _ in range(12)))
    assert all(isinstance(each, api.ListStreamsResponse) for each in found)
    assert mine.calls == {"ReadMany": 1, "ListStreams": 2}


@virtual
async def test_whoever_goes_meanwhile_takes_nothing_from_the_others() -> None:
    mine = await asking()
    gone = asyncio.ensure_future(mine.clusters())
    others = asyncio.gather(mine.streams(), mine.events())
    await asyncio.sleep(0)
    gone.cancel()
    await others
    assert mine.calls == {"ReadMany": 1} and mine.mesh.services["registry"].reached == {"ListStreams": 1}


@virtual
async def test_without_a_replica_every_read_says_so() -> None:
    mine = await asking()
    mine.mesh.network.kill("registry-0")
    found = await asyncio.gather(mine.streams(), mine.clusters(leader=False), return_exceptions=True)
    assert all(isinstance(each, Unavailable) for each in found), found


@virtual
async def test_followers_answer_all_reads_where_none_leads() -> None:
    shell = await started()
    await shell.replica("registry-1")
    calls = Calls(shell.me.host.clock)
    reader = calls.reader(ConsoleMesh(shell))
    leader = next(name for name, each in shell.replicas.items() if name.startswith("registry") and each.leading())
    shell.kill(leader)

    async def streams(any_replica: bool) -> api.ListStreamsResponse:
        return await reader.one(
            "registry", "ListStreams", api.ListStreamsRequest(), api.ListStreamsResponse, any_replica=any_replica
        )

    found = await asyncio.gather(streams(False), streams(True), streams(False))
    assert [[each.name for each in page.streams] for page in found] == [["logs"]] * 3
    await reader.close()
