"""A gated loop breaks connections to what it refuses, opens none, and leaves all others alone."""

import asyncio
import contextlib
from collections.abc import Coroutine

import pytest

from braid.drill.gate import GatedLoop, parse_addresses


def play(scene: Coroutine[None, None, None]) -> None:
    with asyncio.Runner(loop_factory=GatedLoop) as runner:
        runner.run(scene)


_ECHOES: set["asyncio.Task[object]"] = set()


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    task = asyncio.current_task()
    assert task is not None
    _ECHOES.add(task)
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(100):
            writer.write(data)
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()


async def server() -> tuple[asyncio.Server, int]:
    made = await asyncio.start_server(echo, "127.0.0.1", 0)
    return made, int(made.sockets[0].getsockname()[1])


def test_refused_addresses_break_and_open_again() -> None:
    async def scene() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, GatedLoop)
        (one, lost), (other, kept) = await server(), await server()
        to_lost = await asyncio.open_connection("127.0.0.1", lost)
        to_kept = await asyncio.open_connection("127.0.0.1", kept)
        loop.refuse(parse_addresses([f"127.0.0.1:{lost}"]))
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await to_lost[0].readexactly(1)
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", lost)
        to_kept[1].write(b"x")
        assert await to_kept[0].readexactly(1) == b"x"
        loop.refuse(())
        again = await asyncio.open_connection("127.0.0.1", lost)
        again[1].write(b"y")
        assert await again[0].readexactly(1) == b"y"
        for _, writer in (to_lost, to_kept, again):
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()
        for each in (one, other):
            each.close()
            await each.wait_closed()
        await asyncio.wait(_ECHOES)

    play(scene())


def test_addresses_are_read_as_brokers_tell_them() -> None:
    assert parse_addresses(["a.b:9092", "[::1]:9093"]) == {("a.b", 9092), ("::1", 9093)}
