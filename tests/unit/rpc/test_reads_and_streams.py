"""Reads that any replica answers, and streams: which replica is asked, and who leads afterwards."""

import asyncio

import pytest
from google.protobuf.wrappers_pb2 import StringValue

from braid.kernel.errors import DeadlineExceeded, NotLeader, Unavailable
from braid.rpc.directory import Directory
from braid.rpc.memory.transport import MemoryTransport
from tests.support.virtual_time import running_loop
from tests.unit.rpc.replicas import World, run


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
