"""Whole replicas in one process on virtual time: elections, redirects, deaths, restores, and how they end."""

import asyncio
from unittest.mock import patch

import pytest
from google.protobuf.wrappers_pb2 import Int64Value, StringValue

from braid.api.mesh.v1.endpoint_pb2 import PLAINTEXT_STORE, ListEndpointsRequest, ListEndpointsResponse
from braid.api.mesh.v1.event_pb2 import (
    EventFilter,
    EventRecord,
    ListEventsRequest,
    ListEventsResponse,
    WatchEventsRequest,
)
from braid.kernel.decider import Context
from braid.kernel.errors import CorruptHistory, Invalid, NotLeader, Unavailable
from braid.kernel.ids import split_epoch
from braid.kernel.limits.names import PAGE_SIZE_MAX
from braid.kernel.ports import CallOptions, HistoryId
from braid.rpc.memory.transport import MemoryTransport
from braid.rpc.methods import method_path
from braid.runtime import rpc_service
from braid.runtime.replica import Replica
from tests.support.counters import COUNTERS, Added, CounterService
from tests.support.virtual_time import running_loop
from tests.unit.runtime.replicas import World, run


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


def test_the_newest_events_are_one_page_within_bounds() -> None:
    async def scenario() -> None:
        world = World()
        await world.start("registry-0")
        await world.leader()
        for _ in range(5):
            await world.add(1)
        channel = MemoryTransport(world.network, "client").channel("r0:1")

        async def ask(request: ListEventsRequest) -> ListEventsResponse:
            path = method_path("registry", "ListEvents")
            return await channel.unary(path, request, ListEventsResponse, CallOptions(1.0))

        found = await ask(ListEventsRequest(newest=3, filter=EventFilter()))
        assert [each.sequence for each in found.events] == [5, 4, 3] and not found.next_page_token and found.more
        assert not (await ask(ListEventsRequest(newest=PAGE_SIZE_MAX))).more
        until_ms = found.events[-1].metadata.time_ms - 1
        before = await ask(ListEventsRequest(history="counter", newest=2, until_ms=until_ms))
        assert [each.sequence for each in before.events] == [2, 1]
        assert not (await ask(ListEventsRequest(newest=3, filter=EventFilter(actor="nobody")))).events
        for wrong in (-1, PAGE_SIZE_MAX + 1):
            with pytest.raises(Invalid) as refused:
                await ask(ListEventsRequest(newest=wrong))
            assert refused.value.field == "newest" and refused.value.remedy
        assert not (await ask(ListEventsRequest(newest=1, until_ms=1))).events
        with patch.object(rpc_service, "EVENTS_PAGE_BYTES_MAX", 1):
            full = await ask(ListEventsRequest(newest=3))
            assert [each.sequence for each in full.events] == [5] and full.more
            assert full.since_ms > found.events[1].metadata.time_ms, "what was cut off is asked for next"

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
