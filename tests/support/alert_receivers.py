"""Receivers of alerts: a webhook that answers as a test says, and one behind a real Alertmanager."""

import base64
import hashlib
import hmac
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

from testbed.prometheus.alertmanager import Alertmanager, running_alertmanager
from tests.support.planted import credential


class WebhookServer:
    """A webhook over plain HTTP on this machine.

    Attributes:
        came: Bodies of posts that it took, oldest first.
        refused: How many posts got another status.
        statuses: Statuses of the next posts; 0 answers nothing until the server ends. Then it answers 200.
        wrong: What was wrong with a post: its signature, its token or its content type.
    """

    def __init__(self, key: bytes, token: str) -> None:
        self.came: list[Any] = []
        self.refused = 0
        self.statuses: list[int] = []
        self.wrong: list[str] = []
        self._key = key
        self._token = token
        self._over = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/{credential('of a hook')}"

    @contextmanager
    def running(self) -> Iterator["WebhookServer"]:
        """Serves meanwhile."""
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield self
        finally:
            self._over.set()
            self._server.shutdown()
            self._server.server_close()

    def of(self, subject: str) -> list[str]:
        """Types of the events about an alert, each id once, in order."""
        first = {each["id"]: each["type"] for each in reversed(self.came) if each["subject"] == subject}
        return list(reversed(first.values()))

    def _check(self, headers: Any, body: bytes) -> None:
        signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
        signature = base64.b64encode(hmac.new(self._key, signed, hashlib.sha256).digest()).decode()
        if headers["webhook-signature"] != f"v1,{signature}":
            self.wrong.append("signature")
        if headers["Authorization"] != f"Bearer {self._token}":
            self.wrong.append("token")
        if not headers["Content-Type"].startswith("application/cloudevents+json"):
            self.wrong.append("content type")

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                server._check(self.headers, body)
                status = server.statuses.pop(0) if server.statuses else 200
                if not status:
                    server._over.wait()
                    return
                if status == 200:
                    server.came.append(json.loads(body))
                else:
                    server.refused += 1
                self.send_response(status)
                self.send_header("Location", f"{server.url}/elsewhere")
                self.send_header("Retry-After", "1")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *arguments: object) -> None:
                pass

        return Handler


class PageServer:
    """A webhook that Alertmanager pages.

    Attributes:
        pages: The labels and the status of each alert in its posts, oldest first.
    """

    def __init__(self) -> None:
        self.pages: list[tuple[Mapping[str, str], str]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/"

    def of(self, **labels: str) -> list[str]:
        """Statuses of the alerts with some labels, repeats left out."""
        statuses = [status for found, status in self.pages if labels.items() <= found.items()]
        return [each for at, each in enumerate(statuses) if not at or each != statuses[at - 1]]

    @contextmanager
    def running(self) -> Iterator["PageServer"]:
        """Serves meanwhile."""
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                posted = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                server.pages += [(each["labels"], each["status"]) for each in posted["alerts"]]
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *arguments: object) -> None:
                pass

        return Handler


class AlertReceivers(NamedTuple):
    """A webhook, an Alertmanager, and what it pages."""

    webhook: WebhookServer
    alertmanager: Alertmanager
    pages: PageServer
    settings: str  # `BRAID_ALERT_OUTLETS`


@contextmanager
def alert_receivers(directory: Path) -> Iterator[AlertReceivers]:
    """Both, with the settings of a lag monitor that sends to them."""
    directory.mkdir(parents=True, exist_ok=True)
    key, token = credential("of a signature").encode(), credential("of a webhook")
    files = {"token": token, "key": f"whsec_{base64.b64encode(key).decode()}"}
    for name, content in files.items():
        (directory / name).write_text(content + "\n")
        (directory / name).chmod(0o600)
    with (
        WebhookServer(key, token).running() as webhook,
        PageServer().running() as pages,
        running_alertmanager(directory / "alertmanager", pages.url) as alertmanager,
    ):
        outlets = [
            {
                "name": "pager",
                "kind": "webhook",
                "url": webhook.url,
                "token_file": str(directory / "token"),
                "signing_key_file": str(directory / "key"),
            },
            {"name": "am-0", "kind": "alertmanager", "url": alertmanager.url},
        ]
        yield AlertReceivers(webhook, alertmanager, pages, json.dumps(outlets))
