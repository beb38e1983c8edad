"""One client's connections to one replica: new calls use the newest, which presents the newest certificate.

A connection keeps its certificate for its life. So a changed certificate opens another connection, and the old one is
closed once its calls have ended. Streams stay on it until the server ends them (`TlsServing.connection_seconds`).
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import grpc

from braid.host.tls_files import TlsFiles, TlsMaterial
from braid.kernel.limits.rpc import TLS_CONNECTIONS_RETIRED_MAX
from braid.rpc.grpc_wire import CLIENT_OPTIONS
from braid.rpc.tls import channel_credentials


class Connections:
    """Opens connections on first use, and closes those without calls."""

    def __init__(self, address: str, files: TlsFiles | None) -> None:
        """Prepares connections: plaintext, or mutual TLS with `files`."""
        self._address = address
        self._files = files
        self._newest = self._opened()
        self._retired: list[_Connection] = []
        self._closing: set[asyncio.Task[None]] = set()

    @contextmanager
    def newest(self) -> Iterator[grpc.aio.Channel]:
        """The connection for a new call, kept open while the context lasts."""
        if self._files is not None and self._files.current() is not self._newest.material:
            self._rotate()
        used = self._newest
        used.calls += 1
        try:
            yield used.channel
        finally:
            used.calls -= 1
            if not used.calls and used in self._retired:
                self._retired.remove(used)
                self._close_soon(used)

    async def close(self) -> None:
        """Closes all connections; calls under way end."""
        retired, self._retired = self._retired, []
        for each in (*retired, self._newest):
            await each.channel.close()
        if self._closing:
            await asyncio.wait(tuple(self._closing))

    def _opened(self) -> "_Connection":
        if self._files is None:
            return _Connection(grpc.aio.insecure_channel(self._address, options=CLIENT_OPTIONS), None)
        material = self._files.current()
        credentials = channel_credentials(material)
        return _Connection(grpc.aio.secure_channel(self._address, credentials, options=CLIENT_OPTIONS), material)

    def _rotate(self) -> None:
        old, self._newest = self._newest, self._opened()
        if not old.calls:
            self._close_soon(old)
            return
        self._retired.append(old)
        if len(self._retired) > TLS_CONNECTIONS_RETIRED_MAX:
            self._close_soon(self._retired.pop(0))

    def _close_soon(self, connection: "_Connection") -> None:
        closing = asyncio.get_running_loop().create_task(connection.channel.close())
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)


class _Connection:
    """One connection, and the number of calls under way on it."""

    def __init__(self, channel: grpc.aio.Channel, material: TlsMaterial | None) -> None:
        self.channel = channel
        self.material = material
        self.calls = 0
