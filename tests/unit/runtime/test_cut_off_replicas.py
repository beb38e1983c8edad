"""Replicas that the store does not answer: what they say meanwhile, and who is asked instead of them."""

import asyncio

import pytest
from google.protobuf.wrappers_pb2 import Int64Value

from braid.api.mesh.v1.endpoint_pb2 import ListEndpointsRequest, ListEndpointsResponse
from braid.kernel.errors import NotLeader, Unavailable
from braid.kernel.limits.rpc import LEADER_WAIT_SECONDS, LIST_ENDPOINTS_SECONDS
from braid.kernel.limits.runtime import DIRECTORY_CACHE_SECONDS, DIRECTORY_READ_SECONDS
from braid.kernel.limits.store import SESSION_TTL_SECONDS
from braid.kernel.ports import CallOptions
from braid.rpc.memory.transport import MemoryTransport
from braid.rpc.methods import method_path
from braid.runtime.replica import Replica
from tests.support.counters import COUNTERS, CounterService
from tests.support.virtual_time import running_loop
from tests.unit.runtime.replicas import World, run


def test_a_replica_cut_from_the_store_answers_but_is_no_leader() -> None:
    """Otherwise members that ask it for the leader return to it until the next leader has expired them."""

    async def scenario() -> None:
        world = World()
        deposed = await world.start("registry-0")
        await world.start("registry-1")
        assert await world.leader() is deposed
        channel = MemoryTransport(world.network, "client").channel("r0:1")
        list_endpoints, add = method_path("registry", "ListEndpoints"), method_path("registry", "Add")
        await channel.unary(list_endpoints, ListEndpointsRequest(), ListEndpointsResponse, CallOptions(1.0))
        world.stores["registry-0"].disconnect()
        await world.host.clock.sleep(SESSION_TTL_SECONDS + 0.1)
        assert not deposed.leading()
        begun = running_loop().time()
        found = await channel.unary(list_endpoints, ListEndpointsRequest(), ListEndpointsResponse, CallOptions(1.0))
        assert [each.instance for each in found.endpoints if each.leader] == []
        with pytest.raises(NotLeader) as redirect:
            await channel.unary(add, Int64Value(value=1), Int64Value, CallOptions(1.0))
        assert redirect.value.leader != "r0:1"
        assert running_loop().time() - begun < LIST_ENDPOINTS_SECONDS

    run(scenario())


class Timed(CounterService):
    """Tells when it began to lead."""

    led_at = 0.0

    async def lead(self, replica: Replica) -> None:
        """See `Service`."""
        self.led_at = running_loop().time()
        await super().lead(replica)


def test_who_searches_for_a_leader_hears_of_the_next_one_at_once() -> None:
    """Until then it asks hardly more than once a second: thousands may search."""

    async def scenario() -> None:
        world, next_one = World(), Timed()
        await world.start("registry-0")
        await world.start("registry-1", next_one)
        await world.leader()
        await world.directory.refresh()
        world.processes["registry-0"].kill()
        world.directory.learn_leader("registry", "")
        begun, asked = running_loop().time(), 0

        async def search() -> float:
            nonlocal asked
            while not world.directory.leader("registry"):
                await world.directory.refresh("registry")
                asked += 1
            return running_loop().time()

        searching = asyncio.ensure_future(search())
        found = await searching
        assert found - begun > 1.0
        assert found - next_one.led_at < 0.2
        assert asked <= (found - begun) / LEADER_WAIT_SECONDS + 2

    run(scenario())


