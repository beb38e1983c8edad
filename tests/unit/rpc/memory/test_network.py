"""Faults of the network in memory, on virtual time: latency, cuts, kills."""

import asyncio
from collections.abc import Coroutine
from functools import partial
from typing import Any

import pytest
from google.protobuf.wrappers_pb2 import StringValue

from braid.kernel.errors import DeadlineExceeded, Unavailable
from braid.kernel.ports import Caller, CallOptions, DuplexServing, RpcService
from braid.rpc.memory.network import MemoryNetwork
from braid.rpc.memory.transport import MemoryTransport
from braid.rpc.methods import duplex, unary
from tests.support.virtual_time import VirtualFailure, VirtualProcess, run_virtual, running_loop

SAY, TALK = "/t.Example/Say", "/t.Example/Talk"
OPTIONS = CallOptions(60.0)


class World:
    """A server and a client, each a virtual process, and the network between them."""

    def __init__(self) -> None:
        loop = running_loop()
        self.loop = loop
        wires = VirtualProcess(loop, "wires", 1).host
        self.network = MemoryNetwork(wires.clock, wires.randomness)
        self.server = VirtualProcess(loop, "server", 1)
        self.client = VirtualProcess(loop, "client", 1)
        for process in (self.server, self.client):
            process.on_kill(partial(self.network.kill, process.name))
        self.ended: list[tuple[str, float]] = []
        self.address = ""

    async def start(self) -> "World":
        """Serves from within the server's process, as a replica would."""
        started = asyncio.Event()

        async def serve() -> None:
            service = RpcService(
                "t.Example", {SAY: unary(StringValue, self._say)}, {}, {TALK: duplex(StringValue, self._talk)}
            )
            server = await MemoryTransport(self.network, "server").serve("server:0", service)
            self.address = server.address
            started.set()

        self.server.tasks.spawn(serve(), "serve")
        await started.wait()
        self.channel = MemoryTransport(self.network, "client").channel(self.address)
        return self

    async def say(self, timeout_seconds: float = 60.0) -> str:
        answer = await self.channel.unary(SAY, StringValue(value="x"), StringValue, CallOptions(timeout_seconds))
        return answer.value

    async def _say(self, request: StringValue, caller: Caller) -> StringValue:
        if request.value == "bug":
            raise ZeroDivisionError("a bug")
        return StringValue(value=f"{request.value} from {caller.peer}")

    async def _talk(self, stream: DuplexServing) -> None:
        how = "clean"
        try:
            while (message := await stream.receive()) is not None:
                await stream.send(message)
        except Unavailable:
            how = "broken"
        self.ended.append((how, self.loop.time()))


def run(work: Coroutine[Any, Any, None]) -> None:
    """Runs a test on virtual time."""
    run_virtual(work)


def test_latency_is_paid_both_ways() -> None:
    async def scenario() -> None:
        world = await World().start()
        world.network.set_latency("client", world.address, 1.0, 1.0)
        before = world.loop.time()
        assert await world.say() == "x from client"
        assert world.loop.time() - before == pytest.approx(2.0)

    run(scenario())


def test_a_cut_holds_calls_until_their_deadline_and_heals() -> None:
    async def scenario() -> None:
        world = await World().start()
        world.network.cut("client", "server")
        with pytest.raises(DeadlineExceeded):
            await world.say(2.0)
        held = asyncio.create_task(world.say())
        await asyncio.sleep(5.0)
        assert not held.done()
        world.network.heal("client", "server")
        assert await held == "x from client"

    run(scenario())


def test_a_stream_survives_a_short_cut_in_order() -> None:
    async def scenario() -> None:
        world = await World().start()
        call = world.channel.duplex(TALK, StringValue, OPTIONS)
        await call.send(StringValue(value="0"))
        assert await call.receive() == StringValue(value="0")
        world.network.cut("client", "server")
        for number in range(1, 5):
            await call.send(StringValue(value=str(number)))
        await asyncio.sleep(5.0)
        world.network.heal("server", "client")
        got = [await call.receive() for _ in range(4)]
        assert got == [StringValue(value=str(number)) for number in range(1, 5)]
        assert world.ended == []

    run(scenario())


def test_keepalive_breaks_streams_of_a_long_cut_on_both_ends() -> None:
    async def scenario() -> None:
        world = await World().start()
        call = world.channel.duplex(TALK, StringValue, OPTIONS)
        await call.send(StringValue(value="0"))
        await call.receive()
        begun = world.loop.time()
        world.network.cut("client", "server")
        with pytest.raises(Unavailable):
            await call.receive()
        assert world.loop.time() - begun == pytest.approx(15.0)
        await asyncio.sleep(0.1)
        assert [how for how, _ in world.ended] == ["broken"]
        with pytest.raises(Unavailable):
            await world.channel.duplex(TALK, StringValue, OPTIONS).receive()

    run(scenario())


def test_a_one_way_cut_lets_answers_through() -> None:
    async def scenario() -> None:
        world = await World().start()
        world.network.cut("server", "client", one_way=True)
        with pytest.raises(DeadlineExceeded):
            await world.say(1.0)
        world.network.heal("client", "server")
        world.network.cut("client", "server", one_way=True)
        with pytest.raises(DeadlineExceeded):
            await world.say(1.0)

    run(scenario())


def test_a_killed_client_breaks_its_streams_within_a_latency() -> None:
    async def scenario() -> None:
        world = await World().start()

        async def member() -> None:
            call = world.channel.duplex(TALK, StringValue, OPTIONS)
            await call.send(StringValue(value="0"))
            await call.receive()
            await asyncio.Event().wait()

        world.client.tasks.spawn(member(), "member")
        await asyncio.sleep(1.0)
        killed = world.loop.time()
        world.client.kill()
        await asyncio.sleep(1.0)
        assert [how for how, _ in world.ended] == ["broken"]
        assert world.ended[0][1] - killed <= 0.001

    run(scenario())


def test_a_killed_server_is_unavailable_and_its_address_free() -> None:
    async def scenario() -> None:
        world = await World().start()
        call = world.channel.duplex(TALK, StringValue, OPTIONS)
        await call.send(StringValue(value="0"))
        await call.receive()
        old = world.address
        world.server.kill()
        with pytest.raises(Unavailable):
            await call.receive()
        with pytest.raises(Unavailable, match="refused"):
            await world.say()
        assert world.ended == []  # nobody is left to see it
        again = MemoryTransport(world.network, "server")
        server = await again.serve(old, RpcService("t.Example", {SAY: unary(StringValue, world._say)}, {}, {}))
        assert not world.network.serving(old)
        server.set_serving(True)
        assert world.network.serving(old)
        assert await world.say() == "x from client"

    run(scenario())


def test_messages_are_copies() -> None:
    async def scenario() -> None:
        world = await World().start()
        call = world.channel.duplex(TALK, StringValue, OPTIONS)
        message = StringValue(value="before")
        await call.send(message)
        message.value = "after"
        assert await call.receive() == StringValue(value="before")

    run(scenario())


def test_a_bug_in_a_handler_is_heard() -> None:
    async def scenario() -> None:
        world = await World().start()
        await world.channel.unary(SAY, StringValue(value="bug"), StringValue, OPTIONS)

    with pytest.raises(VirtualFailure, match="a bug"):
        run(scenario())
