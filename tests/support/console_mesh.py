"""A console beside a whole mesh on virtual time, and browsers that call it."""

from pathlib import Path
from typing import Final

from braid.host.console_links import make_link
from braid.rpc.directory import Directory
from braid.rpc.memory.transport import MemoryTransport
from console.server.app import Console, Serving
from console.server.messages.schemas.registry import Fetch
from console.server.messages.service import MessagesSettings
from console.server.oidc.provider import Provider
from console.server.oidc.tokens import claims_of
from console.server.reads.reader import Reader
from tests.support.browser import Browser
from tests.unit.cli.mesh import Shell

KEY: Final = b"k" * 32
PORT: Final = 7_480
COOKIE: Final = f"braid_session_{PORT}"


class ConsoleMesh:
    """A shell, and a console that reads the mesh as `console`, or as the person of a token."""

    def __init__(
        self,
        shell: Shell,
        ways: tuple[str, ...] = ("link", "token"),
        static: Path | None = None,
        provider: Provider | None = None,
        fetch_schema: Fetch | None = None,
    ) -> None:
        self.shell = shell
        host = shell.me.host
        facts = {"mesh": "registry-0:1", "version": "0"}
        self.kafka = shell.kafka.process()
        messages = MessagesSettings(self.kafka, "https://traces.example/{trace_id}", None, fetch_schema)
        serving = Serving(KEY, ways, (), PORT, False, {**facts}, static or Path("/nonexistent"), messages, provider)
        self.console = Console(host, self._open, serving)
        self.console.start()

    def browser(self) -> Browser:
        """Somebody's browser, not signed in."""
        return Browser(self.console.app)

    def link(self, seconds: float = 60.0) -> str:
        """A one-time link."""
        return make_link(KEY, self.shell.me.host.clock.now_ms() + int(seconds * 1_000))

    async def signed_in(self) -> Browser:
        """A browser that opened a one-time link."""
        browser = self.browser()
        answer = await browser.get(f"/sign-in/{self.link()}")
        assert answer.status == 303, answer
        browser.csrf = (await browser.get("/api/session")).json["csrf"]
        return browser

    async def person(self, token: str, principal: str) -> Browser:
        """A browser that showed a token, whose calls the mesh takes for a principal's."""
        self.shell.principals[f"person {token}"] = principal
        browser = self.browser()
        answer = await browser.post("/api/session", {"token": token})
        assert answer.status == 200, answer
        browser.csrf = answer.json["csrf"]
        return browser

    def reader(self) -> Reader:
        """Clients of the services, as the console itself."""
        return self._open("")

    def _open(self, token: str) -> Reader:
        process = f"person {claims_of(token).get('sub', token)}" if token else "console"
        transport = MemoryTransport(self.shell.network, process)
        addresses = [f"{instance}:1" for instance in self.shell.processes]
        directory = Directory(transport, self.shell.me.host, addresses)
        return Reader(self.shell.me.host, directory, "ada@console")
