"""RPC handlers for a replica's archive, and a client for the archives of its peers."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from braid.api.mesh.v1.archive_pb2 import (
    ArchiveStatus,
    GetArchiveRequest,
    ListArchiveRequest,
    ListArchiveResponse,
    ReadArchiveRequest,
    ReadArchiveResponse,
    VerifyArchiveRequest,
    VerifyArchiveResponse,
)
from braid.api.mesh.v1.event_pb2 import EventGap
from braid.archive import names
from braid.kernel.audit.calls import AUDIT
from braid.kernel.errors import Invalid, NotFound, Unavailable
from braid.kernel.limits.archive import (
    ARCHIVE_CALL_SECONDS,
    ARCHIVE_OBJECT_BYTES_MAX,
    ARCHIVE_PEER_NAMES_MAX,
    ARCHIVE_PIECE_BYTES,
    ARCHIVE_RETENTION_DAYS,
    ARCHIVE_VERIFY_EVENTS,
    ARCHIVE_VERIFY_HISTORIES,
)
from braid.kernel.ports import (
    ArchivedObject,
    ArchiveStore,
    Caller,
    CallOptions,
    HistoryId,
    RpcChannel,
    RpcTransport,
)
from braid.rpc.directory import KnownEndpoint
from braid.rpc.methods import method_path
from braid.runtime.archive.line import Gap
from braid.runtime.archive.log import ArchiveLog
from braid.runtime.archive.shelf import Shelf

if TYPE_CHECKING:
    from braid.runtime.histories.past import Verified

T = TypeVar("T")

_HISTORY_PARTS: Final = 3


@dataclass(frozen=True, slots=True)
class Archive:
    """The configuration of a replica's archive.

    Attributes:
        store: Where its objects are stored.
        location: The location, for people.
        retention_days: How long they are kept.
    """

    store: ArchiveStore
    location: str
    retention_days: float = ARCHIVE_RETENTION_DAYS


class Writer(Protocol):
    """The part that writes to the archive."""

    failing_reason: str


class Verifiable(Protocol):
    """Histories whose archived events can be verified."""

    def histories(self, prefix: str = "") -> Sequence[HistoryId]:
        """Known histories, sorted."""
        ...

    async def verified(self, history: HistoryId, names_only: bool) -> "Verified":
        """The state of one history's archived events."""
        ...


class Histories(Verifiable, Protocol):
    """The histories that are archived: `runtime.histories.aggregates`."""

    @property
    def snapshots(self) -> Writer:
        """The writer that archives them."""
        ...

    def sequences(self) -> Mapping[HistoryId, int]:
        """The last sequence of each history."""
        ...


class ArchiveHandlers:
    """The archive's RPC handlers, which every service has."""

    def __init__(
        self,
        service: str,
        shelf: Shelf | None,
        log: ArchiveLog,
        archive: Archive | None,
        histories: Histories,
        calls: Callable[[], Awaitable[Verifiable]],
    ) -> None:
        """Serves the archive of `histories`, and of the records of `calls` that it has, too."""
        self._calls = calls
        self._service = service
        self._shelf = shelf
        self._log = log
        self._archive = archive
        self._histories = histories

    async def get_archive(self, request: GetArchiveRequest, caller: Caller) -> ArchiveStatus:
        """Returns the state of this replica's archive, and the leaders' notes about it."""
        notes = await self._log.read()
        status = ArchiveStatus(
            failing_reason=notes.failing_reason,
            failing_since_ms=notes.failing_since_ms,
            holes=[gap_message(hole.gap) for hole in notes.holes],
        )
        if self._archive is not None:
            listed = await self._archive.store.list(f"{self._service}/")
            status.location, status.shared = self._archive.location, self._archive.store.shared
            status.size_bytes = sum(each.size_bytes for each in listed)
            status.retention_days = self._archive.retention_days
            status.replica_failing_reason = self._histories.snapshots.failing_reason
            waiting = _waiting(self._histories.sequences(), [each.name for each in listed])
            status.waiting_events, status.waiting_history = waiting[0], str(waiting[1] or "")
        return status

    async def verify_archive(self, request: VerifyArchiveRequest, caller: Caller) -> VerifyArchiveResponse:
        """Lists missing and changed events, history by history, and of records of calls after them.

        Raises:
            NotFound: there is no archive.
            Unavailable: the store or the archive does not answer.
        """
        if self._shelf is None:
            raise NotFound("this replica has no archive", remedy="set BRAID_ARCHIVE")
        page = VerifyArchiveResponse()
        for place, history, source in await self._to_verify(request.history):
            if place <= request.page_token:
                continue
            found = await source.verified(history, request.names_only)
            page.histories += 1
            page.events += found.events
            page.problems.extend(gap_message(gap) for gap in found.problems)
            if page.histories >= ARCHIVE_VERIFY_HISTORIES or page.events >= ARCHIVE_VERIFY_EVENTS:
                page.next_page_token = place
                break
        return page

    async def _to_verify(self, asked: str) -> Sequence[tuple[str, HistoryId, Verifiable]]:
        """Each history that is asked for, with its place in the order of pages and who verifies it."""
        kind, _, within = asked.partition("/")
        found: list[tuple[str, HistoryId, Verifiable]] = []
        if kind != AUDIT:
            found += [(f"{each.kind}/{each.id}", each, self._histories) for each in self._histories.histories(asked)]
        if kind in ("", AUDIT):
            calls = await self._calls()
            found += [(f"~{each.kind}/{each.id}", each, calls) for each in calls.histories(within)]
        return found

    async def list_archive(self, request: ListArchiveRequest, caller: Caller) -> ListArchiveResponse:
        """Lists the names of a history's objects here. Raises `Invalid`."""
        history = HistoryId(*_parts(request.history))
        if history.service != self._service:
            raise Invalid(f"{request.history!r} is no history of {self._service}", field="history")
        if self._shelf is None:
            return ListArchiveResponse()
        listed = await self._shelf.store.list(names.prefix(history))
        found = [each.name for each in listed if names.parse(each.name) is not None]
        return ListArchiveResponse(names=found[-ARCHIVE_PEER_NAMES_MAX:])

    async def read_archive(self, request: ReadArchiveRequest, caller: Caller) -> ReadArchiveResponse:
        """Returns a piece of an object. Raises `Invalid`, `NotFound`."""
        name = names.parse(request.name)
        if name is None or name.history.service != self._service or str(name) != request.name:
            raise Invalid(f"{request.name!r} names no archived object of {self._service}", field="name")
        if request.offset < 0:
            raise Invalid("an object begins at 0", field="offset")
        if self._shelf is None:
            raise NotFound("this replica has no archive", remedy="ask another one")
        data = await self._shelf.store.get(request.name)
        piece = data[request.offset : request.offset + ARCHIVE_PIECE_BYTES]
        return ReadArchiveResponse(data=piece, size_bytes=len(data))


