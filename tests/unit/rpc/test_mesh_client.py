"""Finding leaders, following redirects, trying again: against replicas on a network in memory, on virtual time."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from google.protobuf.wrappers_pb2 import StringValue

from braid.api.mesh.v1.endpoint_pb2 import Endpoint, ListEndpointsRequest, ListEndpointsResponse
from braid.kernel.errors import ClusterUnavailable, DeadlineExceeded, Invalid, NotLeader, QuotaExceeded, Unavailable
from braid.kernel.limits.rpc import LEADER_PROBE_SECONDS, LIST_ENDPOINTS_SECONDS
from braid.kernel.ports import Caller, CallOptions, DuplexServing, RpcService
from braid.rpc import directory
from braid.rpc.directory import Directory
from braid.rpc.memory.network import MemoryNetwork
from braid.rpc.memory.transport import MemoryTransport
from braid.rpc.mesh_client import ServiceClient
from braid.rpc.methods import duplex, method_path, unary
from tests.support.virtual_time import run_virtual, running_loop, virtual_host


class World:
    """Two replicas of the assigner, one of the registry; `leader` says who leads the assigner, as all know."""

    def __init__(self) -> None:
        self.host = virtual_host(running_loop(), 1)
        self.network = MemoryNetwork(self.host.clock, self.host.randomness)
        self.leader = "assigner-0"
        self.addresses = {"assigner-0": "a0:1", "assigner-1": "a1:1", "registry-0": "r0:1"}
        self.asked: list[str] = []  # for endpoints
        self.answered: list[tuple[str, str]] = []
        self.stale: dict[str, str] = {}  # whom a replica still takes for the leader
        self.cut_off: set[str] = set()  # whom the store does not answer: they tell what was, as it was then
        self.full_until = 0.0  # a tenant's quota of calls is used up
        self.patient = ""  # the service whose leader replicas wait for as long as they are asked to
        self.directory = Directory(MemoryTransport(self.network, "client"), self.host, ["r0:1"])
        self.client = ServiceClient(self.directory, "assigner", self.host, principal="me", tenant="acme")

    async def start(self) -> "World":
        for instance in self.addresses:
            await self.start_one(instance)
        return self

    async def start_one(self, instance: str) -> None:
        service = instance.partition("-")[0]

        async def list_endpoints(request: ListEndpointsRequest, caller: Caller) -> ListEndpointsResponse:
            self.asked.append(instance)
            if request.leader_of and request.leader_of == self.patient:
                await self.host.clock.sleep(request.wait_ms / 1000)
            leader = self.stale.get(instance, self.leader)
            return ListEndpointsResponse(
                endpoints=[
                    Endpoint(service=each.partition("-")[0], instance=each, address=address, leader=each == leader)
                    for each, address in self.addresses.items()
                ],
                stale=instance in self.cut_off,
            )

        async def do(request: StringValue, caller: Caller) -> StringValue:
            self._check(instance)
            if request.value == "bad":
                raise Invalid("bad", field="value")
            self.answered.append((instance, caller.request_id))
            if request.value == "cluster":
                raise ClusterUnavailable("east does not answer")
            if request.value == "often" and self.host.clock.elapsed() < self.full_until:
                raise QuotaExceeded("too often", metadata={"retry_ms": "700"})
            if request.value == "many":
                raise QuotaExceeded("too many")
            if request.value == "slow":
                await self.host.clock.sleep(1.0)
            return StringValue(value=f"{instance} for {caller.principal} of {caller.tenant}")

        async def talk(stream: DuplexServing) -> None:
            self._check(instance)
            await stream.send(StringValue(value=instance))

        rpc = RpcService(
            instance,
            {
                method_path(service, "ListEndpoints"): unary(ListEndpointsRequest, list_endpoints),
                method_path(service, "Do"): unary(StringValue, do),
                method_path(service, "Read"): unary(StringValue, self._read(instance)),
            },
            {},
            {method_path(service, "Talk"): duplex(StringValue, talk)},
        )
        await MemoryTransport(self.network, instance).serve(self.addresses[instance], rpc)

    async def do(self, value: str = "", timeout_seconds: float = 5.0) -> str:
        answer = await self.client.unary("Do", StringValue(value=value), StringValue, timeout_seconds=timeout_seconds)
        return answer.value

    async def asked_by_a_refresh(self) -> list[str]:
        """The addresses that the directory asks when it looks for the assigner's leader."""
        self.asked.clear()
        await self.directory.refresh("assigner")
        return list(self.asked)

    def _read(self, instance: str) -> Any:
        async def read(request: StringValue, caller: Caller) -> StringValue:
            return StringValue(value=instance)

        return read

    def _check(self, instance: str) -> None:
        if instance != self.leader:
            raise NotLeader("not here", metadata={"leader": self.addresses.get(self.leader, "")})


