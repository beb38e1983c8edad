"""Handlers that every replica serves, and the wrapper around every handler: durations and up-to-date redirects."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from braid.api.mesh.v1.archive_pb2 import (
    GetArchiveRequest,
    ListArchiveRequest,
    ReadArchiveRequest,
    VerifyArchiveRequest,
)
from braid.api.mesh.v1.endpoint_pb2 import (
    ACCESS_MODE_ENFORCED,
    ACCESS_MODE_OPEN,
    Endpoint,
    ListEndpointsRequest,
    ListEndpointsResponse,
)
from braid.api.mesh.v1.event_pb2 import (
    EventRecord,
    ListEventsRequest,
    ListEventsResponse,
    WatchEventsRequest,
)
from braid.api.mesh.v1.read_pb2 import ReadManyRequest
from braid.kernel.errors import BraidError, Invalid, NotLeader
from braid.kernel.ids import read_number
from braid.kernel.limits.names import PAGE_SIZE_MAX
from braid.kernel.limits.rpc import LEADER_WAIT_LOOK_SECONDS, LEADER_WAIT_SECONDS
from braid.kernel.limits.runtime import EVENTS_PAGE_BYTES_MAX, EVENTS_SCAN_MAX, PAGE_SIZE_DEFAULT
from braid.kernel.ports import (
    Caller,
    DuplexHandler,
    DuplexServing,
    RpcService,
    StreamHandler,
    UnaryHandler,
)
from braid.rpc.directory import KnownEndpoint
from braid.rpc.grpc.reflection import reflection_method
from braid.rpc.methods import method_path, server_stream, service_path, unary
from braid.runtime.access.admissions import Admissions
from braid.runtime.access.authorized import authorized
from braid.runtime.archive.log import SERVICE, type_name
from braid.runtime.archive.serving import gap_message
from braid.runtime.audit.serving import EventSource, matches
from braid.runtime.histories.aggregates import Aggregates
from braid.runtime.histories.event_metadata import metadata_message
from braid.runtime.histories.kinds import RecordedEvent
from braid.runtime.histories.newest import newest_events
from braid.runtime.read_many import ManyReads
from braid.runtime.request_bounds import bounded
from braid.runtime.service import Service
from braid.runtime.traces.calls import traced_calls

if TYPE_CHECKING:
    from braid.runtime.replica import Replica

_OK: Final = "OK"
_ABANDONED: Final = "CANCELLED"
_NOTES_PLACE: Final = "~archive"  # sorts after every history
_BEFORE_LOADED: Final = ("ListEndpoints", "ListArchive", "ReadArchive")  # need no histories


def build_rpc_service(service: Service, replica: "Replica") -> RpcService:
    """The service's handlers and the runtime's own, each with the common wrapper."""
    own = service.rpc(replica)
    events, archive, reads = _Events(replica), replica.archive, ManyReads(service.name)
    unaries = {
        **own.unary,
        method_path(service.name, "ListEndpoints"): unary(ListEndpointsRequest, events.list_endpoints),
        method_path(service.name, "ReadMany"): unary(ReadManyRequest, reads.read_many),
        method_path(service.name, "ListEvents"): unary(ListEventsRequest, events.list_events),
        method_path(service.name, "GetArchive"): unary(GetArchiveRequest, archive.get_archive),
        method_path(service.name, "VerifyArchive"): unary(VerifyArchiveRequest, archive.verify_archive),
        method_path(service.name, "ListArchive"): unary(ListArchiveRequest, archive.list_archive),
        method_path(service.name, "ReadArchive"): unary(ReadArchiveRequest, archive.read_archive),
    }
    streams = {
        **own.server_stream,
        method_path(service.name, "WatchEvents"): server_stream(WatchEventsRequest, events.watch_events),
    }
    duplexes = {**own.duplex, **reflection_method(service_path(service.name))}
    served = bounded(replace(own, unary=unaries, server_stream=streams, duplex=duplexes))
    # An identity that was revoked is told so, whatever it may do.
    audited = replica.audit.recorded(authorized(served, (replica.identities, replica.access)))
    measured = audited.wrapped(partial(_unary, replica), partial(_stream, replica), partial(_duplex, replica))
    admissions = Admissions(replica, (*served.server_stream, *served.duplex), audited.refused)
    whole = replace(traced_calls(measured, service.name), admit=admissions.admit)
    reads.serves(whole)
    return whole


def event_record(record: RecordedEvent) -> EventRecord:
    """An event as API message for lists and watches."""
    return EventRecord(
        history=str(record.history),
        sequence=record.sequence,
        revision=record.revision,
        metadata=metadata_message(record.context),
        type=type(record.event).__name__,
        data=record.data,
    )


class _Events:
    """The handlers that every service has."""

    def __init__(self, replica: "Replica") -> None:
        self._replica = replica

    async def list_endpoints(self, request: ListEndpointsRequest, caller: Caller) -> ListEndpointsResponse:
        found = await self._replica.endpoints()
        if request.leader_of and request.wait_ms > 0:
            found = await self._led(request, found)
        return ListEndpointsResponse(
            endpoints=[
                Endpoint(
                    service=each.service,
                    instance=each.instance,
                    address=each.address,
                    leader=each.leader,
                    tls_address=each.tls_address,
                )
                for each in found
            ],
            time_ms=self._replica.host.clock.now_ms(),
            store_trouble=self._replica.store_trouble,
            stale=self._replica.directory_stale,
            access=ACCESS_MODE_ENFORCED if self._replica.access.enforced else ACCESS_MODE_OPEN,
            plaintext=self._replica.plaintext,
            certificates=self._replica.certificates(),
        )

    async def _led(self, request: ListEndpointsRequest, found: Sequence[KnownEndpoint]) -> Sequence[KnownEndpoint]:
        """Waits for a leader, so that a client that searches for one polls once a second, and learns of it at once.

        A replica cut off from the store would not learn of a leader: it answers at once, and the client asks another.
        """
        clock, silent = self._replica.host.clock, set(request.silent)
        until = clock.elapsed() + min(request.wait_ms / 1000, LEADER_WAIT_SECONDS)
        while not (self._replica.stopping or self._replica.directory_stale) and clock.elapsed() < until:
            leaders = {each.address for each in found if each.leader and each.service == request.leader_of}
            if leaders - silent:
                break
            silent &= leaders  # who leads anew is not silent any more
            await clock.sleep(LEADER_WAIT_LOOK_SECONDS)
            found = await self._replica.endpoints()
        return found

    async def list_events(self, request: ListEventsRequest, caller: Caller) -> ListEventsResponse:
        """Pages through histories in order; a page ends at its limit of events, bytes or histories."""
        size = min(request.page_size or PAGE_SIZE_DEFAULT, PAGE_SIZE_MAX)
        if size < 0:
            raise Invalid("a page has at least one event", field="page_size")
        if request.latest < 0:
            raise Invalid("the latest events are some or, with 0, all", field="latest")
        aggregates, within = await self._source(request.history)
        if request.newest:
            _check_newest(request)
            if isinstance(aggregates, Aggregates):
                return await self._newest(request, aggregates, within)
        start, sequence = _parse_token(request.page_token)
        page = ListEventsResponse(revision=aggregates.revision)
        weight = scanned = 0
        for history in aggregates.histories(within):
            place = f"{history.kind}/{history.id}"
            if place < start:
                continue
            first = sequence if place == start else 0
            if scanned == EVENTS_SCAN_MAX:
                page.next_page_token = f"{place}:{first}"
                return page
            scanned += 1
            left = size - len(page.events)
            found = await aggregates.listed(history, first, left + 1, until_ms=request.until_ms, latest=request.latest)
            page.gaps.extend(map(gap_message, found.gaps))
            for record in found.events:
                if len(page.events) == size or weight > EVENTS_PAGE_BYTES_MAX:
                    page.next_page_token = f"{place}:{record.sequence}"
                    return page
                if matches(request.filter, record):
                    page.events.append(event_record(record))
                    weight += len(record.data)
            if len(found.events) > left:  # the history goes on, and all that was read of it may have been left out
                page.next_page_token = f"{place}:{found.events[-1].sequence + 1}"
                return page
        await self._add_notes(request, page, size, sequence if start == _NOTES_PLACE else 0)
        return page

    async def _newest(self, request: ListEventsRequest, aggregates: Aggregates, within: str) -> ListEventsResponse:
        found = await newest_events(aggregates, within, request.newest, request.until_ms, request.filter)
        gaps = map(gap_message, found.gaps)
        page = ListEventsResponse(revision=aggregates.revision, gaps=gaps, since_ms=found.since_ms)
        weight = 0
        for record in found.events:
            weight += len(record.data)
            if page.events and weight > EVENTS_PAGE_BYTES_MAX:
                page.since_ms = record.context.now_ms + 1
                break
            page.events.append(event_record(record))
        page.more = page.since_ms > 0
        return page

    async def _source(self, history: str) -> tuple[EventSource, str]:
        """Where histories are read, and which there: the service's own, or those that are asked for by name."""
        access, identities, audit = self._replica.access, self._replica.identities, self._replica.audit
        if audit.owns(history):
            return await audit.histories(), history.partition("/")[2]
        for list_of in (identities, self._replica.tenants, self._replica.approvals):
            if list_of.owns(history):
                return list_of.histories, history
        own = not (access.needs_grants and access.owns(history))
        return self._replica.aggregates if own else access.histories, history

    async def _add_notes(self, request: ListEventsRequest, page: ListEventsResponse, size: int, first: int) -> None:
        """Adds the service's notes about its archive, which lie under a service name of their own."""
        if request.history not in ("", SERVICE) or request.HasField("filter"):
            return
        log = self._replica.aggregates.archive_log
        notes = await log.events()
        until = [n for n, (note, _) in enumerate(notes, 1) if note.metadata.time_ms <= request.until_ms]
        end = max(until, default=0) if request.until_ms else len(notes)
        start = first or max(1, end - request.latest + 1 if request.latest else 1)
        for sequence in range(start, end + 1):
            if len(page.events) == size:
                page.next_page_token = f"{_NOTES_PLACE}:{sequence}"
                return
            note, data = notes[sequence - 1]
            page.events.append(
                EventRecord(
                    history=str(log.history),
                    sequence=sequence,
                    metadata=note.metadata,
                    type=type_name(note),
                    data=data,
                )
            )

    async def watch_events(self, request: WatchEventsRequest, caller: Caller) -> AsyncIterator[EventRecord]:
        source, within = await self._source(request.history)
        async for record in source.watch_events(within, request.after_revision or source.revision):
            if matches(request.filter, record):
                yield event_record(record)


