"""A proxy that counts connections: what a broker sees of clients that try again."""

import asyncio
import contextlib
import threading

_BLOCK_BYTES = 1 << 16


class ConnectionCounter:
    """Passes connections on to a port of this machine, and counts them.

    Attributes:
        port: Where it listens.
        count: Connections so far.
    """

    def __init__(self, target_port: int) -> None:
        """Passes on to this port."""
        self.count = 0
        self.port = 0
        self._target = target_port
        self._serving = set[asyncio.Task[None]]()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="connection-counter", daemon=True)

    def start(self) -> None:
        """Listens."""
        self._thread.start()
        self.port = asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(30)

    def stop(self) -> None:
        """Ends all connections."""
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)
        self._loop.close()

    def cut(self) -> None:
        """Ends all open connections; the listener goes on."""
        asyncio.run_coroutine_threadsafe(self._cut(), self._loop).result(30)

    async def _cut(self) -> None:
        open_now = list(self._serving)
        for task in open_now:
            task.cancel()
        await asyncio.gather(*open_now, return_exceptions=True)

    async def _listen(self) -> int:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self._server = server
        port: int = server.sockets[0].getsockname()[1]
        return port

    async def _end(self) -> None:
        self._server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.count += 1
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        try:
            with contextlib.suppress(OSError):
                inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", self._target)
                try:
                    await asyncio.gather(_pass(reader, inner_writer), _pass(inner_reader, writer))
                finally:
                    inner_writer.close()
        finally:
            self._serving.discard(task)
            writer.close()


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(_BLOCK_BYTES):
            writer.write(data)
            await writer.drain()
    with contextlib.suppress(OSError, RuntimeError):
        writer.close()