def run(work: Coroutine[Any, Any, None]) -> None:
    """Runs a test on virtual time."""
    run_virtual(work)


def test_one_seed_of_another_service_is_enough() -> None:
    async def scenario() -> None:
        world = await World().start()
        assert await world.do() == "assigner-0 for me of acme"
        assert [known.instance for known in world.directory.endpoints] == ["assigner-0", "assigner-1", "registry-0"]

    run(scenario())


def test_a_redirect_is_followed_at_once_and_remembered() -> None:
    async def scenario() -> None:
        world = await World().start()
        await world.do()
        world.leader = "assigner-1"
        before = running_loop().time()
        assert (await world.do()).startswith("assigner-1")
        assert running_loop().time() - before < 0.01
        assert world.directory.leader("assigner") == "a1:1"

    run(scenario())


def test_a_dead_leader_is_replaced_when_the_mesh_knows_the_next() -> None:
    async def scenario() -> None:
        world = await World().start()
        await world.do()
        world.leader = ""
        world.network.kill("assigner-0")
        call = asyncio.create_task(world.do())
        await asyncio.sleep(2.0)
        world.leader = "assigner-1"
        assert (await call).startswith("assigner-1")
        assert running_loop().time() < 3.0

    run(scenario())


def test_every_attempt_carries_the_same_request_id() -> None:
    async def scenario() -> None:
        world = await World().start()
        call = asyncio.create_task(world.do("slow"))
        await asyncio.sleep(0.5)
        world.leader = "assigner-1"
        world.network.kill("assigner-0")  # after it did the work, before its answer arrived
        assert (await call).startswith("assigner-1")
        ids = [request_id for _, request_id in world.answered]
        assert len(ids) == 2
        assert len(set(ids)) == 1
        assert len(ids[0]) == 26

    run(scenario())


def test_refusals_are_not_tried_again() -> None:
    async def scenario() -> None:
        world = await World().start()
        with pytest.raises(Invalid):
            await world.do("bad")
        with pytest.raises(ClusterUnavailable):
            await world.do("cluster")
        assert running_loop().time() < 0.1

    run(scenario())


def test_after_a_frozen_leader_the_next_call_asks_around() -> None:
    async def scenario() -> None:
        world = await World().start()
        await world.do()
        world.network.cut("client", "assigner-0")
        world.leader = "assigner-1"
        with pytest.raises(DeadlineExceeded):
            await world.do(timeout_seconds=1.0)
        before = running_loop().time()
        assert (await world.do()).startswith("assigner-1")
        assert running_loop().time() - before < 0.1, "the frozen one was asked first who leads"

    run(scenario())


def test_a_replica_cut_from_the_store_yields_to_one_that_answers() -> None:
    """Otherwise a client that searches for the leader is sent back to the old one again and again, and its leases run
    out."""

    async def scenario() -> None:
        world = await World().start()
        await world.do()
        world.leader, world.stale, world.cut_off = "assigner-1", {"assigner-0": ""}, {"assigner-0"}
        for _ in range(2 * len(world.addresses)):  # whoever is asked first
            world.directory.learn_leader("assigner", "")
            await world.directory.refresh("assigner")
            assert world.directory.leader("assigner") == "a1:1"

    run(scenario())


def test_while_the_store_fails_replicas_are_asked_one_at_a_time() -> None:
    """Thousands search then: each asks everybody once, and from then on one, another each time."""

    async def scenario() -> None:
        world = await World().start()
        await world.do()
        world.leader, world.cut_off = "", set(world.addresses)
        asked = [await world.asked_by_a_refresh() for _ in range(1 + len(world.addresses))]
        assert sorted(asked[0]) == sorted(world.addresses)
        assert sorted(asked[1:]) == sorted([each] for each in world.addresses)
        world.leader, world.cut_off = "assigner-1", {"assigner-0", "assigner-1"}
        for _ in world.addresses:
            await world.asked_by_a_refresh()
        assert world.directory.leader("assigner") == "a1:1", "who can read the store again was not found"

    run(scenario())


