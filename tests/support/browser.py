"""A browser in memory: it calls an ASGI application, keeps cookies, and reads server-sent events at its own pace."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from http.cookies import SimpleCookie
from typing import Any, NamedTuple
from urllib.parse import quote

from starlette.types import ASGIApp, Message


class Answer(NamedTuple):
    """An answer of the application."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    cookies: tuple[str, ...] = ()  # each as it is set

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


class ServerEvent(NamedTuple):
    """One server-sent event, as a browser reads it."""

    name: str
    id: str
    data: Any


class Stream:
    """An open stream of events. Nothing is read but what `next` asks for, so that a test can be slow."""

    def __init__(self) -> None:
        self._chunks: asyncio.Queue[bytes | None] = asyncio.Queue(1)
        self._text = b""
        self.left = asyncio.Event()
        self.began = asyncio.Event()
        self.status = 0
        self.sent = 0

    async def take(self, message: Message) -> None:
        """Takes a message that the application sends."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.began.set()
        elif message.get("body"):
            self.sent += len(message["body"])
            await self._chunks.put(message["body"])

    async def close(self) -> None:
        """The application ended."""
        await self._chunks.put(None)

    async def next(self, name: str = "", seconds: float = 30.0) -> ServerEvent:
        """The next event, or the next one of a name."""
        async with asyncio.timeout(seconds):
            while True:
                event = await self._event()
                if name in ("", event.name):
                    return event

    async def _event(self) -> ServerEvent:
        while b"\n\n" not in self._text:
            chunk = await self._chunks.get()
            assert chunk is not None, "the stream is over"
            self._text += chunk
        whole, _, self._text = self._text.partition(b"\n\n")
        fields = dict(line.split(": ", 1) for line in whole.decode().split("\n"))
        return ServerEvent(fields["event"], fields.get("id", ""), json.loads(fields["data"]))


class Browser:
    """Calls an application, as the page in a browser does."""

    def __init__(self, app: ASGIApp, host: str = "127.0.0.1:7480") -> None:
        self._app = app
        self.host = host
        self.cookies: dict[str, str] = {}
        self.csrf = ""

    async def get(self, path: str, headers: Mapping[str, str] | None = None) -> Answer:
        """Reads."""
        return await self._ask("GET", path, b"", headers or {})

    async def post(self, path: str, body: object, headers: Mapping[str, str] | None = None) -> Answer:
        """Sends JSON, with the header that our own page knows."""
        return await self.send("POST", path, json.dumps(body).encode(), headers)

    async def send(self, method: str, path: str, data: bytes, headers: Mapping[str, str] | None = None) -> Answer:
        """Sends bytes that claim to be JSON."""
        beside = {"content-type": "application/json", "x-braid-csrf": self.csrf}
        return await self._ask(method, path, data, {**beside, **(headers or {})})

    @asynccontextmanager
    async def stream(self, path: str, headers: Mapping[str, str] | None = None) -> AsyncIterator[Stream]:
        """Opens a stream for the duration of the block."""
        stream = Stream()
        asked = False

        async def receive() -> Message:
            nonlocal asked
            if not asked:
                asked = True
                return {"type": "http.request", "body": b"", "more_body": False}
            await stream.left.wait()
            return {"type": "http.disconnect"}

        async def run() -> None:
            await self._app(self._scope("GET", path, headers or {}), receive, stream.take)
            await stream.close()

        task = asyncio.ensure_future(run())
        try:
            yield stream
        finally:
            stream.left.set()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _ask(self, method: str, path: str, data: bytes, headers: Mapping[str, str]) -> Answer:
        status, found, body, asked, cookies = 0, {}, b"", False, list[str]()

        async def receive() -> Message:
            nonlocal asked
            if asked:
                await asyncio.Event().wait()  # it stays for the answer
            asked = True
            return {"type": "http.request", "body": data, "more_body": False}

        async def send(message: Message) -> None:
            nonlocal status, found, body
            if message["type"] == "http.response.start":
                status = message["status"]
                found = {name.decode(): value.decode() for name, value in message["headers"]}
                cookies.extend(value.decode() for name, value in message["headers"] if name == b"set-cookie")
            else:
                body += message.get("body", b"")

        await self._app(self._scope(method, path, headers), receive, send)
        for name, morsel in [item for each in cookies for item in SimpleCookie(each).items()]:
            self.cookies[name] = morsel.value
            if morsel["max-age"] == "0":
                del self.cookies[name]
        return Answer(status, found, body, tuple(cookies))

    def _scope(self, method: str, path: str, headers: Mapping[str, str]) -> dict[str, Any]:
        cookie = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        given = {"host": self.host, **({"cookie": cookie} if cookie else {}), **headers}
        route, _, query = path.partition("?")
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": route,
            "raw_path": quote(route).encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in given.items()],
            "client": ("127.0.0.1", 50_000),
            "server": ("127.0.0.1", 7_480),
        }