class PeerArchive:
    """A read-only `kernel.ports.ArchiveStore` over the RPCs of another replica of the service."""

    shared = False

    def __init__(self, transport: RpcTransport, service: str, address: str, tls_address: str = "") -> None:
        self._transport = transport
        self._service = service
        self._address = address
        self._tls_address = tls_address
        self._channel: RpcChannel | None = None

    async def list(self, prefix: str) -> Sequence[ArchivedObject]:
        """See `ArchiveStore`; the prefix is that of one history."""
        name = names.parse(f"{prefix}{0:020d}_0_{'0' * names.LINK_DIGITS}_i0.base")
        if name is None:
            return ()
        request = ListArchiveRequest(history=str(name.history))
        answer = await self._call("ListArchive", request, ListArchiveResponse)
        return [ArchivedObject(each, 0) for each in answer.names]

    async def get(self, name: str) -> bytes:
        """See `ArchiveStore`."""
        whole = b""
        while True:
            request = ReadArchiveRequest(name=name, offset=len(whole))
            answer = await self._call("ReadArchive", request, ReadArchiveResponse)
            whole += answer.data
            if len(whole) >= min(answer.size_bytes, ARCHIVE_OBJECT_BYTES_MAX):
                return whole
            if not answer.data:
                raise Unavailable(f"{self._address} sends no more of {name}")

    async def put(self, name: str, data: bytes) -> None:
        """Refuses, because only a peer itself writes its archive."""
        raise Unavailable("another replica's archive is not written to")

    async def delete(self, name: str) -> None:
        """Refuses, like `put`."""
        raise Unavailable("another replica's archive is not written to")

    async def close(self) -> None:
        """See `ArchiveStore`."""
        if self._channel is not None:
            await self._channel.close()
            self._channel = None

    async def _call(self, method: str, request: object, response_type: type[T]) -> T:
        if self._channel is None:
            self._channel = self._transport.channel(self._address, self._tls_address)
        options = CallOptions(ARCHIVE_CALL_SECONDS, principal=self._service)
        return await self._channel.unary(method_path(self._service, method), request, response_type, options)


class PeerArchives:
    """The archives of a service's other replicas, as listed in the directory."""

    def __init__(
        self,
        transport: RpcTransport,
        service: str,
        endpoints: Callable[[], Awaitable[Sequence[KnownEndpoint]]],
        own_address: Callable[[], str],
    ) -> None:
        self._transport = transport
        self._service = service
        self._endpoints = endpoints
        self._own_address = own_address
        self._archives: dict[str, PeerArchive] = {}

    async def archives(self) -> Sequence[ArchiveStore]:
        """Returns one archive client per live replica; none if the directory cannot be read."""
        try:
            found = await self._endpoints()
        except Unavailable:
            return ()
        own = self._own_address()
        peers = {
            each.address: each.tls_address for each in found if each.service == self._service and each.address != own
        }
        for gone in self._archives.keys() - peers.keys():
            await self._archives.pop(gone).close()
        for way in peers.items():
            self._archives.setdefault(way[0], PeerArchive(self._transport, self._service, *way))
        return list(self._archives.values())

    async def close(self) -> None:
        """Closes connections to all peers."""
        for archive in self._archives.values():
            await archive.close()


def gap_message(gap: Gap) -> EventGap:
    """A gap as an API message."""
    return EventGap(history=str(gap.history), first=gap.first, last=gap.last, reason=gap.reason)


def _waiting(sequences: Mapping[HistoryId, int], listed: Sequence[str]) -> tuple[int, HistoryId | None]:
    """How far the archive is behind, at most, and for which history."""
    until: dict[HistoryId, int] = {}
    for name in map(names.parse, listed):
        if isinstance(name, names.SegmentName):
            until[name.history] = max(until.get(name.history, 0), name.last)
    behind = ((last - until.get(history, 0), history) for history, last in sequences.items())
    most = max(behind, default=(0, None))
    return most if most[0] > 0 else (0, None)


def _parts(history: str) -> list[str]:
    parts = history.split("/", _HISTORY_PARTS - 1)
    if len(parts) != _HISTORY_PARTS or not all(parts):
        raise Invalid(f"{history!r} names no history", field="history", remedy="write <service>/<kind>/<id>")
    return parts
