"""A console's server over an invented mesh: real HTTP, the real page, the real policy on scripts and styles.

`python -m tests.support.console.recorded 7481` serves it for a look by hand.
"""

import json
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, unquote, urlsplit

from tests.support.console import documents, happenings
from tests.support.console.actions import ACTIONS, command_of
from tests.support.console.documents import NOW_MS, Document

STATIC: Final = Path(__file__).resolve().parents[3] / "console/static"
POLICY: Final = (
    "default-src 'self'; img-src 'self' data:; style-src 'self'; script-src 'self'; connect-src 'self'; "
    "object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
_TYPES: Final = {".html": "text/html; charset=utf-8", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
_UNREACHABLE: Final = {
    "status": 503,
    "reason": "UNAVAILABLE",
    "message": "No lagmon replica answers.",
    "field": "",
    "remedy": "braid dev status",
}
_STALE_MS: Final = 42_000


def _table(rows: list[Document], stale: bool = False) -> Document:
    as_of_ms = NOW_MS - (_STALE_MS if stale else 300)
    error = _UNREACHABLE if stale else None
    return {"kind": "table", "rows": rows, "as_of_ms": as_of_ms, "stale": stale, "error": error, "more": False}


def _value(value: object) -> Document:
    return {"kind": "value", "value": value, "as_of_ms": NOW_MS - 300, "stale": False, "error": None}


def _missing(kind: str, name: str) -> Document:
    error = {"status": 404, "reason": "NOT_FOUND", "message": f"There is no {kind} {name!r}.", "field": "name", "remedy": f"braid get {kind}s"}
    return _value(None) | {"error": error}


def _named(kind: str, rows: list[Document], name: str) -> Document:
    found = next((row for row in rows if row["name"] == name), None)
    return _missing(kind, name) if found is None else _value(found)


def _channels(cluster: str = "") -> list[Document]:
    channels = [each for stream in documents.streams() for each in stream["status"]["channels"]]
    return [each for each in channels if cluster in ("", each["cluster"])]


def _clusters() -> list[Document]:
    return [documents.cluster(*state) for state in documents.CLUSTER_STATES]


def _overview(_params: Mapping[str, str]) -> Document:
    summary = {
        "clusters": 4, "clusters_unwell": 2, "streams": 4, "streams_blocked": 1, "moves": 2, "groups": 5, "free_leases": 2,
        "worst_lag_seconds": 3_840.0, "lag_stale": 1, "alerts_firing": 2,
    }  # fmt: skip
    firing = [alert for alert in happenings.alerts() if alert["state"] == "firing"]
    return {
        "summary": _value(summary),
        "clusters": _table(_clusters()),
        "streams": _table(documents.streams()),
        "lag": _table(documents.lags()),
        "alerts": _table(firing),
        "events": _table(happenings.events(12)),
    }


def _stream(params: Mapping[str, str]) -> Document:
    name = params.get("name", "")
    lags = [documents.lag(each["group"], f"{each['stream']}/{each['lane']}/west/braid.{name}.{each['lane']}.7", each["lag_seconds"], each["lag_records"]) for each in documents.lags() if each["stream"] == name]
    return {
        "stream": _named("stream", documents.streams(), name),
        "lag": _table(lags),
        "groups": _table(documents.groups()),
        "clusters": _table(_clusters()),
        "alerts": _table([alert for alert in happenings.alerts() if alert["stream"] == name]),
    }


def _group(params: Mapping[str, str]) -> Document:
    name = params.get("name", "")
    known = name == "indexer"
    return {
        "group": _named("group", documents.groups(), name),
        "members": _table(documents.members() if known else []),
        "leases": _table(documents.leases() if known else []),
        "lag": _table(documents.lease_lags() if known else [], stale=known),
        "history": _table(documents.history() if known else []),
        "alerts": _table([alert for alert in happenings.alerts() if alert["group"] == name]),
    }


def _cluster(params: Mapping[str, str]) -> Document:
    name = params.get("name", "")
    return {
        "cluster": _named("cluster", _clusters(), name),
        "channels": _table(_channels(name)),
        "alerts": _table([alert for alert in happenings.alerts() if alert["cluster"] == name]),
    }


def _letters(_params: Mapping[str, str]) -> Document:
    summary = {"total": 140, "total_incomplete": False, "catching_up": ["east"]}
    return {"letters": _table(happenings.letters()), "kinds": _table(happenings.kinds()), "summary": _value(summary)}


def _access(_params: Mapping[str, str]) -> Document:
    summary = {"enforced": True, "configured_admins": ["spiffe://braid.local/user/root"]}
    return {
        "grants": _table(happenings.grants()),
        "approvals": _table(happenings.approvals()),
        "policies": _table(happenings.policies()),
        "summary": _value(summary),
    }


VIEWS: Final[Mapping[str, Callable[[Mapping[str, str]], Document]]] = {
    "overview": _overview,
    "streams": lambda _params: {"streams": _table(documents.streams()), "lag": _table(documents.lags())},
    "stream": _stream,
    "groups": lambda _params: {"groups": _table(documents.groups()), "lag": _table(documents.lags(), stale=True)},
    "group": _group,
    "clusters": lambda _params: {"clusters": _table(_clusters()), "channels": _table(_channels())},
    "cluster": _cluster,
    "alerts": lambda _params: {"alerts": _table(happenings.alerts()), "outlets": _table(happenings.outlets())},
    "events": lambda _params: {"events": _table(happenings.events()), "gaps": _table([])},
    "dead-letters": _letters,
    "dead-letter": lambda _params: {"letter": _value(happenings.letter_in_full())},
    "replays": lambda _params: {"replays": _table(happenings.replays())},
    "pathways": lambda _params: {"pathways": _table(happenings.pathways()), "summary": _value({"window_seconds": 60, "kept_since_ms": NOW_MS})},
    "access": _access,
}


def _reason(place: int, text: str, actor: str) -> Document:
    return {"time_ms": NOW_MS - 90_000 + place * 900, "actor": actor, "history": "assigner/group/indexer", "sequence": 300 + place, "type": "LeasesGranted", "text": text}


def _why(params: Mapping[str, str]) -> Document:
    lease = next((each for each in documents.leases() if each["name"] == params.get("lease")), None)
    reasons = [
        _reason(0, "registry made channel logs/live/7 active: east is down", "registry-0"),
        _reason(1, "free: nobody had it before", "assigner-1"),
        _reason(2, f"granted to indexer-0, which bore the least load (0.78), {documents.HOSTILE}", "assigner-1"),
    ]
    return {"lease": lease, "reasons": reasons, "kept_from_sequence": 118}


def _search(params: Mapping[str, str]) -> Document:
    sought = params.get("q", "").lower()
    every = [("stream", each["name"]) for each in documents.streams()] + [("group", each["name"]) for each in documents.groups()] + [("cluster", each["name"]) for each in _clusters()]
    names = [{"key": f"{kind}/{name}", "kind": kind, "name": name} for kind, name in every if sought in name.lower()]
    return {"names": names, "errors": []}


_QUESTIONS: Final[Mapping[str, Callable[[Mapping[str, str]], Document]]] = {
    "why": _why,
    "search": _search,
    "can": lambda _params: {"allowed": False, "why": "No grant of yours allows it.", "missing": {"role": "operator", "resource": "stream/logs"}},
    "actions": lambda _params: {"actions": ACTIONS},
    "events": lambda _params: {"events": [], "gaps": [], "next_page_token": "", "errors": []},
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
            self._answer(401, {"error": {"status": 401, "reason": "UNAUTHENTICATED", "message": "No session.", "field": "", "remedy": ""}})
        elif parts[1] == "views":
            self._answer(200, self._snapshot(parts[2], params))
        elif parts[1] == "live":
            self._stream(parts[2], params)
        else:
            self._answer(200, _QUESTIONS[parts[1]](params))

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        parts = self.path.strip("/").split("/")
        verb = parts[2] if len(parts) > 2 else ""
        self.server.requests.append((self.path, body))
        if self.headers["X-Braid-Csrf"] != "not-forged" and verb:
            self._answer(403, {"error": {"status": 403, "reason": "ACCESS_DENIED", "message": "No token.", "field": "", "remedy": ""}})
        elif parts[-1] == "cli":
            self._answer(200, {"cli": command_of(verb, body)})
        else:
            dry = bool(body.get("dry_run"))
            result = {"moves": [{"lane": "live", "to_cluster": body.get("to", "")}]}
            self._answer(200, {"result": result, "cli": command_of(verb, body), "dry_run": dry, "summary": f"{verb} is recorded"})

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing: a test's output is its own."""

    def _session(self) -> Document:
        if not self.server.signed_in:
            return {"signed_in": False, "sign_in": ["link", "token"], "remedy": "run `braid open`", "version": "0.1.0"}
        return {
            "signed_in": True, "how": "link", "principal": "spiffe://braid.local/user/ann", "csrf": "not-forged", "expires_ms": 0,
            "mesh": "127.0.0.1:7401", "sign_in": ["link"], "version": "0.1.0",
        }  # fmt: skip

    def _snapshot(self, view: str, params: Mapping[str, str]) -> Document:
        return {"view": view, "params": dict(params), "now_ms": NOW_MS, "id": "k.1", "parts": VIEWS[view](params)}

    def _stream(self, view: str, params: Mapping[str, str]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self._event("snapshot", self._snapshot(view, params), "k.1")
        for number, delta in enumerate(self._deltas(), 2):
            self._event("delta", delta, f"k.{number}")
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
        content = file.read_bytes()
        self.send_response(200)
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