def test_a_silent_leader_that_is_still_named_is_not_waited_for() -> None:
    """Its session has not ended yet: it must not cost the whole patience of a caller again and again."""

    async def scenario() -> None:
        world = await World().start()
        await world.do()
        world.network.cut("client", "assigner-0")
        with pytest.raises(DeadlineExceeded):
            await world.do(timeout_seconds=1.0)
        with pytest.raises(Unavailable):
            await world.do(timeout_seconds=3.0)
        world.leader = "assigner-1"
        before = running_loop().time()
        assert (await world.do()).startswith("assigner-1")
        assert running_loop().time() - before < LEADER_PROBE_SECONDS
        world.network.heal("client", "assigner-0")
        world.leader = "assigner-0"
        assert (await world.do()).startswith("assigner-0")  # it answers, so it counts again

    run(scenario())


def test_who_did_not_say_who_leads_is_asked_last() -> None:
    async def scenario() -> None:
        world = await World().start()
        await world.do()
        world.network.cut("client", "assigner-1")
        took: list[float] = []
        for _ in range(6):
            before = running_loop().time()
            await world.directory.refresh()
            took.append(running_loop().time() - before)
        assert sum(seconds > 0.5 for seconds in took) == 1, "once is enough to learn that it is silent"
        world.network.heal("client", "assigner-1")

    run(scenario())


def test_a_silent_address_is_not_asked_again_under_another_name() -> None:
    """A seed may be of any service, and is asked as each; a frozen one must not cost its patience four times."""

    async def scenario() -> None:
        world = await World().start()
        world.directory = Directory(MemoryTransport(world.network, "client"), world.host, ["a1:1", "r0:1"])
        world.network.cut("client", "assigner-1")
        await world.directory.refresh()
        assert running_loop().time() < LIST_ENDPOINTS_SECONDS + 0.1
        assert world.directory.leader("assigner") == "a0:1"
        world.network.heal("client", "assigner-1")

    run(scenario())


def test_waiting_for_one_services_leader_delays_no_other_search() -> None:
    async def scenario() -> None:
        world = await World().start()
        world.patient = "registry"
        await world.do()
        before = running_loop().time()
        waiting = asyncio.ensure_future(world.directory.refresh("registry"))
        await asyncio.sleep(0.1)
        world.leader = "assigner-1"
        world.directory.learn_leader("assigner", "")
        await world.directory.refresh("assigner")
        assert world.directory.leader("assigner") == "a1:1"
        assert running_loop().time() - before < 0.2
        assert not waiting.done()
        await waiting
        assert world.directory.leader("assigner") == "a1:1"

    run(scenario())


def test_a_leader_that_fell_silent_is_nobodys_before_it_answers() -> None:
    async def scenario() -> None:
        world = await World().start()
        await world.do()
        world.network.cut("client", "assigner-0")
        world.directory.learn_leader("assigner", "")
        searching = asyncio.ensure_future(world.directory.refresh("assigner"))
        while not searching.done():
            assert world.directory.leader("assigner") == ""
            await asyncio.sleep(0.01)
        assert LEADER_PROBE_SECONDS <= running_loop().time() < 2 * LEADER_PROBE_SECONDS
        assert world.directory.leader("assigner") == ""
        world.network.heal("client", "assigner-0")

    run(scenario())


def test_a_replica_with_only_old_facts_does_not_hold_up_a_search() -> None:
    async def scenario() -> None:
        world = await World().start()
        await world.do()
        world.stale, world.leader = {"assigner-0": "assigner-0"}, "assigner-1"
        assert (await world.do()).startswith("assigner-1")
        assert running_loop().time() < 0.5

    run(scenario())


def test_connections_to_vanished_replicas_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        world = await World().start()
        first = world.directory.channel("gone:0")
        for number in range(1, 5):
            world.directory.channel(f"gone:{number}")
        await world.directory.refresh()
        assert world.directory.channel("gone:0") is not first
        with pytest.raises(Unavailable):
            await first.unary("/x/Y", StringValue(), StringValue, CallOptions(1.0))
        assert await world.do()

    monkeypatch.setattr(directory, "CHANNELS_KEPT_MAX", 3)
    run(scenario())


def test_the_deadline_bounds_the_search() -> None:
    async def scenario() -> None:
        world = await World().start()
        world.leader = ""
        with pytest.raises((Unavailable, NotLeader)):
            await world.do(timeout_seconds=2.0)
        assert 1.0 < running_loop().time() <= 2.0

    run(scenario())