def test_a_leader_called_silent_is_last_until_it_leads_anew() -> None:
    async def scenario() -> None:
        world = World()
        await world.start("registry-0")
        second = await world.start("registry-1")
        await world.leader()
        channel = MemoryTransport(world.network, "client").channel("r1:1")
        request = ListEndpointsRequest(leader_of="registry", silent=["r0:1", "r1:1"], wait_ms=60_000)

        async def named() -> list[str]:
            path = method_path("registry", "ListEndpoints")
            answer = await channel.unary(path, request, ListEndpointsResponse, CallOptions(5.0))
            return [each.instance for each in answer.endpoints if each.leader]

        begun = running_loop().time()
        assert await named() == ["registry-0"]
        took = running_loop().time() - begun
        assert took == pytest.approx(LEADER_WAIT_SECONDS, abs=0.2), "no longer, whatever is asked for"
        world.processes["registry-0"].kill()
        await asyncio.sleep(SESSION_TTL_SECONDS - LEADER_WAIT_SECONDS / 2)
        assert not second.leading()
        begun = running_loop().time()
        assert await named() == ["registry-1"]
        assert running_loop().time() - begun < LEADER_WAIT_SECONDS * 0.9

    run(scenario())


def test_a_leader_cut_from_the_store_stops_at_its_own_deadline() -> None:
    async def scenario() -> None:
        world = World()
        first, second = await world.start("registry-0"), await world.start("registry-1")
        assert await world.leader() is first
        deadline = first.require_leader().session.deadline()
        world.stores["registry-0"].disconnect()
        await asyncio.sleep(deadline - first.host.clock.elapsed() - 0.001)
        assert first.leading()
        await asyncio.sleep(0.001)
        assert not first.leading()
        assert not second.leading()
        await world.leader()
        assert second.leading()
        world.stores["registry-0"].reconnect()
        await world.host.clock.sleep(10.0)
        assert not first.leading()
        assert await world.add(1) == 1
        await second.host.clock.sleep(1.0)
        assert first.aggregates.state(COUNTERS, "total").value == 1
        world.processes["registry-1"].kill()
        assert await world.add(1) == 2
        assert world.failures == []

    run(scenario())


def test_a_replica_cut_from_the_store_says_so_without_delay() -> None:
    async def scenario() -> None:
        world = World()
        for name in ("registry-0", "registry-1"):
            await world.start(name)
        await world.leader()
        channel = MemoryTransport(world.network, "client").channel("r1:1")
        request = ListEndpointsRequest(leader_of="registry", silent=["r0:1"], wait_ms=60_000)

        async def asked() -> tuple[bool, float]:
            begun, path = running_loop().time(), method_path("registry", "ListEndpoints")
            answer = await channel.unary(path, request, ListEndpointsResponse, CallOptions(5.0))
            return answer.stale, running_loop().time() - begun

        stale, took = await asked()
        assert not stale
        assert took == pytest.approx(LEADER_WAIT_SECONDS, abs=0.2)
        world.stores["registry-1"].disconnect()
        for _ in range(3):
            stale, took = await asked()
            assert stale
            assert took < 2 * DIRECTORY_READ_SECONDS
        world.stores["registry-1"].reconnect()
        await world.host.clock.sleep(DIRECTORY_CACHE_SECONDS)
        stale, took = await asked()
        assert not stale
        assert took == pytest.approx(LEADER_WAIT_SECONDS, abs=0.2)

    run(scenario())


def test_who_finds_no_leader_hears_why_the_store_lets_none_lead() -> None:
    """A full disk, or a quorum that is lost: nobody leads, and without the reason nobody knows what to mend."""

    async def scenario() -> None:
        world = World()
        for name in ("registry-0", "registry-1"):
            await world.start(name)
        assert await world.add(1) == 1
        for store in world.stores.values():
            store.disconnect()
        await world.host.clock.sleep(2 * SESSION_TTL_SECONDS)
        with pytest.raises(Unavailable, match=r"no leader of registry is known: .*store"):
            await world.add(1)
        for store in world.stores.values():
            store.reconnect()
        await world.leader()
        assert await world.add(1) == 2
        await world.host.clock.sleep(30.0)  # longer than between two tries of a replica
        assert not any(replica.store_trouble for replica in world.replicas.values())

    run(scenario())
