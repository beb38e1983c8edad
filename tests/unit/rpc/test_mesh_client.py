"""Finding leaders, following redirects, trying again: against replicas on a network in memory, on virtual time."""

import asyncio

import pytest
from google.protobuf.wrappers_pb2 import StringValue

from braid.kernel.errors import ClusterUnavailable, DeadlineExceeded, Invalid, NotLeader, Unavailable
from braid.kernel.limits.rpc import LEADER_PROBE_SECONDS, LIST_ENDPOINTS_SECONDS
from braid.kernel.ports import CallOptions
from braid.rpc import directory
from braid.rpc.directory import Directory
from braid.rpc.memory.transport import MemoryTransport
from tests.support.virtual_time import running_loop
from tests.unit.rpc.replicas import World, run


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
