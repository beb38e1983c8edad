"""Where Prometheus reads a replica's metrics: over HTTP for this machine, or over TLS for others.

Each connection has a thread, of which there are few, and a time limit. Where all threads are taken, a new connection
ends the oldest: a scrape takes milliseconds, so that whoever stalls holds up nobody else. Over TLS the certificate is
the replica's own, read again when it changes.
"""

import itertools
import logging
import socket
import socketserver
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final, cast
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, make_wsgi_app

from braid.host.tls.files import TlsFiles, TlsMaterial
from braid.kernel.errors import Unavailable
from braid.kernel.limits.runtime import (
    METRICS_BACKLOG,
    METRICS_CONNECTIONS_MAX,
    METRICS_ROOM_SECONDS,
    METRICS_SECONDS,
)

_log: Final = logging.getLogger("braid.metrics")


class MetricsServer(socketserver.ThreadingMixIn, WSGIServer):
    """Serves `/metrics` of one registry in threads of its own until `close`."""

    daemon_threads = True
    request_queue_size = METRICS_BACKLOG

    def __init__(
        self,
        host: str,
        port: int,
        registry: CollectorRegistry,
        files: TlsFiles | None,
        *,
        clients_proved: bool,
        client_seconds: float = METRICS_SECONDS,
    ) -> None:
        """Listens, and begins to serve.

        Args:
            host: Where to listen.
            port: Where to listen; 0 chooses one.
            registry: What to serve.
            files: The replica's files of TLS; None serves plain text.
            clients_proved: Whether clients over TLS need a certificate of an authority in those files.
            client_seconds: A connection is closed after so long, whatever its client does.

        Raises:
            Unavailable: the address is taken, or is none of this machine's.
        """
        self._contexts = _Contexts(files, clients_proved) if files is not None else None
        self._client_seconds = client_seconds
        self._room = threading.BoundedSemaphore(METRICS_CONNECTIONS_MAX)
        self._served: dict[int, socket.socket] = {}  # by a number of their own, the oldest first
        self._serving = threading.Lock()
        self._numbers = itertools.count()
        try:
            self.address_family = socket.getaddrinfo(host, port)[0][0]
            super().__init__((host, port), _Handler)
        except OSError as error:
            raise Unavailable(f"cannot serve metrics on {host}:{port}", remedy="is the port in use?") from error
        self.set_app(make_wsgi_app(registry))
        scheme = "http" if files is None else "https"
        self.url = f"{scheme}://{host}:{self.server_port}/metrics"
        threading.Thread(target=self.serve_forever, name="metrics", daemon=True).start()

    def server_bind(self) -> None:
        """Binds without asking a name server for this machine's name, as `HTTPServer` does."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()

    def process_request(self, request: object, client_address: object) -> None:
        """Serves a connection in a thread, in place of the oldest one if there are too many."""
        if not self._room.acquire(blocking=False):
            self._end_oldest()
            if not self._room.acquire(timeout=METRICS_ROOM_SECONDS):
                self.shutdown_request(cast("socket.socket", request))
                return
        super().process_request(cast("socket.socket", request), client_address)

    def _end_oldest(self) -> None:
        """Ends the connection that has been served for the longest time; its thread notices at once."""
        with self._serving:
            if not self._served:
                return
            oldest = self._served.pop(next(iter(self._served)))
            with suppress(OSError):
                socket.socket.shutdown(oldest, socket.SHUT_RDWR)

    @contextmanager
    def _may_be_ended(self, connection: socket.socket) -> Iterator[None]:
        """Surrounds the time in which a connection may give its place to another one."""
        number = next(self._numbers)
        with self._serving:
            self._served[number] = connection
        try:
            yield
        finally:
            with self._serving:
                self._served.pop(number, None)

    def process_request_thread(self, request: object, client_address: object) -> None:
        """Makes the TLS handshake here, where it may take its time, then serves."""
        connection = cast("socket.socket", request)
        try:
            if self._contexts is not None:
                connection = self._contexts.current().wrap_socket(
                    connection, server_side=True, do_handshake_on_connect=False
                )
            with self._may_be_ended(connection), _cut_after(connection, self._client_seconds):
                if isinstance(connection, ssl.SSLSocket):
                    connection.do_handshake()
                super().process_request_thread(connection, client_address)
        except (OSError, ssl.SSLError) as error:
            _log.debug("a client of the metrics was not served: %s", error)
            self.shutdown_request(connection)
        finally:
            self._room.release()

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away is no news."""
        _log.debug("a client of the metrics went away")

    def close(self) -> None:
        """Ends it."""
        self.shutdown()
        self.server_close()


@contextmanager
def _cut_after(connection: socket.socket, seconds: float) -> Iterator[None]:
    """Ends a connection after so long, whatever its thread waits for."""

    def cut() -> None:
        with suppress(OSError):
            socket.socket.shutdown(connection, socket.SHUT_RDWR)

    timer = threading.Timer(seconds, cut)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


class _Handler(WSGIRequestHandler):
    """Writes no line for each scrape."""

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


class _Contexts:
    """The `ssl` context of connections that begin now: another one after the files changed."""

    def __init__(self, files: TlsFiles, clients_proved: bool) -> None:
        self._files = files
        self._clients_proved = clients_proved
        self._making = threading.Lock()
        self._material = files.current()
        self._context = self._made(self._material)

    def current(self) -> ssl.SSLContext:
        with self._making:
            material = self._files.current()
            if material is not self._material:
                try:
                    self._context = self._made(material)
                    self._material = material
                except (OSError, ssl.SSLError) as error:  # changed again meanwhile: the next connection looks again
                    _log.warning("the TLS files changed and cannot be used for metrics yet: %s", error)
            return self._context

    def _made(self, material: TlsMaterial) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._files.tls.certificate, self._files.tls.key)
        if self._clients_proved:
            context.load_verify_locations(cadata=material.ca.decode())
            context.verify_mode = ssl.CERT_REQUIRED
        return context
