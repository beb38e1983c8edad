"""Posts to real servers on this machine: answers, servers that hang or lie, certificates, tokens."""

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from braid.host.system import system_host
from braid.kernel.errors import Unavailable
from braid.kernel.ports import Post
from braid.runtime.http_posts import HttpPosts
from tests.support.planted import credential
from tests.support.tls_files import Authority

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], object]


class Server:
    """Answers every connection with some bytes, and keeps what came.

    Attributes:
        answer: Sent when a request has come.
        stalls: Send nothing, or a byte now and then.
    """

    def __init__(self, answer: bytes = OK, *, stalls: bool = False, trickles: bytes = b"") -> None:
        self.answer = answer
        self.stalls = stalls
        self.trickles = trickles
        self.requests: list[bytes] = []
        self.port = 0

    @asynccontextmanager
    async def running(self, context: ssl.SSLContext | None = None) -> AsyncIterator["Server"]:
        """Serves meanwhile."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=context)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
            self.requests.append(head + await reader.readexactly(length))
            while self.stalls:
                writer.write(self.trickles)
                await asyncio.sleep(0.02)
            writer.write(self.answer)
            await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()


def posts() -> HttpPosts:
    """Posts of this process."""
    return HttpPosts(system_host().tasks)


def post(server: Server, scheme: str = "http", **fields: str) -> Post:
    """A post to a server."""
    return Post(f"{scheme}://127.0.0.1:{server.port}/hook?key={credential('of a hook')}", b'{"a":1}', **fields)  # type: ignore[arg-type]


async def test_a_post_is_sent_whole_and_its_answer_read() -> None:
    async with Server(b"HTTP/1.1 429 Slow\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n").running() as server:
        answer = await posts().post(post(server), 5.0)
    assert (answer.status, answer.retry_after) == (429, "7")
    head, _, body = server.requests[0].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /hook?key=") and body == b'{"a":1}'


async def test_a_redirection_is_answered_and_not_followed() -> None:
    async with Server().running() as elsewhere:
        moved = f"HTTP/1.1 307 Moved\r\nLocation: http://127.0.0.1:{elsewhere.port}/\r\nContent-Length: 0\r\n\r\n"
        async with Server(moved.encode()).running() as server:
            assert (await posts().post(post(server), 5.0)).status == 307
    assert elsewhere.requests == []


async def test_no_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Server().running() as proxy, Server().running() as server:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.port}")
        monkeypatch.delenv("no_proxy", raising=False)
        await posts().post(post(server), 5.0)
    assert (len(server.requests), proxy.requests) == (1, [])


@pytest.mark.parametrize("trickles", [b"", b"H", b"HTTP/1.1 100 Continue\r\n\r\n"])
async def test_a_server_that_hangs_takes_no_more_than_its_time(trickles: bytes) -> None:
    async with Server(stalls=True, trickles=trickles).running() as server:
        began = time.monotonic()
        with pytest.raises(Unavailable) as caught:
            await posts().post(post(server), 0.3)
        assert time.monotonic() - began < 5.0
    assert credential("of a hook") not in str(caught.value)


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"hello\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"".join(b"X%d: x\r\n" % n for n in range(100_000)) + b"\r\n",
    ],
    ids=["nothing", "no HTTP", "a header without end", "headers without end"],
)
async def test_what_is_no_answer_is_a_failure_without_the_url(answer: bytes) -> None:
    async with Server(answer).running() as server:
        with pytest.raises(Unavailable) as caught:
            await posts().post(post(server), 5.0)
    assert credential("of a hook") not in str(caught.value)


async def test_a_body_of_an_answer_is_never_read() -> None:
    endless = b"HTTP/1.1 200 OK\r\nContent-Length: 999999999999\r\nContent-Encoding: gzip\r\n\r\n" + b"x" * 100_000
    async with Server(endless).running() as server:
        assert (await posts().post(post(server), 5.0)).status == 200


async def test_nobody_there_is_a_failure_without_the_url() -> None:
    server = Server()
    async with server.running():
        pass
    with pytest.raises(Unavailable, match="cannot be reached") as caught:
        await posts().post(post(server), 5.0)
    assert credential("of a hook") not in str(caught.value)


async def test_a_certificate_of_a_foreign_authority_is_refused(tmp_path: Path) -> None:
    own, foreign = (Authority(tmp_path / name) for name in ("own", "foreign"))
    files = own.issue("pager")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.key)
    async with Server().running(context) as server:
        with pytest.raises(Unavailable, match="certificate is refused"):
            await posts().post(post(server, "https", ca_file=str(foreign.ca_file)), 5.0)
        with pytest.raises(Unavailable, match="certificate is refused"):
            await posts().post(post(server, "https"), 5.0)  # the system's authorities do not know it either
        assert (await posts().post(post(server, "https", ca_file=str(own.ca_file)), 5.0)).status == 200
    assert len(server.requests) == 1


async def test_a_token_is_read_again_for_each_post(tmp_path: Path) -> None:
    path = tmp_path / "token"
    async with Server().running() as server:
        for token in ("first", "second"):
            path.write_text(f"{credential(token)}\n")
            path.chmod(0o600)
            await posts().post(post(server, token_file=str(path)), 5.0)
    for token, request in zip(("first", "second"), server.requests, strict=True):
        assert f"Authorization: Bearer {credential(token)}\r\n".encode() in request


@pytest.mark.parametrize(
    ("content", "mode"), [(b"", 0o600), (b"a\n" * 5, 0o600), (b"x" * 5_000, 0o600), (b"a\x00b", 0o600), (b"a", 0o644)]
)
async def test_a_file_that_holds_no_secret_is_refused(tmp_path: Path, content: bytes, mode: int) -> None:
    path = tmp_path / "token"
    path.write_bytes(content)
    path.chmod(mode)
    async with Server().running() as server:
        with pytest.raises(Unavailable, match="token"):
            await posts().post(post(server, token_file=str(path)), 5.0)
    assert server.requests == []


async def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=r"keys' cannot be read: No such file"):
        await posts().secrets(str(tmp_path / "keys"))
    for path in ("~nobody-is-called-so/keys", "a\0b"):
        with pytest.raises(Unavailable, match="cannot be read"):
            await posts().secrets(path)
        with pytest.raises(Unavailable, match="holds no certificates"):
            await posts().post(Post("https://127.0.0.1:1/", b"", ca_file=path), 5.0)
