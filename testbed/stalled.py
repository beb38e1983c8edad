"""Clients that open a connection to a port of mutual TLS and go no further: each kind stalls at another step."""

import socket
import ssl
import time
from types import TracebackType
from typing import Final, Self

from braid.host.tls.paths import Tls

NOTHING: Final = "nothing"
HALF_HELLO: Final = "half a ClientHello"
SLOW_BYTES: Final = "a byte at a time"
NO_PREFACE: Final = "a handshake"
NO_SETTINGS: Final = "the preface of HTTP/2"
NO_CALL: Final = "no call"
KINDS: Final = (NOTHING, HALF_HELLO, SLOW_BYTES, NO_PREFACE, NO_SETTINGS, NO_CALL)

_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_SETTINGS: Final = bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
_ACKNOWLEDGED: Final = bytes((0, 0, 0, 4, 1, 0, 0, 0, 0))
_PING: Final = 6
_HEAD: Final = 9  # bytes before each frame of HTTP/2


class Stalled:
    """Connections that stall; those that came so far answer pings, as a client does that is alive."""

    def __init__(self, address: str, client: Tls) -> None:
        host, _, port = address.rpartition(":")
        self._address = host, int(port)
        self._context = ssl.create_default_context(cafile=client.ca)
        self._context.set_alpn_protocols(["h2"])
        self._context.load_cert_chain(client.certificate, client.key)
        self._hello = self._client_hello()
        self._open: list[tuple[str, socket.socket]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for _, each in self._open:
            each.close()

    def open(self, kind: str) -> None:
        """Opens one more; raises `OSError` where the server takes none."""
        connection = socket.create_connection(self._address, 30.0)
        self._open.append((kind, connection))
        if kind == HALF_HELLO:
            connection.sendall(self._hello[: len(self._hello) // 2])
        if kind in (NO_PREFACE, NO_SETTINGS, NO_CALL):
            connection = self._context.wrap_socket(connection, server_hostname="localhost")
            self._open[-1] = kind, connection
        if kind == NO_SETTINGS:
            connection.sendall(_PREFACE)
        if kind == NO_CALL:
            connection.sendall(_PREFACE + _SETTINGS + _ACKNOWLEDGED)

    def closed_within(self, seconds: float) -> bool:
        """Whether the server closes all of them in time."""
        until = time.monotonic() + seconds
        unsent = dict.fromkeys((each for kind, each in self._open if kind == SLOW_BYTES), self._hello)
        left = [each for _, each in self._open]
        read = dict.fromkeys(left, b"")
        for each in left:
            each.settimeout(0.05)
        while left and time.monotonic() < until:
            left = [each for each in left if not self._ended(each, unsent, read)]
        return not left

    def _ended(
        self, connection: socket.socket, unsent: dict[socket.socket, bytes], read: dict[socket.socket, bytes]
    ) -> bool:
        try:
            if unsent.get(connection):
                connection.sendall(unsent[connection][:1])
                unsent[connection] = unsent[connection][1:]
            data = connection.recv(1 << 16)
        except TimeoutError:
            return False
        except OSError:
            return True
        if not data:
            return True
        read[connection] = _pinged(connection, read[connection] + data)
        return False

    def _client_hello(self) -> bytes:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        handshake = self._context.wrap_bio(incoming, outgoing, server_hostname="localhost")
        try:
            handshake.do_handshake()
        except ssl.SSLWantReadError:
            return outgoing.read()
        raise AssertionError("a handshake without a server")


def _pinged(connection: socket.socket, data: bytes) -> bytes:
    """Answers the pings among frames; returns what is no whole frame yet."""
    while len(data) >= _HEAD and len(data) >= (end := _HEAD + int.from_bytes(data[:3], "big")):
        if data[3] == _PING and not data[4]:
            try:
                connection.sendall(bytes((0, 0, 8, _PING, 1, 0, 0, 0, 0)) + data[_HEAD:end])
            except OSError:
                return b""
        data = data[end:]
    return data
