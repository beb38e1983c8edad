"""Whole replicas in one process on virtual time: elections, redirects, deaths, restores, and how they end."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from google.protobuf.wrappers_pb2 import Int64Value, StringValue

from braid.api.mesh.v1.endpoint_pb2 import PLAINTEXT_STORE, ListEndpointsRequest, ListEndpointsResponse
from braid.api.mesh.v1.event_pb2 import EventRecord, ListEventsRequest, ListEventsResponse, WatchEventsRequest
from braid.kernel.decider import Context
from braid.kernel.errors import CorruptHistory, NotLeader, Unavailable
from braid.kernel.ids import split_epoch
from braid.kernel.limits.rpc import LEADER_WAIT_SECONDS, LIST_ENDPOINTS_SECONDS
from braid.kernel.limits.runtime import DIRECTORY_CACHE_SECONDS, DIRECTORY_READ_SECONDS
from braid.kernel.limits.store import SESSION_TTL_SECONDS
from braid.kernel.ports import CallOptions, HistoryId
from braid.rpc.directory import Directory
from braid.rpc.memory.network import MemoryNetwork
from braid.rpc.memory.transport import MemoryTransport
from braid.rpc.mesh_client import ServiceClient
from braid.rpc.methods import method_path
from braid.runtime.replica import Replica
from braid.stores.memory import MemoryStore
from braid.stores.memory_server import MemoryStoreServer
from tests.support.counters import COUNTERS, Added, CounterService
from tests.support.virtual_time import VirtualProcess, run_virtual, running_loop

ADDRESSES = {"registry-0": "r0:1", "registry-1": "r1:1", "registry-2": "r2:1"}


class World:
    """Replicas, each a virtual process, over one store and one network, and a client."""

    def __init__(self) -> None:
        loop = running_loop()
        self.host = VirtualProcess(loop, "world", 1).host
        self.server = MemoryStoreServer(self.host.clock)
        self.network = MemoryNetwork(self.host.clock, self.host.randomness)
        self.processes: dict[str, VirtualProcess] = {}
        self.replicas: dict[str, Replica] = {}
        self.services: dict[str, CounterService] = {}
        self.stores: dict[str, MemoryStore] = {}
        self.ended: list[str] = []
        self.failures: list[BaseException] = []
        self.directory = Directory(MemoryTransport(self.network, "client"), self.host, ["r0:1", "r1:1"])
        self.client = ServiceClient(self.directory, "registry", self.host)

    async def start(self, instance: str, service: CounterService | None = None) -> Replica:
        """Starts a replica and waits until it serves."""
        replica = self.begin(instance, service)
        await replica.ready()
        return replica

    def begin(self, instance: str, service: CounterService | None = None) -> Replica:
        """Starts a replica."""
        process = VirtualProcess(running_loop(), instance, 1, on_failure=self.failures.append)
        process.on_kill(lambda: self.network.kill(instance))
        store = MemoryStore(process.host, self.server)
        self.services[instance] = service or CounterService()
        transport = MemoryTransport(self.network, instance)
        replica = Replica(
            self.services[instance], process.host, store, transport, address=ADDRESSES[instance], instance=instance
        )
        self.processes[instance], self.replicas[instance], self.stores[instance] = process, replica, store

        async def run() -> None:
            await replica.run()
            self.ended.append(instance)

        process.tasks.spawn(run(), "run")
        return replica

    async def leader(self) -> Replica:
        """Waits until exactly one replica that lives leads."""
        async with asyncio.timeout(30):
            while True:
                leading = [self.replicas[name] for name, process in self.processes.items() if process.alive]
                leading = [replica for replica in leading if replica.leading()]
                assert len(leading) < 2
                if leading:
                    return leading[0]
                await asyncio.sleep(0.01)

    async def add(self, amount: int) -> int:
        """Adds through the client and returns the total."""
        return (await self.client.unary("Add", Int64Value(value=amount), Int64Value, timeout_seconds=20)).value


def run(work: Coroutine[Any, Any, None]) -> None:
    """Runs a test on virtual time."""
    run_virtual(work)


def test_one_leads_and_both_know_where() -> None:
    async def scenario() -> None:
        world = World()
        first, second = await world.start("registry-0"), await world.start("registry-1")
        leader = await world.leader()
        assert leader is first
        assert split_epoch(first.leader_epoch) == (1, first.require_leader().leader.fence.revision)
        with pytest.raises(NotLeader):
            second.require_leader()
        with pytest.raises(NotLeader):
            _ = second.leader_epoch
        channel = MemoryTransport(world.network, "client").channel("r1:1")
        answer = await channel.unary(
            method_path("registry", "ListEndpoints"), ListEndpointsRequest(), ListEndpointsResponse, CallOptions(5.0)
        )
        assert [(each.instance, each.address, each.leader) for each in answer.endpoints] == [
            ("registry-0", "r0:1", True),
            ("registry-1", "r1:1", False),
        ]
        with pytest.raises(NotLeader) as redirect:
            await channel.unary(method_path("registry", "Add"), Int64Value(value=1), Int64Value, CallOptions(5.0))
        assert redirect.value.leader == "r0:1"
        assert world.network.serving("r0:1")
        assert world.network.serving("r1:1")

    run(scenario())


def test_a_replica_answers_what_others_see_in_plain_text() -> None:
    async def scenario() -> None:
        world = World()
        replica = await world.start("registry-0")
        channel, asked = MemoryTransport(world.network, "client").channel("r0:1"), ListEndpointsRequest()
        path = method_path("registry", "ListEndpoints")
        assert not (await channel.unary(path, asked, ListEndpointsResponse, CallOptions(5.0))).plaintext
        replica.plaintext = [PLAINTEXT_STORE]
        answer = await channel.unary(path, asked, ListEndpointsResponse, CallOptions(5.0))
        assert answer.plaintext == [PLAINTEXT_STORE]

    run(scenario())


def test_a_killed_leaders_successor_has_a_higher_epoch() -> None:
    async def scenario() -> None:
        world = World()
        await world.start("registry-0")
        await world.start("registry-1")
        epoch = (await world.leader()).leader_epoch
        assert await world.add(1) == 1
        world.processes["registry-0"].kill()
        assert await world.add(2) == 3
        assert world.replicas["registry-1"].leader_epoch > epoch
        assert world.services["registry-1"].terms == 1
        restarted = await world.start("registry-0")
        await world.host.clock.sleep(5.0)
        assert not restarted.leading()
        assert restarted.aggregates.state(COUNTERS, "total").value == 3
        assert world.failures == []

    run(scenario())


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


def test_a_replica_reports_nothing_of_histories_it_has_not_read() -> None:
    """Otherwise a restarted replica, whose address the directory still has, lists no events and no groups."""

    async def scenario() -> None:
        world = World()
        await world.start("registry-0")
        await world.leader()
        assert await world.add(1) == 1
        await world.start("registry-1")
        late = world.begin("registry-2")
        world.stores["registry-2"].disconnect()
        channel = MemoryTransport(world.network, "client").channel("r2:1")
        while not world.network.serving("r2:1") and not late.address:
            await world.host.clock.sleep(0.01)
        events = method_path("registry", "ListEvents"), ListEventsRequest(history="counter/total"), ListEventsResponse
        with pytest.raises(Unavailable, match="registry-2 has not read its histories yet"):
            await channel.unary(*events, CallOptions(1.0))
        watch = method_path("registry", "WatchEvents")
        with pytest.raises(Unavailable, match="has not read its histories yet"):
            await anext(aiter(channel.server_stream(watch, WatchEventsRequest(), EventRecord, CallOptions(1.0))))
        world.stores["registry-2"].reconnect()
        await late.ready()
        assert [each.sequence for each in (await channel.unary(*events, CallOptions(1.0))).events] == [1]

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


def test_stepping_down_cancels_leading_and_campaigns_again() -> None:
    class Endless(CounterService):
        def __init__(self) -> None:
            super().__init__()
            self.log: list[str] = []

        async def lead(self, replica: Replica) -> None:
            self.log.append("begin")
            try:
                await asyncio.Event().wait()
            finally:
                self.log.append("end")

    async def scenario() -> None:
        world = World()
        service = Endless()
        replica = await world.start("registry-0", service)
        epoch = (await world.leader()).leader_epoch
        replica.step_down("a test asked for it")
        assert not replica.leading()
        assert (await world.leader()).leader_epoch > epoch
        assert service.log == ["begin", "end", "begin"]

    run(scenario())


def test_stopping_is_graceful_and_hands_over_at_once() -> None:
    async def scenario() -> None:
        world = World()
        first = await world.start("registry-0")
        await world.leader()
        await world.start("registry-1")
        begun = running_loop().time()
        first.stop()
        assert not world.network.serving("r0:1")
        await asyncio.sleep(0.1)
        assert await world.leader() is world.replicas["registry-1"]
        assert running_loop().time() - begun < 0.5
        await asyncio.sleep(6.0)
        assert world.ended == ["registry-0"]
        endpoints = await world.replicas["registry-1"].endpoints()
        assert [known.instance for known in endpoints] == ["registry-1"]

    run(scenario())


def test_an_error_while_leading_kills_the_process() -> None:
    class Broken(CounterService):
        async def lead(self, replica: Replica) -> None:
            raise ZeroDivisionError("a bug")

    async def scenario() -> None:
        world = World()
        await world.start("registry-0", Broken())
        await world.host.clock.sleep(1.0)
        assert not world.processes["registry-0"].alive
        assert [type(error) for error in world.failures] == [ZeroDivisionError]

    run(scenario())


def test_a_replica_that_cannot_read_a_history_does_not_lead() -> None:
    async def scenario() -> None:
        world = World()
        first = await world.start("registry-0")
        await world.start("registry-1")
        await world.leader()
        assert await world.add(1) == 1
        fence = first.require_leader().leader.fence
        world.server.append(HistoryId("registry", "counter", "total"), [b"from the future"], 1, fence)
        await world.host.clock.sleep(10.0)
        assert not world.network.serving("r0:1")
        for replica in world.replicas.values():
            assert not replica.leading()
            with pytest.raises(CorruptHistory):
                replica.require_leader()
        third = await world.start("registry-2")
        await world.host.clock.sleep(5.0)
        assert not third.leading()
        assert not world.network.serving("r2:1")
        assert world.failures == []

    run(scenario())


def test_a_restored_store_is_led_in_its_new_incarnation() -> None:
    async def scenario() -> None:
        world = World()
        replica = await world.start("registry-0")
        await world.leader()
        assert await world.add(1) == 1
        backup = world.server.backup()
        assert await world.add(1) == 2
        epoch = replica.leader_epoch
        world.server.restore(backup)
        await world.host.clock.sleep(5.0)
        assert await world.add(5) == 6
        assert split_epoch(replica.leader_epoch)[0] == 2
        assert replica.leader_epoch > epoch

    run(scenario())


def test_replicas_reach_other_services_by_the_store_s_directory() -> None:
    async def scenario() -> None:
        world = World()
        await world.start("registry-0")
        second = await world.start("registry-1")
        await world.leader()
        answer = await second.client("registry").unary("Add", Int64Value(value=4), Int64Value)
        assert answer.value == 4
        events = await second.aggregates.events(HistoryId("registry", "counter", "total"))
        assert [(record.event, record.context.actor) for record in events] == [(Added(4), "registry-1")]
        assert isinstance(events[0].context, Context)
        read = await second.client("registry").unary("Read", StringValue(value="total"), Int64Value, any_replica=True)
        assert read.value == 4

    run(scenario())