def test_nobody_there_names_who_was_asked() -> None:
    async def scenario() -> None:
        world = World()
        with pytest.raises(Unavailable, match="r0:1"):
            await world.do(timeout_seconds=1.0)

    run(scenario())


def test_reads_go_to_any_replica_but_spare_the_leader() -> None:
    async def scenario() -> None:
        world = await World().start()
        await world.directory.refresh()
        answer = await world.client.unary("Read", StringValue(), StringValue, any_replica=True)
        assert answer.value == "assigner-1"
        world.network.kill("assigner-1")
        answer = await world.client.unary("Read", StringValue(), StringValue, any_replica=True)
        assert answer.value == "assigner-0"

    run(scenario())


def test_after_a_frozen_replica_the_next_read_goes_to_another() -> None:
    async def scenario() -> None:
        world = await World().start()
        await world.directory.refresh()
        world.network.cut("client", "assigner-1")
        with pytest.raises(DeadlineExceeded):
            await world.client.unary("Read", StringValue(), StringValue, any_replica=True, timeout_seconds=1.0)
        for _ in range(2):
            before = running_loop().time()
            answer = await world.client.unary("Read", StringValue(), StringValue, any_replica=True)
            assert answer.value == "assigner-0"
            assert running_loop().time() - before < 0.1, "the frozen one was asked first again"
            await world.directory.refresh()  # names the frozen one again

    run(scenario())


@pytest.mark.parametrize("streamed", [False, True])
def test_reads_find_a_replica_that_came_after_the_known_one_left(streamed: bool) -> None:
    """The directory was read while a replica was down; then that one returned, and the other went."""

    async def scenario() -> None:
        world = await World().start()
        address = world.addresses.pop("assigner-1")
        world.network.kill("assigner-1")
        await world.directory.refresh()
        world.addresses["assigner-1"] = address
        await world.start_one("assigner-1")
        world.addresses.pop("assigner-0")
        world.network.kill("assigner-0")
        world.leader = "assigner-1"
        if streamed:
            with pytest.raises(Unavailable):
                call = await world.client.duplex("Talk", StringValue, any_replica=True)
                await call.receive()
            call = await world.client.duplex("Talk", StringValue, any_replica=True)
            assert await call.receive() == StringValue(value="assigner-1")
        else:
            await world.client.unary("Read", StringValue(), StringValue, any_replica=True, timeout_seconds=10.0)

    run(scenario())


def test_a_stream_learns_who_leads() -> None:
    async def scenario() -> None:
        world = await World().start()
        await world.directory.refresh()
        world.leader = "assigner-1"
        call = await world.client.duplex("Talk", StringValue)
        with pytest.raises(NotLeader):
            await call.receive()
        again = await world.client.duplex("Talk", StringValue)
        assert await again.receive() == StringValue(value="assigner-1")

    run(scenario())


def test_a_stream_to_a_dead_leader_makes_the_next_ask_around() -> None:
    async def scenario() -> None:
        world = await World().start()
        await world.directory.refresh()
        world.network.kill("assigner-0")
        world.leader = "assigner-1"
        call = await world.client.duplex("Talk", StringValue)
        with pytest.raises(Unavailable):
            await call.receive()
        again = await world.client.duplex("Talk", StringValue)
        assert await again.receive() == StringValue(value="assigner-1")

    run(scenario())


def test_opening_waits_for_a_starting_mesh_and_gives_up_in_time() -> None:
    async def scenario() -> None:
        world = World()
        opening = asyncio.create_task(world.directory.open(15.0))
        await asyncio.sleep(5.0)
        assert not opening.done()
        await world.start()
        await opening
        assert running_loop().time() < 7.0
        nobody = Directory(MemoryTransport(world.network, "other"), world.host, ["x:1"])
        before = running_loop().time()
        with pytest.raises(Unavailable, match="no replica of the mesh answers"):
            await nobody.open(15.0)
        assert 14.0 < running_loop().time() - before < 20.0
        with pytest.raises(Unavailable):
            await nobody.open(0.0)

    run(scenario())


def test_opening_awaits_a_silent_replica_whose_store_elects() -> None:
    async def scenario() -> None:
        world = await World().start()
        world.network.cut("client", "registry-0")  # seen as silence
        opening = asyncio.create_task(world.directory.open(15.0))
        await asyncio.sleep(6.0)
        world.network.heal("client", "registry-0")
        await opening
        assert len(world.directory.endpoints) == 3

    run(scenario())
