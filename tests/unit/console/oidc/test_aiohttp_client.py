"""Questions to real servers on this machine: forms, secrets, and servers that hang, redirect, flood or lie."""

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest

from braid.host.system import system_host
from braid.kernel.errors import Unavailable
from braid.kernel.ports import Tasks
from console.server.limits import PROVIDER_ANSWER_BYTES_MAX, PROVIDER_CALLS_MAX
from console.server.oidc.aiohttp_client import AiohttpClient
from console.server.oidc.http import HttpAnswer, HttpRequest
from tests.support.planted import credential
from tests.support.tls_files import Authority

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


class Server:
    """Answers every connection with some bytes, and keeps what came.

    Attributes:
        answer: Sent when a request has come; nothing is sent where it is empty.
    """

    def __init__(self, answer: bytes = OK) -> None:
        self.answer = answer
        self.requests: list[bytes] = []
        self.url = ""

    @asynccontextmanager
    async def running(self, context: ssl.SSLContext | None = None) -> AsyncIterator["Server"]:
        """Serves meanwhile."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=context)
        self.url = f"{'https' if context else 'http'}://127.0.0.1:{server.sockets[0].getsockname()[1]}/token"
        try:
            yield self
        finally:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            lines = dict(line.split(b": ", 1) for line in head.lower().split(b"\r\n")[1:] if line)
            self.requests.append(head + await reader.readexactly(int(lines.get(b"content-length", b"0"))))
            if not self.answer:
                await reader.read()  # until the other end gives up
            writer.write(self.answer)
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


def client(ca: Path | None = None, seconds: float = 20.0) -> AiohttpClient:
    """A client of this process."""
    return AiohttpClient(system_host().tasks, ca, seconds)


async def refused(client: AiohttpClient, request: HttpRequest) -> str:
    """Why a question has no answer."""
    with pytest.raises(Unavailable) as error:
        await client.send(request)
    assert error.value.remedy
    return error.value.message


async def test_a_form_and_a_secret_are_sent_as_the_standard_says() -> None:
    secret = credential("a client's secret")
    async with Server().running() as server:
        answer = await client().send(HttpRequest(server.url, {"code": "a b&c", "x": "é"}, ("me", secret)))
    assert answer == HttpAnswer(200, b"{}")
    head, _, body = server.requests[0].partition(b"\r\n\r\n")
    assert body == b"code=a+b%26c&x=%C3%A9"
    assert b"Authorization: Basic " + base64.b64encode(f"me:{secret}".encode()) in head.split(b"\r\n")
    assert head.startswith(b"POST /token HTTP/1.1\r\n") and b"application/x-www-form-urlencoded" in head


async def test_a_redirection_is_an_answer_and_nobody_else_is_asked() -> None:
    async with Server().running() as other:
        location = f"HTTP/1.1 302 Found\r\nLocation: {other.url}\r\nContent-Length: 0\r\n\r\n".encode()
        async with Server(location).running() as server:
            assert (await client().send(HttpRequest(server.url))).status == 302
    assert other.requests == []


async def test_a_proxy_of_the_environment_sees_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Server().running() as proxy, Server().running() as server:
        monkeypatch.setenv("http_proxy", proxy.url)
        await client().send(HttpRequest(server.url, {"code": "x"}))
    assert (len(proxy.requests), len(server.requests)) == (0, 1)


async def test_a_server_that_hangs_costs_a_bounded_time() -> None:
    async with Server(b"").running() as server:
        assert "did not answer within 0.2 s" in await refused(client(seconds=0.2), HttpRequest(server.url))


async def test_an_answer_without_end_is_cut() -> None:
    flood = b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n" + b"x" * (PROVIDER_ANSWER_BYTES_MAX + 100_000)
    async with Server(flood).running() as server:
        assert "more than" in await refused(client(), HttpRequest(server.url))


async def test_nobody_there_and_nonsense_are_told() -> None:
    async with Server(b"SSH-2.0-OpenSSH\r\n").running() as server:
        assert "not answer as HTTP does" in await refused(client(), HttpRequest(server.url))
    assert "cannot be reached" in await refused(client(), HttpRequest(server.url))


async def test_a_certificate_of_a_stranger_gets_no_secret(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    tls = authority.issue("server")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tls.certificate, tls.key)
    async with Server().running(context) as server:
        said = await refused(client(), HttpRequest(server.url, {"code": "x"}))
        assert "certificate is refused" in said
        assert server.requests == []
        assert (await client(authority.ca_file).send(HttpRequest(server.url))).status == 200


class WaitingTasks:
    """Stands for a process's tasks: reading the authorities takes until `release`, and fails then."""

    def __init__(self) -> None:
        self.inside = 0
        self.release = asyncio.Event()

    async def run_blocking(self, function: Callable[[], object]) -> object:
        """See `Tasks.run_blocking`."""
        self.inside += 1
        await self.release.wait()
        self.inside -= 1
        raise OSError("no such file")


async def test_questions_at_once_are_bounded() -> None:
    tasks = WaitingTasks()
    one = AiohttpClient(cast("Tasks", tasks), None, 60.0)
    asked = [asyncio.ensure_future(one.send(HttpRequest("http://127.0.0.1:1/"))) for _ in range(2 * PROVIDER_CALLS_MAX)]
    for _ in range(10):  # whatever is ready goes on
        await asyncio.sleep(0)
    assert tasks.inside == PROVIDER_CALLS_MAX
    tasks.release.set()
    results = await asyncio.gather(*asked, return_exceptions=True)
    assert all(isinstance(each, Unavailable) for each in results)
