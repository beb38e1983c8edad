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
from console.server.limits import HEARTBEAT_SECONDS, RENEW_LOOK_SECONDS
from console.server.live.feeds import Feeds
from console.server.messages.service import Messages, MessagesSettings
from console.server.oidc.provider import Provider
from console.server.oidc.renewals import Renewals
from console.server.problems import Problem
from console.server.signing.identities import Identities, Open
from console.server.signing.links import Links
from console.server.signing.sessions import Sessions
from console.server.web.api import Api, braid_error
from console.server.web.cookies import Cookies
from console.server.web.guard import Guard, problem_response
from console.server.web.messages import MessageRoutes
from console.server.web.page import Page
from console.server.web.provider_signing_in import ProviderSigningIn
from console.server.web.requests import Doorkeeper
from console.server.web.signing_in import SigningIn

STATIC = Path(__file__).resolve().parent.parent / "static"


class Serving(NamedTuple):
    """How a console is served.

    Attributes:
        key: Of one-time links.
        ways: How people sign in: `link`, `token`, `oidc`.
        hosts: Names by which browsers call it, beside those of this machine.
        port: Its port, which its cookie is named after: browsers send cookies to all ports of a host.
        secure: Whether browsers reach it by TLS.
        facts: What the page is told of the mesh.
        static: The page's built files.
        messages: How records of streams are read; None where they are not.
        provider: Where people sign in by `oidc`.
    """

    key: bytes
    ways: Sequence[str]
    hosts: Sequence[str]
    port: int
    secure: bool
    facts: Document
    static: Path = STATIC
    messages: MessagesSettings | None = None
    provider: Provider | None = None


class Console:
    """One console: the application that browsers call, and the pages that it reads for them.

    Attributes:
        app: Answers browsers.
        feeds: The pages that people look at.
    """

    def __init__(self, host: Host, open: Open, serving: Serving) -> None:
        self._host = host
        self.feeds = Feeds(host)
        self._sessions = Sessions(host)
        self._identities = Identities(host, open, self._close_identity)
        self._renewals: Renewals | None = None
        self._provider: ProviderSigningIn | None = None
        cookies = Cookies(serving.port, serving.secure)
        if serving.provider is not None:
            self._renewals = Renewals(host, serving.provider, self._sessions.end_of)
            self._provider = ProviderSigningIn(
                host, serving.provider, self._identities, self._sessions, self._renewals, cookies
            )
        doorkeeper = Doorkeeper(self._sessions, cookies.session)
        signing = SigningIn(
            host,
            doorkeeper,
            self._sessions,
            self._identities,
            Links(serving.key),
            serving.ways,
            cookies,
            serving.facts,
            self._provider,
        )
        starlette = Starlette(
            routes=[
                Route("/healthz", _healthy, methods=["GET"]),
                *signing.routes(),
                *(self._provider.routes() if self._provider is not None else ()),
                *Api(doorkeeper, self.feeds).routes(),
                *MessageRoutes(doorkeeper, Messages(host, serving.messages) if serving.messages else None).routes(),
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
        if self._renewals is not None:
            self._host.tasks.spawn(self._renew(self._renewals), "renew tokens")

    async def end(self) -> None:
        """Ends all streams and connections."""
        self.feeds.end()
        await self._identities.close()

    async def _sweep(self) -> None:
        while True:
            await self._host.clock.sleep(HEARTBEAT_SECONDS)
            self._sessions.close_ended()
            await self._identities.close_unused()
            if self._provider is not None:
                self._provider.close_ended()

    async def _renew(self, renewals: Renewals) -> None:
        while True:
            await self._host.clock.sleep(RENEW_LOOK_SECONDS)
            renewals.begin_due()

    def _close_identity(self, key: str) -> None:
        self.feeds.end_of(key)
        if self._renewals is not None:
            self._renewals.forget(key)


async def _healthy(request: Request) -> Response:
    return PlainTextResponse("ok\n")


async def _no_such_address(request: Request) -> Response:
    return problem_response(Problem(404, "NOT_FOUND", "there is nothing at this address"))


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException), "registered for them alone"
    return problem_response(Problem(error.status_code, "HTTP", str(error.detail)))
