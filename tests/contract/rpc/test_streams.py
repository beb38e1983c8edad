"""Streams in one direction and in both, over every transport."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
from google.protobuf.wrappers_pb2 import StringValue

from braid.kernel.errors import Conflict, NotLeader, Unavailable, Unsupported
from braid.kernel.ports import Caller, DuplexServing
from tests.contract.rpc.conftest import OPTIONS, Mesh, path, say, text

MANY = 500


async def _echo(stream: DuplexServing) -> None:
    while (message := await stream.receive()) is not None:
        await stream.send(say(f"{text(message)} to {stream.caller.principal}"))


class Watched:
    """A duplex handler that remembers how its stream ended."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.heard: list[str] = []

    async def __call__(self, stream: DuplexServing) -> None:
        self.open.set()
        try:
            while (message := await stream.receive()) is not None:
                self.heard.append(text(message))
                await stream.send(message)
        except Unavailable:
            self.ended.set_result("broken")
            raise
        self.ended.set_result("clean")


async def test_receiving_on_an_unserved_stream_says_so(mesh: Mesh) -> None:
    server = await mesh.serve(unaries={})
    for late in (0.0, 0.1):
        call = mesh.channel(server.address).duplex(path("Nothing"), StringValue, OPTIONS)
        await asyncio.sleep(late)
        with contextlib.suppress(Unavailable):  # it may have ended already
            await call.send(say("hello"))
        with pytest.raises(Unsupported) as told:
            await call.receive()
        assert not told.value.remedy  # as a replica that knows the method, and refuses, would give
        await call.close()


async def test_a_server_stream_delivers_in_order_and_ends(mesh: Mesh) -> None:
    async def count(request: StringValue, caller: Caller) -> AsyncIterator[StringValue]:
        for number in range(MANY):
            yield say(f"{request.value}{number}")

    channel = mesh.channel((await mesh.serve(streams={"Count": count})).address)
    got = [message.value async for message in channel.server_stream(path("Count"), say("n"), StringValue, OPTIONS)]
    assert got == [f"n{number}" for number in range(MANY)]


async def test_a_server_stream_ends_with_the_error_raised(mesh: Mesh) -> None:
    async def fail(request: StringValue, caller: Caller) -> AsyncIterator[StringValue]:
        yield say("one")
        raise Conflict("changed", metadata={"sequence": "7"})

    channel = mesh.channel((await mesh.serve(streams={"Fail": fail})).address)
    got: list[str] = []
    with pytest.raises(Conflict) as error:
        async for message in channel.server_stream(path("Fail"), say(""), StringValue, OPTIONS):
            got.append(message.value)
    assert got == ["one"]
    assert error.value.metadata == {"sequence": "7"}


async def test_leaving_a_server_stream_ends_its_handler(mesh: Mesh) -> None:
    ended = asyncio.Event()

    async def forever(request: StringValue, caller: Caller) -> AsyncIterator[StringValue]:
        try:
            yield say("first")
            await asyncio.Event().wait()
        finally:
            ended.set()

    channel = mesh.channel((await mesh.serve(streams={"Forever": forever})).address)
    stream = channel.server_stream(path("Forever"), say(""), StringValue, OPTIONS)
    assert (await anext(stream)).value == "first"
    await stream.aclose()  # type: ignore[attr-defined]  # an async generator, as every adapter's is
    await asyncio.wait_for(ended.wait(), 60)


async def test_a_duplex_stream_carries_both_ways_and_ends_well(mesh: Mesh) -> None:
    watched = Watched()
    call = mesh.channel((await mesh.serve(duplexes={"Talk": watched})).address).duplex(
        path("Talk"), StringValue, OPTIONS
    )
    for number in range(3):
        await call.send(say(str(number)))
        assert text(await call.receive()) == str(number)
    await call.close()
    assert await asyncio.wait_for(watched.ended, 60) == "clean"


@pytest.mark.parametrize("length", [1, 20_000], ids=["small", "beyond flow control"])
async def test_many_tasks_may_send_at_once_on_either_end(mesh: Mesh, length: int) -> None:
    heard: list[str] = []

    async def both_ways(stream: DuplexServing) -> None:
        async with asyncio.TaskGroup() as sending:
            while (message := await stream.receive()) is not None:
                heard.append(text(message))
                sending.create_task(stream.send(message))

    call = mesh.channel((await mesh.serve(duplexes={"Both": both_ways})).address).duplex(
        path("Both"), StringValue, OPTIONS
    )
    messages = [f"{number} {'x' * length}" for number in range(200)]
    async with asyncio.TaskGroup() as group:
        for message in messages:
            group.create_task(call.send(say(message)))
        answers = [text(await call.receive()) for _ in messages]
    assert heard == messages
    assert answers == messages
    await call.close()


