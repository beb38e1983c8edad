"""The console's process: its loop, its socket, signals, the ready file, and its end."""

import asyncio
import contextlib
import getpass
import importlib
import json
import logging
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Final

import uvicorn
import uvloop

from braid.host.console_links import write_key
from braid.host.endpoints import Choice, Endpoint, resolve
from braid.host.system import system_host
from braid.host.tls.files import TlsFiles
from braid.host.tls.paths import CA_VARIABLE, CERTIFICATE_VARIABLE, KEY_VARIABLE
from braid.host.token_files import TokenFiles
from braid.host.tokens import TOKEN_FILE_VARIABLE, TOKEN_VARIABLE, Token
from braid.kafka.late import LateKafka
from braid.kernel.errors import BraidError, Invalid, Unavailable
from braid.kernel.limits.runtime import PARENT_POLL_SECONDS
from braid.kernel.ports import Host, RpcTransport
from braid.rpc.directory import Directory
from braid.rpc.grpc.transport import GrpcTransport
from console.server.app import Console, Serving
from console.server.config import ConsoleSettings, check_files
from console.server.limits import BODY_BYTES_MAX, CONNECTIONS_MAX, SHUTDOWN_SECONDS
from console.server.messages.schemas.registry import Fetch
from console.server.messages.service import MessagesSettings
from console.server.oidc.provider import Provider
from console.server.reads.reader import Reader
from console.server.signing.identities import Open
from console.server.web.signing_in import LINK, OIDC

_PROOFS: Final = (CERTIFICATE_VARIABLE, KEY_VARIABLE, TOKEN_VARIABLE, TOKEN_FILE_VARIABLE)


def serve(settings: ConsoleSettings) -> int:
    """Runs a console until a signal (SIGTERM, SIGINT) stops it or one of its tasks fails.

    Returns:
        The process's exit code: 0 after a graceful end; else 1, with the reason on the last line of stderr.
    """
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    try:
        reason = uvloop.run(_Process(settings).run())
    except (BraidError, OSError) as error:
        reason = str(error)
    if reason:
        print(f"console: {reason}", file=sys.stderr, flush=True)
    return 1 if reason else 0


class _Process:
    """The parts of one console that serves."""

    def __init__(self, settings: ConsoleSettings) -> None:
        self._settings = settings
        self._death = ""
        self._ending = asyncio.Event()

    async def run(self) -> str:
        """Runs until the end; returns why it failed, '' after a graceful end."""
        settings = self._settings
        check_files(settings)
        endpoint, ca = mesh_of(settings, os.environ, Path.cwd())
        host = system_host(self._died)
        with listening(settings) as listener:
            port = listener.getsockname()[1]
            facts = {"mesh": endpoint.addresses[0], "version": metadata.version("braid-streams")}
            key = write_key(settings.home)
            fetch, end_schemas = schemas_of(settings)
            messages = MessagesSettings(LateKafka("braid-console"), settings.trace_link, _load_kafka, fetch)
            serving = Serving(
                key,
                settings.ways,
                settings.names,
                port,
                settings.secure,
                {**facts},
                messages=messages,
                provider=provider_of(settings, public_url(settings, port), host),
            )
            console = Console(host, opener(host, endpoint, ca), serving)
            console.start()
            server = _Server(_config(settings, console), lambda: self._announce(port))
            loop = asyncio.get_running_loop()
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, self._ending.set)
            host.tasks.spawn(self._watch_parent(host), "parent")
            running = asyncio.ensure_future(server.serve([listener]))
            await self._until_end(running)
            console.feeds.end()
            server.should_exit = True
            await running
            await console.end()
            await end_schemas()
        return self._death

    async def _until_end(self, running: "asyncio.Future[None]") -> None:
        ending = asyncio.ensure_future(self._ending.wait())
        await asyncio.wait((running, ending), return_when=asyncio.FIRST_COMPLETED)
        ending.cancel()

    def _died(self, task: str, error: BaseException) -> None:
        self._death = self._death or f"{task} died: {type(error).__name__}: {error}"
        self._ending.set()

    def _announce(self, port: int) -> None:
        path = self._settings.ready_file
        if path is None:
            return
        address = public_url(self._settings, port)
        whole = path.with_name(f".{path.name}.{os.getpid()}")
        whole.write_text(json.dumps({"console": address, "pid": os.getpid()}) + "\n")
        whole.replace(path)

    async def _watch_parent(self, host: Host) -> None:
        parent = self._settings.parent_pid
        while parent and os.getppid() == parent:
            await host.clock.sleep(PARENT_POLL_SECONDS)
        if parent:
            self._ending.set()


