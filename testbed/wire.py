"""A TCP proxy in front of one address, for faults of the wire: bytes held in one or both directions, and cuts.

Held bytes arrive late, in order, once the wire is mended, as after a network partition. A cut ends connections, as a
firewall or a crash does. The proxy runs in the event loop that started it.
"""

import asyncio
import contextlib
from typing import Final, Self

_CHUNK_BYTES: Final = 1 << 16


class Wire:
    """Forwards connections to an address."""

    def __init__(self, target: str) -> None:
        self._host, _, port = target.rpartition(":")
        self._port = int(port)
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._open = True
        self._requests_flow = asyncio.Event()
        self._answers_flow = asyncio.Event()

    async def start(self) -> Self:
        """Listens on a free port."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.mend()
        return self

    @property
    def address(self) -> str:
        """The address of the proxy, to connect to instead."""
        assert self._server is not None
        return f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def hold(self, *, requests: bool = True, answers: bool = True) -> None:
        """Holds all bytes in these directions until the wire is mended; connections stay open."""
        if requests:
            self._requests_flow.clear()
        if answers:
            self._answers_flow.clear()

    async def cut(self) -> None:
        """Ends every connection, with the bytes held on it, and new ones at once."""
        self._open = False
        ending = list(self._connections)
        for connection in ending:
            connection.cancel()
        await asyncio.gather(*ending, return_exceptions=True)

    def mend(self) -> None:
        """Ends `hold` and `cut`."""
        self._open = True
        self._requests_flow.set()
        self._answers_flow.set()

    async def close(self) -> None:
        """Ends the proxy."""
        assert self._server is not None
        self._server.close()
        await self.cut()
        await self._server.wait_closed()

    async def pass_request(self, chunk: bytes, writer: asyncio.StreamWriter, muted: asyncio.Event) -> bool:
        """Forwards a request's bytes; False ends its connection. `muted` drops the answers on it from now on."""
        writer.write(chunk)
        await writer.drain()
        return True

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
                    asyncio.ensure_future(self._answers(back, writer, muted)),
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
        while chunk := await _next(reader, self._requests_flow):
            if not await self.pass_request(chunk, writer, muted):
                return

    async def _answers(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, muted: asyncio.Event) -> None:
        while chunk := await _next(reader, self._answers_flow):
            if not muted.is_set():
                writer.write(chunk)
                await writer.drain()


async def _next(reader: asyncio.StreamReader, flow: asyncio.Event) -> bytes:
    """The next bytes, once they may pass; b"" at the end, which is held like everything else."""
    try:
        chunk = await reader.read(_CHUNK_BYTES)
    except ConnectionError:
        chunk = b""
    await flow.wait()
    return chunk


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
