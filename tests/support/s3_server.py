"""An S3 server over real HTTP, of the package moto: it can go away, come back with what it had, and refuse requests.

moto takes a second of a core to import, so it is imported by the first server, not by whoever collects tests.
"""

import threading
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from tests.support.planted import credential

if TYPE_CHECKING:
    from werkzeug.serving import BaseWSGIServer

_LOOK_SECONDS = 0.02
USER, PASSWORD, REGION = "braid", credential("s3"), "us-east-1"


class S3Server:
    """One server on a port of its own.

    Attributes:
        requests: `METHOD path?query` of everything that arrived.
        refuses: Which of them are answered with an internal error.
        hangs: Which of them are answered once this says otherwise, as by a process that is stopped.
    """

    def __init__(self, certificate: tuple[str, str] | None = None) -> None:
        """Serves plain text, or over TLS with the files of a certificate and its key."""
        self._certificate = certificate
        self.requests: list[str] = []
        self.refuses: Callable[[str], bool] = lambda request: False
        self.hangs: Callable[[str], bool] = lambda request: False
        from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app

        self._app = DomainDispatcherApplication(create_backend_app)
        self._port = 0
        self._server: BaseWSGIServer | None = None
        self._thread: threading.Thread | None = None

    @property
    def endpoint(self) -> str:
        """Its address."""
        return f"http{'s' if self._certificate else ''}://127.0.0.1:{self._port}"

    def start(self) -> "S3Server":
        """Listens; after `stop`, where it did before and with what it had."""
        from werkzeug.serving import WSGIRequestHandler, make_server

        class Quiet(WSGIRequestHandler):
            def log(self, type: str, message: str, *args: object) -> None:
                """Requests are in `S3Server.requests`."""

        self._server = make_server(
            "127.0.0.1",
            self._port,
            self._answer,
            threaded=True,
            request_handler=Quiet,
            ssl_context=self._certificate,
        )
        self._port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()
        return self

    def stop(self) -> None:
        """Answers nobody any more."""
        if self._server is not None and self._thread is not None:
            self._server.shutdown()
            self._server.server_close()
            self._thread.join()
            self._server = None

    def make_bucket(self, name: str, ca: str = "") -> None:
        """Makes a bucket."""
        from pyarrow import fs

        scheme, _, host = self.endpoint.partition("://")
        files = fs.S3FileSystem(
            access_key=USER,
            secret_key=PASSWORD,
            region=REGION,
            endpoint_override=host,
            scheme=scheme,
            tls_ca_file_path=ca or None,
            allow_bucket_creation=True,
        )
        files.create_dir(name)

    def _answer(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        query = f"?{environ['QUERY_STRING']}" if environ["QUERY_STRING"] else ""
        request = f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}{query}"
        self.requests.append(request)
        while self.hangs(request):
            time.sleep(_LOOK_SECONDS)
        if self.refuses(request):
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            start("500 Internal Server Error", [("Content-Length", "0")])
            return [b""]
        return self._app(environ, start)  # type: ignore[no-any-return]