class _Server(uvicorn.Server):
    """A server that leaves signals to its process, and says when it serves."""

    def __init__(self, config: uvicorn.Config, started: Callable[[], None]) -> None:
        super().__init__(config)
        self._say_started = started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begins to serve."""
        await super().startup(sockets)
        self._say_started()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Captures none: the process listens to them."""
        yield


@contextlib.contextmanager
def listening(settings: ConsoleSettings) -> Iterator[socket.socket]:
    """The socket that browsers reach. Raises `Unavailable` where the address is in use, or not this machine's."""
    host, port = settings.address
    try:
        listener = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        remedy = "set BRAID_CONSOLE_LISTEN to another, for example 127.0.0.1:0"
        raise Unavailable(f"cannot listen at {settings.listen}: {error.strerror}", remedy=remedy) from error
    with listener:
        yield listener


def public_url(settings: ConsoleSettings, port: int) -> str:
    """The address by which browsers reach the console."""
    if settings.url:
        return settings.url
    name = settings.names[0] if settings.names else "127.0.0.1"
    return f"{'https' if settings.secure else 'http'}://{f'[{name}]' if ':' in name else name}:{port}"


def provider_of(settings: ConsoleSettings, url: str, host: Host) -> Provider | None:
    """The provider that people sign in with; None where they do not."""
    if OIDC not in settings.ways:
        return None
    from console.server.oidc.aiohttp_client import AiohttpClient  # others do not pay for it

    return Provider(settings.provider(url), AiohttpClient(host.tasks, settings.oidc_ca), host)


def schemas_of(settings: ConsoleSettings) -> tuple[Fetch | None, Callable[[], Awaitable[None]]]:
    """Asks the schema registry, None where none is set; and ends its connections."""
    if not settings.schema_registry:
        return None, _nothing
    from console.server.messages.schemas.http import RegistryClient  # others do not pay for it

    client = RegistryClient(settings.schema_registry, settings.schema_registry_login)
    return client.fetch, client.close


async def _nothing() -> None:
    """Ends no connections, since there are none."""


def mesh_of(settings: ConsoleSettings, environment: Mapping[str, str], directory: Path) -> tuple[Endpoint, Path | None]:
    """Which mesh the console reads, and who signs its services' certificates; None for whom the system trusts.

    A console that people enter with tokens alone needs no certificate of its own. BRAID_TLS_CA stands alone then.

    Raises:
        Invalid: nothing names a mesh, or people would act with a certificate that is not there.
    """
    named = environment.get(CA_VARIABLE, "")
    if not named or any(environment.get(each) for each in _PROOFS):
        found = resolve(Choice(), environment, directory)
        return found, found.token.ca if found.token is not None else found.tls.ca if found.tls is not None else None
    if LINK in settings.ways:
        message = "whoever opens a link acts with the console's own certificate, and there is none"
        remedy = f"set {CERTIFICATE_VARIABLE} and {KEY_VARIABLE}, or take link out of BRAID_CONSOLE_SIGN_IN"
        raise Invalid(message, field="sign_in", remedy=remedy)
    found = resolve(Choice(), {name: value for name, value in environment.items() if name != CA_VARIABLE}, directory)
    return found, Path(named).expanduser()


def opener(host: Host, endpoint: Endpoint, ca: Path | None) -> Open:
    """Opens clients of a mesh's services: with the console's own certificate or token, or with a token of a person.

    A person's token is shown to services in the place of the console's certificate, so that they see the person.
    `ca` signs the services' certificates.
    """
    client_id = f"{_user()}@console"

    def open(token: str) -> Reader:
        if not token:
            return Reader(host, Directory(_own_transport(endpoint), host, endpoint.addresses), client_id)
        shown = TokenFiles(Token(text=token, ca=ca))
        return Reader(host, Directory(GrpcTransport(shown), host, endpoint.addresses), client_id, shown.replace)

    return open


def _own_transport(endpoint: Endpoint) -> RpcTransport:
    if endpoint.token is not None:
        return GrpcTransport(TokenFiles(replace(endpoint.token)))
    return GrpcTransport(None if endpoint.tls is None else TlsFiles(endpoint.tls))


def _config(settings: ConsoleSettings, console: Console) -> uvicorn.Config:
    return uvicorn.Config(
        console.app,
        log_config=None,
        access_log=False,  # addresses of one-time links would be in it
        proxy_headers=False,
        server_header=False,
        lifespan="off",
        limit_concurrency=CONNECTIONS_MAX,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=int(SHUTDOWN_SECONDS),
        h11_max_incomplete_event_size=BODY_BYTES_MAX,
        ssl_certfile=settings.tls_certificate,
        ssl_keyfile=str(settings.tls_key) if settings.tls_key else None,
    )


def _load_kafka() -> None:
    importlib.import_module("braid.kafka.cluster")


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "unknown"
