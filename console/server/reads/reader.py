"""Reads from services with one caller's rights: at the leader, or from any replica where there is none."""

from collections.abc import Callable, Iterable
from typing import TypeVar

from google.protobuf.message import Message

from braid.kernel.errors import ClusterUnavailable, DeadlineExceeded, Unavailable
from braid.kernel.ports import Host
from braid.rpc.directory import SERVICES, Directory
from braid.rpc.documents import Document, to_document
from braid.rpc.mesh_client import ServiceClient
from braid.rpc.pages import ListRequest, Page, page_request, pages_of
from console.server.limits import CHANGE_SECONDS, FOLLOWER_SECONDS, LEADERLESS_SECONDS, READ_SECONDS, ROWS_MAX
from console.server.live.parts import Table
from console.server.reads.gathering import Gathering

T = TypeVar("T")
P = TypeVar("P", bound=Page)
M = TypeVar("M", bound=Message)


class Reader:
    """Clients of all services, as one caller."""

    def __init__(
        self, host: Host, directory: Directory, client_id: str = "", show: Callable[[str], None] | None = None
    ) -> None:
        """Opens nothing yet.

        Args:
            host: Of this process.
            directory: Where services are; it connects as the caller.
            client_id: The name that the caller gives itself; services use it only without TLS.
            show: Sends another token of the caller from then on; None for a caller without one.
        """
        self.host = host
        self._show = show
        self._directory = directory
        self._clients = {each: ServiceClient(directory, each, host, principal=client_id) for each in SERVICES}
        self._gatherings = {service: Gathering(host, client) for service, client in self._clients.items()}
        self._leaderless_until: dict[str, float] = {}

    async def one(
        self,
        service: str,
        method: str,
        request: object,
        response_type: type[T],
        *,
        any_replica: bool = False,
        seconds: float = READ_SECONDS,
        alone: bool = False,
    ) -> T:
        """Asks the leader, which knows most; any replica where none leads, or where each knows the same.

        Reads of a service that are asked for within a moment are sent as one call, except those that go `alone`.

        Raises:
            Unavailable: no replica answers.
            BraidError: the service's answer is this error.
        """
        reads = self._gatherings[service]
        if not any_replica and self.host.clock.elapsed() >= self._leaderless_until.get(service, 0.0):
            try:
                return await reads.ask(method, request, response_type, seconds, leader=True, alone=alone)
            except ClusterUnavailable:
                raise
            except (Unavailable, DeadlineExceeded):
                self._leaderless_until[service] = self.host.clock.elapsed() + LEADERLESS_SECONDS
        seconds = seconds if any_replica else FOLLOWER_SECONDS
        return await reads.ask(method, request, response_type, seconds, leader=False, alone=alone)

    async def change(
        self, service: str, method: str, request: object, response_type: type[T], request_id: str = ""
    ) -> T:
        """Asks the leader for a change. Raises the service's error."""
        client = self._clients[service]
        return await client.unary(method, request, response_type, timeout_seconds=CHANGE_SECONDS, request_id=request_id)

    def show(self, token: str) -> None:
        """Sends a newer token of the same caller with calls that begin from now on."""
        assert self._show is not None, "this caller has no token"
        self._show(token)

    def client(self, service: str) -> ServiceClient:
        """The client of one service, for streams of its calls. It shows the caller's token, as every read does."""
        return self._clients[service]

    async def close(self) -> None:
        """Ends all connections."""
        await self._directory.close()

    async def pages(
        self,
        service: str,
        method: str,
        request: ListRequest,
        response_type: type[P],
        items: Callable[[P], Iterable[M]],
        most: int = ROWS_MAX,
        *,
        any_replica: bool = False,
        seconds: float = READ_SECONDS,
    ) -> tuple[list[M], bool]:
        """The items of a list up to a bound, and whether there are more. Raises the service's error."""
        found: list[M] = []
        async for page in pages_of(
            lambda token: self.one(
                service,
                method,
                page_request(request, token),
                response_type,
                any_replica=any_replica,
                seconds=seconds,
                alone=bool(token),  # the pages after the first come one by one
            )
        ):
            found.extend(items(page))
            if len(found) > most or (len(found) == most and page.next_page_token):
                return found[:most], True
        return found, False


class Memo:
    """Documents of messages as they were last read: one that did not change is not made again."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Message, Document]] = {}

    def table(self, messages: Iterable[M], key: Callable[[M], str], more: bool = False) -> Table:
        """The messages as rows. Rows of the last table that are gone are forgotten."""
        known: dict[str, tuple[Message, Document]] = {}
        for message in messages:
            name = key(message)
            before = self._known.get(name)
            if before is None or before[0] != message:
                before = (message, to_document(message))
            known[name] = before
        self._known = known
        return Table({name: document for name, (_, document) in known.items()}, more)
