"""A console's server over an invented mesh: real HTTP, the real page, the real policy on scripts and styles.

`python -m tests.support.console.recorded 7481` serves it for a look by hand.
"""

import json
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, unquote, urlsplit

from console.server.web.page import accepts_gzip, compressed
from tests.support.console import message_answers
from tests.support.console.actions import command_of
from tests.support.console.documents import HOSTILE, NOW_MS, Document
from tests.support.console.views import QUESTIONS, snapshot

STATIC: Final = Path(__file__).resolve().parents[3] / "console/static"
POLICY: Final = (
    "default-src 'self'; img-src 'self' data:; style-src 'self'; script-src 'self'; connect-src 'self'; "
    "object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
}


_SIGNED_OUT: Final[Document] = {
    "signed_in": False,
    "sign_in": ["oidc", "link", "token"],
    "provider": "Example login",
    "problem": {
        "status": 401,
        "reason": "UNAUTHENTICATED",
        "message": f"the sign-in provider refuses: access_denied: {HOSTILE}",
        "field": "",
        "remedy": "sign in as somebody who may use this client, or ask who administers the provider",
    },
    "remedy": "run `braid open`",
    "version": "0.1.0",
}


class RecordedServer(ThreadingHTTPServer):
    """Serves the page and the invented mesh. `deltas` are sent to every stream of a view, once each."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, port: int = 0, signed_in: bool = True) -> None:
        """Listens at a port of the loopback address; 0 for any that is free."""
        super().__init__(("127.0.0.1", port), _Handler)
        self.signed_in = signed_in
        self.requests: list[tuple[str, Document]] = []
        self.deltas: list[Document] = []
        self.told = threading.Condition()
        self.stopping = False

    def handle_error(self, request: object, client_address: object) -> None:
        """Says nothing of browsers that went away; any other error is one."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]

    @property
    def address(self) -> str:
        """Where a browser finds it."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def tell(self, delta: Document) -> None:
        """Sends a delta to every stream that is open, and to those that are opened later."""
        with self.told:
            self.deltas.append(delta)
            self.told.notify_all()

    def end(self) -> None:
        """Ends every stream, then the server."""
        with self.told:
            self.stopping = True
            self.told.notify_all()
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: RecordedServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        address = urlsplit(self.path)
        params = {name: values[-1] for name, values in parse_qs(address.query).items()}
        parts = unquote(address.path).strip("/").split("/")
        if parts[0] != "api":
            self._file(unquote(address.path))
        elif parts[1] == "session":
            self._answer(200, self._session())
        elif not self.server.signed_in:
            self._answer(
                401,
                {
                    "error": {
                        "status": 401,
                        "reason": "UNAUTHENTICATED",
                        "message": "No session.",
                        "field": "",
                        "remedy": "",
                    }
                },
            )
        elif parts[1] == "views":
            self._answer(200, self._snapshot(parts[2], params))
        elif parts[1] == "live":
            self._stream(parts[2], params)
        elif parts[1] == "messages" and parts[-1] == "tail":
            self._tail()
        elif parts[1] == "messages":
            key = f"{params['channel']}/{params['partition']}@{params['offset']}"
            self._answer(200, message_answers.in_full(key))
        else:
            self._answer(200, QUESTIONS[parts[1]](params))

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        parts = self.path.strip("/").split("/")
        verb = parts[2] if len(parts) > 2 else ""
        self.server.requests.append((self.path, body))
        if self.headers["X-Braid-Csrf"] != "not-forged" and verb:
            self._answer(
                403,
                {
                    "error": {
                        "status": 403,
                        "reason": "ACCESS_DENIED",
                        "message": "No token.",
                        "field": "",
                        "remedy": "",
                    }
                },
            )
        elif parts[1] == "messages" and parts[-1] == "cli":
            self._answer(200, {"cli": f"printf '%s\\n' {body['value']} | braid produce logs"})
        elif parts[1] == "messages":
            self._answer(200, message_answers.SENT if parts[-1] == "produce" else message_answers.found(body))
        elif parts[-1] == "cli":
            self._answer(200, {"cli": command_of(verb, body)})
        else:
            dry = bool(body.get("dry_run"))
            result = {"moves": [{"lane": "live", "to_cluster": body.get("to", "")}]}
            self._answer(
                200, {"result": result, "cli": command_of(verb, body), "dry_run": dry, "summary": f"{verb} is recorded"}
            )

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing: a test's output is its own."""

    def _session(self) -> Document:
        if not self.server.signed_in:
            return _SIGNED_OUT
        return {
            "signed_in": True,
            "how": "link",
            "principal": "spiffe://braid.local/user/ann",
            "csrf": "not-forged",
            "expires_ms": 0,
            "mesh": "127.0.0.1:7401",
            "sign_in": ["link"],
            "version": "0.1.0",
        }

    def _snapshot(self, view: str, params: Mapping[str, str]) -> Document:
        return {"view": view, "params": dict(params), "now_ms": NOW_MS, "id": "k.1", "parts": snapshot(view, params)}

    def _stream(self, view: str, params: Mapping[str, str]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self._event("snapshot", self._snapshot(view, params), "k.1")
        for number, delta in enumerate(self._deltas(), 2):
            if "parts" in delta:  # others are a tail's
                self._event("delta", delta, f"k.{number}")
        self.close_connection = True

    def _tail(self) -> None:
        """Sends what a tail begins with; then every delta of the test becomes an event of rows."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self._event("began", message_answers.BEGAN, "")
        self._event("rows", message_answers.followed(900), "")
        for delta in self._deltas():
            self._event("rows" if "rows" in delta else "heartbeat", delta, "")
        self.close_connection = True

    def _deltas(self) -> Iterator[Document]:
        sent = 0
        while True:
            with self.server.told:
                while sent == len(self.server.deltas) and not self.server.stopping:
                    self.server.told.wait(5.0)
                    if sent == len(self.server.deltas):
                        break
                if self.server.stopping:
                    return
                fresh = self.server.deltas[sent:]
            yield from fresh or [{"now_ms": NOW_MS, "parts": {}}]
            sent += len(fresh)

    def _event(self, name: str, data: Document, id: str) -> None:
        try:
            self.wfile.write(f"event: {name}\nid: {id}\ndata: {json.dumps(data)}\n\n".encode())
            self.wfile.flush()
        except OSError:
            self.close_connection = True

    def _file(self, path: str) -> None:
        file = STATIC / path.strip("/")
        if not path.strip("/") or not file.is_file():
            file = STATIC / "index.html"
        packed = accepts_gzip(self.headers.get("Accept-Encoding", ""))
        content = compressed(file) if packed else file.read_bytes()
        self.send_response(200)
        if packed:
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Type", _TYPES.get(file.suffix, "application/octet-stream"))
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Content-Security-Policy", POLICY)
        self.end_headers()
        self.wfile.write(content)

    def _answer(self, status: int, body: Document) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


@contextmanager
def recorded_console(signed_in: bool = True) -> Iterator[RecordedServer]:
    """Serves until the block ends."""
    server = RecordedServer(signed_in=signed_in)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.end()
        thread.join(5.0)


if __name__ == "__main__":
    RecordedServer(int(sys.argv[1])).serve_forever()