def _check_newest(request: ListEventsRequest) -> None:
    """Raises `Invalid` where the newest events are too many."""
    if not 0 < request.newest <= PAGE_SIZE_MAX:
        raise Invalid(f"{request.newest} of the newest events", field="newest", remedy=f"ask for 1 to {PAGE_SIZE_MAX}")


def _parse_token(token: str) -> tuple[str, int]:
    if not token:
        return "", 0
    place, _, number = token.rpartition(":")
    sequence = read_number(number)
    if not place or sequence is None:
        raise Invalid("not a token of this method", field="page_token", remedy="pass next_page_token of the last page")
    return place, sequence


class _Measured:
    """Measures each handler's duration and outcome; adds the leader's present address to redirects."""

    def __init__(self, replica: "Replica", path: str) -> None:
        self._replica = replica
        self._method = path.rpartition("/")[2]
        self._started = replica.host.clock.elapsed()
        self._code = _ABANDONED

    def require_histories(self) -> None:
        """Raises `Unavailable` until the histories are read: no answer may come from histories that only seem empty."""
        if self._method not in _BEFORE_LOADED:
            self._replica.require_histories()

    def succeeded(self) -> None:
        self._code = _OK

    async def failed(self, error: BraidError) -> None:
        self._code = error.code.name
        if isinstance(error, NotLeader):
            error.metadata["leader"] = await self._replica.refresh_leader()

    def done(self) -> None:
        seconds = self._replica.host.clock.elapsed() - self._started
        self._replica.metrics.rpc_seconds.labels(self._method, self._code).observe(seconds)


def _unary(replica: "Replica", path: str, handler: UnaryHandler) -> UnaryHandler:
    async def handle(request: object, caller: Caller) -> object:
        measured = _Measured(replica, path)
        try:
            measured.require_histories()
            response = await handler(request, caller)
            measured.succeeded()
        except BraidError as error:
            await measured.failed(error)
            raise
        finally:
            measured.done()
        return response

    return handle


def _stream(replica: "Replica", path: str, handler: StreamHandler) -> StreamHandler:
    async def handle(request: object, caller: Caller) -> AsyncIterator[object]:
        measured = _Measured(replica, path)
        try:
            measured.require_histories()
            async for response in handler(request, caller):
                yield response
            measured.succeeded()
        except BraidError as error:
            await measured.failed(error)
            raise
        finally:
            measured.done()

    return handle


def _duplex(replica: "Replica", path: str, handler: DuplexHandler) -> DuplexHandler:
    async def handle(stream: DuplexServing) -> None:
        measured = _Measured(replica, path)
        try:
            await handler(stream)
            measured.succeeded()
        except BraidError as error:
            await measured.failed(error)
            raise
        finally:
            measured.done()

    return handle
