"""A console without a mesh whose people sign in with a provider in memory; the mesh's word on who calls is scripted."""

from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import quote

from braid.api.registry.v1 import grant_pb2
from braid.kernel.errors import BraidError, Unavailable
from braid.kernel.ports import Host
from console.server.app import Console, Serving
from console.server.oidc.provider import Provider
from console.server.oidc.settings import OidcSettings
from console.server.oidc.tokens import claims_of
from console.server.reads.reader import Reader
from tests.support.browser import Answer, Browser
from tests.support.console_mesh import KEY, PORT
from tests.support.oidc_provider import SETTINGS, MemoryProvider
from tests.support.virtual_time import VirtualProcess, running_loop


class ScriptedReader:
    """Stands for the clients of one person: services say who calls, and nothing else.

    Attributes:
        token: The one that is sent now.
        shown: Those that took its place, in their order.
        refusal: What services say instead of a name.
    """

    def __init__(self, host: Host, token: str) -> None:
        self.host = host
        self.token = token
        self.shown: list[str] = []
        self.refusal: BraidError | None = None

    def show(self, token: str) -> None:
        """See `Reader.show`."""
        self.token = token
        self.shown.append(token)

    async def one(self, service: str, method: str, *_: object, **__: object) -> grant_pb2.CheckAccessResponse:
        """See `Reader.one`."""
        if self.refusal is not None:
            raise self.refusal
        if method != "CheckAccess":
            raise Unavailable("no mesh is here")
        return grant_pb2.CheckAccessResponse(principal=f"jwt:{claims_of(self.token)['sub']}")

    async def pages(self, *_: object, **__: object) -> tuple[list[object], bool]:
        """See `Reader.pages`."""
        raise Unavailable("no mesh is here")

    async def close(self) -> None:
        """See `Reader.close`."""


class ProviderConsole:
    """A console, a provider, and browsers."""

    def __init__(self, settings: OidcSettings = SETTINGS) -> None:
        self.host = VirtualProcess(running_loop(), "console", 1).host
        self.clock = self.host.clock
        self.provider = MemoryProvider(self.clock.now_ms)
        self.readers: list[ScriptedReader] = []
        self.refusal: BraidError | None = None
        facts = {"mesh": "registry-0:1", "version": "0"}
        provider = Provider(settings, self.provider, self.host)
        serving = Serving(KEY, ("oidc",), (), PORT, False, {**facts}, provider=provider)
        self.console = Console(self.host, self._open, serving)
        self.console.start()

    def _open(self, token: str) -> Reader:
        self.readers.append(ScriptedReader(self.host, token))
        self.readers[-1].refusal = self.refusal
        return cast("Reader", self.readers[-1])

    def browser(self) -> Browser:
        """Somebody's browser, not signed in."""
        return Browser(self.console.app)

    async def begun(self, browser: Browser, to: str = "/streams/logs?q=a") -> str:
        """The provider's address that a browser is sent to."""
        answer = await browser.get(f"/oidc/start?to={quote(to, safe='')}")
        assert answer.status == 303, answer
        return answer.headers["location"]

    async def sign_in(self, browser: Browser, to: str = "/streams/logs?q=a") -> Answer:
        """Goes the whole way; returns the last answer."""
        return await browser.get(self.provider.authorize(await self.begun(browser, to)))

    async def told(self, browser: Browser) -> Mapping[str, Any]:
        """The problem that the sign-in page shows."""
        session = (await browser.get("/api/session")).json
        assert not session["signed_in"]
        found: Mapping[str, Any] = session["problem"]
        return found
