"""A TCP proxy between one client and one etcd member, for faults of the wire: a cut, a lost request, a lost answer."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, Self

_CHUNK_BYTES: Final = 1 << 16


@dataclass(frozen=True)
class Trap:
    """Waits for a request that contains `marker`, then cuts its connection.

    Attributes:
        forwarded: None loses the request. Else it is forwarded, its answer lost, and the cut comes after this returns.
    """

    marker: bytes
    forwarded: Callable[[], Awaitable[None]] | None


class EtcdProxy:
    """Forwards connections to a member's address."""

    def __init__(self, target: str) -> None:
        self._host, _, port = target.rpartition(":")
        self._port = int(port)
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._open = True
        self.trap: Trap | None = None

    async def start(self) -> Self:
        """Listens on a free port."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    @property
    def address(self) -> str:
        """Where to connect instead."""
        assert self._server is not None
        return f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def cut(self) -> None:
        """Ends every connection, and new ones at once."""
        self._open = False
        await self._end_connections()

    def mend(self) -> None:
        """Ends `cut`."""
        self._open = True

    async def close(self) -> None:
        """Ends the proxy."""
        assert self._server is not None
        self._server.close()
        await self.cut()
        await self._server.wait_closed()

    async def _end_connections(self) -> None:
        ending = list(self._connections)
        for connection in ending:
            connection.cancel()
        await asyncio.gather(*ending, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._open:
            await _close(writer)
            return
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answers: asyncio.StreamWriter | None = None
        try:
            with contextlib.suppress(OSError):
                back, answers = await asyncio.open_connection(self._host, self._port)
                muted = asyncio.Event()
                pumps = [
                    asyncio.ensure_future(self._requests(reader, answers, muted)),
                    asyncio.ensure_future(_answers(back, writer, muted)),
                ]
                try:
                    await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for pump in pumps:
                        pump.cancel()
                    await asyncio.gather(*pumps, return_exceptions=True)
        finally:
            await _close(writer)
            if answers:
                await _close(answers)

    async def _requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, muted: asyncio.Event) -> None:
        while chunk := await reader.read(_CHUNK_BYTES):
            trap = self.trap
            if trap is None or trap.marker not in chunk:
                writer.write(chunk)
                await writer.drain()
                continue
            self.trap = None
            muted.set()
            if trap.forwarded:
                writer.write(chunk)
                await writer.drain()
                await trap.forwarded()
            return


async def _answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, muted: asyncio.Event) -> None:
    while chunk := await reader.read(_CHUNK_BYTES):
        if not muted.is_set():
            writer.write(chunk)
            await writer.drain()


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


@asynccontextmanager
async def etcd_proxy(target: str) -> AsyncIterator[EtcdProxy]:
    """A running proxy, ended afterwards."""
    proxy = await EtcdProxy(target).start()
    try:
        yield proxy
    finally:
        await proxy.close()
