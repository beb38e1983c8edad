"""The console as an ASGI application, put together from its parts."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp

from braid.kernel.errors import BraidError
from braid.kernel.ports import Host
from braid.rpc.documents import Document
from console.server.limits import HEARTBEAT_SECONDS
from console.server.live.feeds import Feeds
from console.server.problems import Problem
from console.server.signing.identities import Identities, Open
from console.server.signing.links import Links
from console.server.signing.sessions import Sessions
from console.server.web.api import Api, braid_error
from console.server.web.guard import Guard, problem_response
from console.server.web.page import Page
from console.server.web.requests import Doorkeeper
from console.server.web.signing_in import SigningIn

STATIC = Path(__file__).resolve().parent.parent / "static"
_COOKIE = "braid_session"


class Serving(NamedTuple):
    """How a console is served.

    Attributes:
        key: Of one-time links.
        ways: How people sign in: `link`, `token`.
        hosts: Names by which browsers call it, beside those of this machine.
        port: Its port, which its cookie is named after: browsers send cookies to all ports of a host.
        secure: Whether browsers reach it by TLS.
        facts: What the page is told of the mesh.
        static: The page's built files.
    """

    key: bytes
    ways: Sequence[str]
    hosts: Sequence[str]
    port: int
    secure: bool
    facts: Document
    static: Path = STATIC


class Console:
    """One console: the application that browsers call, and the pages that it reads for them.

    Attributes:
        app: Answers browsers.
        feeds: The pages that people look at.
    """

    def __init__(self, host: Host, open: Open, serving: Serving) -> None:
        self._host = host
        self.feeds = Feeds(host)
        self._identities = Identities(host, open, self.feeds.end_of)
        self._sessions = Sessions(host)
        doorkeeper = Doorkeeper(self._sessions, f"{_COOKIE}_{serving.port}")
        signing = SigningIn(
            host,
            doorkeeper,
            self._sessions,
            self._identities,
            Links(serving.key),
            serving.ways,
            serving.secure,
            serving.facts,
        )
        starlette = Starlette(
            routes=[
                Route("/healthz", _healthy, methods=["GET"]),
                *signing.routes(),
                *Api(doorkeeper, self.feeds).routes(),
                Route("/api/{rest:path}", _no_such_address, methods=["GET", "POST", "DELETE"]),
                Mount("/", Page(serving.static)),
            ],
            exception_handlers={BraidError: braid_error, HTTPException: _http_error},
        )
        self.app: ASGIApp = Guard(starlette, serving.hosts)

    def start(self) -> None:
        """Starts the tasks that end unused pages, sessions and connections."""
        self.feeds.start()
        self._host.tasks.spawn(self._sweep(), "end sessions")

    async def end(self) -> None:
        """Ends all streams and connections."""
        self.feeds.end()
        await self._identities.close()

    async def _sweep(self) -> None:
        while True:
            await self._host.clock.sleep(HEARTBEAT_SECONDS)
            self._sessions.close_ended()
            await self._identities.close_unused()


async def _healthy(request: Request) -> Response:
    return PlainTextResponse("ok\n")


async def _no_such_address(request: Request) -> Response:
    return problem_response(Problem(404, "NOT_FOUND", "there is nothing at this address"))


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException), "registered for them alone"
    return problem_response(Problem(error.status_code, "HTTP", str(error.detail)))