async def test_the_opener_is_known(mesh: Mesh) -> None:
    call = mesh.channel((await mesh.serve(duplexes={"Echo": _echo})).address).duplex(path("Echo"), StringValue, OPTIONS)
    await call.send(say("hello"))
    assert text(await call.receive()) == f"hello to {mesh.principal()}"


async def test_the_server_can_end_a_stream_well(mesh: Mesh) -> None:
    async def once(stream: DuplexServing) -> None:
        await stream.send(say("bye"))

    call = mesh.channel((await mesh.serve(duplexes={"Once": once})).address).duplex(path("Once"), StringValue, OPTIONS)
    assert text(await call.receive()) == "bye"
    assert await call.receive() is None
    with pytest.raises(Unavailable):
        for _ in range(MANY):
            await call.send(say("too late"))


async def test_the_server_can_refuse_a_stream(mesh: Mesh) -> None:
    async def refuse(stream: DuplexServing) -> None:
        assert await stream.receive() is not None
        raise NotLeader("not here", metadata={"leader": "10.0.0.9:1"})

    call = mesh.channel((await mesh.serve(duplexes={"Join": refuse})).address).duplex(
        path("Join"), StringValue, OPTIONS
    )
    await call.send(say("hello"))
    with pytest.raises(NotLeader) as error:
        await call.receive()
    assert error.value.leader == "10.0.0.9:1"


async def test_a_stream_to_nobody_is_unavailable(mesh: Mesh) -> None:
    call = mesh.channel("127.0.0.1:1").duplex(path("Echo"), StringValue, OPTIONS)
    with pytest.raises(Unavailable):
        await call.receive()


async def test_a_closed_connection_is_told_from_a_clean_end(mesh: Mesh) -> None:
    watched = Watched()
    channel = mesh.channel((await mesh.serve(duplexes={"Talk": watched})).address)
    call = channel.duplex(path("Talk"), StringValue, OPTIONS)
    await call.send(say("hello"))
    assert text(await call.receive()) == "hello"
    await channel.close()
    assert await asyncio.wait_for(watched.ended, 60) == "broken"
    with pytest.raises(Unavailable):
        await call.receive()


async def test_what_was_sent_before_a_clean_end_arrives(mesh: Mesh) -> None:
    watched = Watched()
    call = mesh.channel((await mesh.serve(duplexes={"Talk": watched})).address).duplex(
        path("Talk"), StringValue, OPTIONS
    )
    for number in range(20):
        await call.send(say(str(number)))
    await call.close()
    assert await asyncio.wait_for(watched.ended, 60) == "clean"
    assert watched.heard == [str(number) for number in range(20)]


async def test_an_interrupted_receive_loses_nothing(mesh: Mesh) -> None:
    go = asyncio.Event()

    async def late(stream: DuplexServing) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await stream.receive()
        await stream.send(say("ready"))
        assert text(await stream.receive()) == "question"
        await go.wait()
        await stream.send(say("answer"))

    call = mesh.channel((await mesh.serve(duplexes={"Late": late})).address).duplex(path("Late"), StringValue, OPTIONS)
    assert text(await call.receive()) == "ready"
    await call.send(say("question"))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await call.receive()
    go.set()
    assert text(await call.receive()) == "answer"


async def test_a_slow_reader_holds_the_writer_and_gets_everything(mesh: Mesh) -> None:
    sent: list[int] = []
    padding = "x" * 10_000

    async def flood(stream: DuplexServing) -> None:
        for number in range(MANY):
            await stream.send(say(f"{number}:{padding}"))
            sent.append(number)

    call = mesh.channel((await mesh.serve(duplexes={"Flood": flood})).address).duplex(
        path("Flood"), StringValue, OPTIONS
    )
    assert text(await call.receive()).startswith("0:")
    got = [text(await call.receive()).partition(":")[0] for _ in range(1, MANY)]
    assert got == [str(number) for number in range(1, MANY)]
    assert await call.receive() is None


async def test_stopping_ends_streams_at_once_as_unavailable(mesh: Mesh) -> None:
    async def forever(request: StringValue, caller: Caller) -> AsyncIterator[StringValue]:
        yield say("first")
        await asyncio.Event().wait()

    watched = Watched()
    server = await mesh.serve(streams={"Forever": forever}, duplexes={"Talk": watched})
    channel = mesh.channel(server.address)
    call = channel.duplex(path("Talk"), StringValue, OPTIONS)
    await call.send(say("hello"))
    assert text(await call.receive()) == "hello"
    stream = channel.server_stream(path("Forever"), say(""), StringValue, OPTIONS)
    assert (await anext(stream)).value == "first"
    async with asyncio.timeout(2.0):
        await server.stop(10.0)
    assert await asyncio.wait_for(watched.ended, 60) == "broken"
    with pytest.raises(Unavailable):
        await call.receive()
    with pytest.raises(Unavailable):
        await anext(stream)
