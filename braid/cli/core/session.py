"""A command's connection to a mesh: clients of its services, Kafka, a clock, the terminal. Slow to import."""

import contextlib
import getpass
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Protocol, TypeVar

from braid.api.mesh.v1.endpoint_pb2 import ListEndpointsRequest, ListEndpointsResponse
from braid.cli.core.limits import CLI_ITEMS_MAX, CLI_PROBE_SECONDS, CLI_READ_SECONDS
from braid.cli.core.terminal import Terminal
from braid.cli.core.times import from_ms
from braid.cli.errors import EXIT_INTERRUPTED, nearest
from braid.client.mesh import Mesh, Ports, system_ports
from braid.host.endpoints import Endpoint
from braid.kernel.errors import (
    AccessDenied,
    BraidError,
    ClusterUnavailable,
    DeadlineExceeded,
    Exhausted,
    NotFound,
    Unavailable,
)
from braid.kernel.limits.rpc import CLI_CHANGE_SECONDS
from braid.rpc.directory import KnownEndpoint
from braid.rpc.mesh_client import ServiceClient
from braid.rpc.pages import Page, pages_of

T = TypeVar("T")
R = TypeVar("R", bound=Page)


class Named(Protocol):
    """An object with a name."""

    @property
    def name(self) -> str:
        """Its name."""
        ...


class Session:
    """One command's access to a mesh.

    Attributes:
        interrupt_code: Exit code when the user ends the command; 0 for commands that end no other way.
        as_of_ms: The past moment that is shown, from which ages are counted; 0 for the present.
    """

    def __init__(self, ports: Ports, mesh: Mesh, terminal: Terminal) -> None:
        self.ports = ports
        self.mesh = mesh
        self.terminal = terminal
        self.interrupt_code = EXIT_INTERRUPTED
        self.as_of_ms = 0
        self._followers_only: set[str] = set()

    @property
    def now_ms(self) -> int:
        """The moment that is shown, in milliseconds since the epoch: now, unless a past one was requested."""
        return self.as_of_ms or self.ports.host.clock.now_ms()

    @property
    def now(self) -> datetime:
        """Wall time in the user's zone."""
        return from_ms(self.ports.host.clock.now_ms(), UTC).astimezone()

    def service(self, name: str) -> ServiceClient:
        """A client of one service."""
        return self.mesh.service(name)

    async def endpoints(self) -> Sequence[KnownEndpoint]:
        """All replicas of the mesh, as the first one that answers lists them.

        Raises:
            BraidError: no replica answers.
        """
        failure: BraidError = Unavailable("no replica answers")
        for service in ("registry", "assigner"):
            try:
                answer = await self.service(service).unary(
                    "ListEndpoints",
                    ListEndpointsRequest(),
                    ListEndpointsResponse,
                    timeout_seconds=CLI_PROBE_SECONDS,
                    any_replica=True,
                )
            except BraidError as error:
                failure = error
                continue
            return [
                KnownEndpoint(each.service, each.instance, each.address, each.leader, each.tls_address)
                for each in answer.endpoints
            ]
        raise failure

    async def read(self, service: str, method: str, request: object, response_type: type[T]) -> T:
        """Asks the leader, so that recent changes are visible; any replica if there is no leader.

        Raises:
            Unavailable: no replica answers.
            BraidError: the service's answer is this error.
        """
        client = self.service(service)
        if service not in self._followers_only:
            try:
                return await client.unary(method, request, response_type, timeout_seconds=CLI_READ_SECONDS)
            except ClusterUnavailable:
                raise
            except (Unavailable, DeadlineExceeded):
                self._followers_only.add(service)
        answer = await client.unary(method, request, response_type, timeout_seconds=CLI_READ_SECONDS, any_replica=True)
        self.terminal.note(f"no {service} leads; a follower answers, and may lag behind")
        return answer

    async def pages(
        self,
        service: str,
        method: str,
        request: Callable[[str], object],
        response_type: type[R],
        items: Callable[[R], Iterable[T]],
        most: int = CLI_ITEMS_MAX,
    ) -> list[T]:
        """Reads every page of a List method. `request` makes the request for a page token.

        Raises:
            Exhausted: there are more than `most` items.
        """
        found: list[T] = []
        async for page in pages_of(lambda token: self.read(service, method, request(token), response_type)):
            if len(found) >= most:
                raise Exhausted(f"there are more than {most} of them", remedy="name what you look for")
            found.extend(items(page))
        return found

    async def change(self, service: str, method: str, request: object, response_type: type[T], doing: str) -> T:
        """Asks the leader for a change, and shows progress meanwhile."""
        async with self.terminal.waiting(doing):
            client = self.service(service)
            return await client.unary(method, request, response_type, timeout_seconds=CLI_CHANGE_SECONDS)


async def missing_among(error: NotFound, name: str, listing: Awaitable[Iterable[Named]]) -> NotFound:
    """The error for an unknown name, with the nearest one of a listing; without, if the caller may not list them."""
    try:
        return missing(error, name, [each.name for each in await listing])
    except AccessDenied:
        return error


def missing(error: NotFound, name: str, known: Iterable[str]) -> NotFound:
    """The error for an unknown name, which suggests the nearest existing one."""
    names = list(known)
    close = nearest(name, names)
    remedy = f"did you mean {close}?" if close else error.remedy
    return NotFound(error.message, remedy=remedy, field=error.field, metadata=error.metadata)


@contextlib.asynccontextmanager
async def open_session(endpoint: Endpoint, terminal: Terminal) -> AsyncIterator[Session]:
    """Connects to a mesh.

    Raises:
        Unavailable: no replica answers; the message says where the address came from.
    """
    if endpoint.note and terminal.interactive:
        terminal.note(endpoint.note)
    client_id = f"{_user()}@braid"
    ports = system_ports(client_id, endpoint)
    # Asked once: whoever sits at a terminal would rather know at once that nobody is there.
    mesh = Mesh(
        ports.host, ports.kafka, ports.transport, endpoint.addresses, client_id, "", open_seconds=0.0, found=endpoint
    )
    async with _connected(mesh, endpoint, terminal):
        yield Session(ports, mesh, terminal)


@contextlib.asynccontextmanager
async def _connected(mesh: Mesh, endpoint: Endpoint, terminal: Terminal) -> AsyncIterator[None]:
    first, *others = endpoint.addresses
    doing = f"connecting to {first}" + (f" or {len(others)} other replicas" if others else "")
    async with terminal.waiting(doing):
        await mesh.__aenter__()
    try:
        yield
    finally:
        await mesh.__aexit__(None, None, None)


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "unknown"
