"""A twin of a schema registry: the published paths for schemas by id and by subject, in memory and over HTTP.

It follows the reference of Confluent's Schema Registry API: `GET /schemas/ids/{id}` and
`GET /subjects/{subject}/versions/{version}`, each with `?format=serialized`. It is not the real one.
"""

import asyncio
import json
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from braid.kernel.errors import NotFound
from console.server.limits import SCHEMA_BYTES_MAX

Schemas = Mapping[int, Mapping[str, Any]]
Subjects = Mapping[tuple[str, int], Mapping[str, Any]]


class SchemaRegistryTwin:
    """A registry of schemas in memory. `asked` lists what was asked; while it is `silent`, no answer comes."""

    def __init__(self, schemas: Schemas, subjects: Subjects | None = None) -> None:
        self._schemas = schemas
        self._subjects = subjects or {}
        self.asked: list[str] = []
        self.silent = False

    async def fetch(self, path: str) -> bytes:
        """The body at a path. Raises `NotFound`."""
        self.asked.append(path)
        if self.silent:
            await asyncio.Event().wait()
        found = answer_of(self._schemas, self._subjects, path)
        if found is None:
            raise NotFound("the schema registry does not know it")
        return json.dumps(found).encode()


def answer_of(schemas: Schemas, subjects: Subjects, path: str) -> Mapping[str, Any] | None:
    """The registry's answer at a path; None for 404."""
    parts = urlsplit(path).path.strip("/").split("/")
    if parts[:2] == ["schemas", "ids"]:
        return schemas.get(int(parts[2]))
    return subjects.get((unquote(parts[1]), int(parts[3]))) if parts[0] == "subjects" else None


Requests = list[tuple[str, str]]


@contextmanager
def registry_twin(schemas: Schemas, login: str) -> Iterator[tuple[str, Requests, Path]]:
    """A registry over HTTP below `/base`: its address, what was asked, and a file with the login."""
    requests: Requests = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            requests.append((self.path, self.headers.get("Authorization", "")))
            path = self.path.removeprefix("/base")
            body, status = b"{}", {"/redirect": 302, "/denied": 401}.get(path, 200)
            if path == "/large":
                body = b"x" * (SCHEMA_BYTES_MAX + 10)
            elif path.startswith("/schemas"):
                found = answer_of(schemas, {}, path)
                status, body = (404, b"{}") if found is None else (200, json.dumps(found).encode())
            self.send_response(status)
            self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Says nothing: a test's output is its own."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "login"
        file.write_text(f"{login}\n")
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", requests, file
        finally:
            server.shutdown()
            server.server_close()
            thread.join(5.0)
