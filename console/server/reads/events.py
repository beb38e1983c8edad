"""Events of all services as rows: the newest of them, and pages further back through what is kept."""

import asyncio
from collections.abc import Mapping
from typing import Final

from google.protobuf.message import DecodeError

from braid.api.mesh.v1.audit_pb2 import AuditEvent
from braid.api.mesh.v1.event_pb2 import EventFilter, EventGap, EventRecord, ListEventsRequest, ListEventsResponse
from braid.kernel.errors import BraidError, Invalid
from braid.rpc.documents import Document, Value, to_document
from braid.rpc.event_documents import EVENT_SERVICES, event_body, summary
from console.server.limits import (
    EVENTS_MAX,
    EVENTS_READ_MAX,
    EVENTS_SEARCH_SECONDS,
    PAST_SECONDS,
    POLL_SECONDS,
    READ_SECONDS,
)
from console.server.live.parts import Content, Table
from console.server.problems import problem_of
from console.server.reads.reader import Reader
from console.server.reads.view import AT, Params, Read, whole_number

PARAMETERS: Final = ("history", "service", "actor", "since_ms", "until_ms", "refused")
AUDIT: Final = "audit"
_TIME_MS_MAX: Final = 1 << 52
_UNORDERED: Final = "more events match than are read, newer ones among those left out: narrow the filter"
_OWNERS: Final[Mapping[str, str]] = {
    "stream": "registry",
    "cluster": "registry",
    "grants": "registry",
    "revocations": "registry",
    "tenants": "registry",
    "approvals": "registry",
    "group": "assigner",
    "replay": "dlq",
    "alerts": "lagmon",
    "outlets": "lagmon",
    AUDIT: "registry",
}


class _Found:
    """Events of several services, and the errors of services that could not be read.

    Attributes:
        divided_ms: A service may have left out events of this moment and of earlier ones; 0 if none was left out.
        crowded_ms: A moment of which there are more events than a service answers with, or searches; 0 for none.
        unordered: The service that left out events of any time; empty if none did.
    """

    def __init__(self) -> None:
        self.records: list[EventRecord] = []
        self.gaps: list[EventGap] = []
        self.errors: dict[str, BraidError] = {}  # by service
        self.divided_ms = 0
        self.crowded_ms = 0
        self.unordered = ""

    @property
    def more(self) -> bool:
        """Whether events may have been left out."""
        return bool(self.divided_ms or self.unordered)

    def check(self) -> None:
        """Raises the first error where nothing at all was read."""
        if self.errors and not self.records:
            raise next(iter(self.errors.values()))


def newest_events(most: int = EVENTS_MAX, seconds: float = POLL_SECONDS) -> Read:
    """The newest events that match the page's parameters, and the gaps between them."""

    async def take(reader: Reader, params: Params) -> Mapping[str, Content]:
        found = await _read(reader, params, most)
        found.check()
        records = _sorted(found.records)
        rows = {_key(each): event_row(each) for each in records[:most]}
        gaps = {f"{each.history}#{each.first}": to_document(each) for each in found.gaps[:most]}
        gaps |= {service: _missing(service, error) for service, error in found.errors.items()}
        more = found.more or len(records) > most or bool(params.get("refused"))
        return {"events": Table(rows, more), "gaps": Table(gaps)}

    return Read(("events", "gaps"), take, seconds)


async def page_back(reader: Reader, params: Params) -> Document:
    """Events before a page's oldest: the token is the moment from which to look back, newest first.

    Where few events match, a page may have fewer than there is room for, or none: its token says how far it looked.
    """
    token = params.get("page_token", "")
    until_ms = whole_number({"page_token": token} if token else {}, "page_token", _TIME_MS_MAX)
    given = {name: value for name, value in params.items() if name in PARAMETERS}
    if until_ms:
        given["until_ms"] = str(min(until_ms, whole_number(params, "until_ms", _TIME_MS_MAX) or until_ms))
    found = await _read(reader, given, EVENTS_MAX, EVENTS_SEARCH_SECONDS)
    found.check()
    records, divided_ms = _sorted(found.records), found.divided_ms
    whole = [each for each in records if each.metadata.time_ms > divided_ms]
    crowded = not whole and 0 < divided_ms == found.crowded_ms
    if crowded:
        whole = [each for each in records if each.metadata.time_ms == divided_ms]
        found.gaps.append(EventGap(reason="more events of one moment than a page holds: look at single histories"))
    if found.unordered:
        found.gaps.append(EventGap(history=found.unordered, reason=_UNORDERED))
    shown = whole[:EVENTS_MAX]
    while len(shown) < len(whole) and whole[len(shown)].metadata.time_ms == shown[-1].metadata.time_ms:
        shown.append(whole[len(shown)])  # a moment is never divided: the next page begins before it
    next_ms = shown[-1].metadata.time_ms - 1 if shown else 0
    if divided_ms and len(shown) == len(whole):
        next_ms = divided_ms - crowded
    events: list[Value] = [{"key": _key(each), **event_row(each)} for each in shown]
    gaps: list[Value] = [to_document(each) for each in found.gaps[:EVENTS_MAX]]
    errors: list[Value] = [problem_of(each).document() for each in found.errors.values()]
    return {"events": events, "gaps": gaps, "next_page_token": str(next_ms or ""), "errors": errors}


def event_row(record: EventRecord) -> Document:
    """An event as a row: who, when, why and what."""
    service, _, place = record.history.partition("/")
    body = _call_body(record) if service == AUDIT or place.startswith(f"{AUDIT}/") else event_body(service, record.data)
    metadata = record.metadata
    return {
        "time_ms": metadata.time_ms,
        "service": service,
        "history": place,
        "sequence": record.sequence,
        "type": record.type,
        "actor": metadata.actor,
        "cause": metadata.cause,
        "request_id": metadata.request_id,
        "text": summary(body),
        "data": body,
    }


def _call_body(record: EventRecord) -> Document:
    event = AuditEvent()
    try:
        event.ParseFromString(record.data)
    except DecodeError:
        return {}
    name = event.WhichOneof("event")
    return to_document(getattr(event, name)) if name else {}


async def _read(reader: Reader, params: Params, latest: int, search_seconds: float = 0.0) -> _Found:
    """Reads the newest matching events of all services: up to `latest` of each, if they are found in time."""
    found = _Found()

    async def read(service: str) -> None:
        try:
            await _read_service(reader, service, params, latest, search_seconds, found)
        except BraidError as error:
            found.errors[service] = error

    await asyncio.gather(*map(read, _services(params)))
    return found


async def _read_service(
    reader: Reader, service: str, params: Params, latest: int, search_seconds: float, into: _Found
) -> None:
    request, since_ms, read = _request(params, latest, whole=search_seconds > 0), 0, 0
    seconds = PAST_SECONDS if request.until_ms or search_seconds else READ_SECONDS
    ends = reader.host.clock.elapsed() + search_seconds

    def items(page: ListEventsResponse) -> list[EventRecord]:
        nonlocal since_ms
        since_ms = page.since_ms
        into.gaps.extend(page.gaps)
        return [each for each in page.events if _matches(each, request.filter)]

    try:
        while True:
            records, more = await reader.pages(
                service, "ListEvents", request, ListEventsResponse, items, EVENTS_READ_MAX, seconds=seconds
            )
            into.records.extend(records)
            read += len(records)
            if more:
                into.unordered = service
            if 0 < request.until_ms < since_ms or (records and records[0].metadata.time_ms < since_ms):
                into.crowded_ms = max(into.crowded_ms, since_ms - 1)
                break
            if not since_ms or read >= latest or reader.host.clock.elapsed() >= ends:
                break
            request.until_ms = since_ms - 1
    finally:
        if since_ms:
            into.divided_ms = max(into.divided_ms, since_ms - 1)


def _request(params: Params, latest: int, *, whole: bool) -> ListEventsRequest:
    """Asks for the newest events that match.

    Records of calls, and older releases, list all events; without a filter the latest of each history. Refused calls
    are looked for among those as well, unless the `whole` past is asked for.
    """
    wanted = EventFilter(
        actor=params.get("actor", ""),
        since_ms=whole_number(params, "since_ms", _TIME_MS_MAX),
        refused=bool(params.get("refused")),
    )
    some = not (wanted.actor or wanted.since_ms or (wanted.refused and whole))
    return ListEventsRequest(
        history=AUDIT if wanted.refused else params.get("history", ""),
        until_ms=_until(params),
        latest=latest if some else 0,
        filter=wanted,
        newest=latest,
    )


def _until(params: Params) -> int:
    """The end of the time that is asked for, or the moment that the page shows; 0 for none."""
    ends = [whole_number(params, name, _TIME_MS_MAX) for name in ("until_ms", AT)]
    return min((each for each in ends if each), default=0)


def _matches(record: EventRecord, wanted: EventFilter) -> bool:
    """Whether an event is wanted: replicas of older releases leave nothing out."""
    return wanted.actor in ("", record.metadata.actor) and record.metadata.time_ms >= wanted.since_ms


def _services(params: Params) -> tuple[str, ...]:
    """Services whose histories may hold matching events. Raises `Invalid` for a service or a kind that is unknown."""
    service, kind = params.get("service", ""), params.get("history", "").partition("/")[0]
    if service and service not in EVENT_SERVICES:
        raise Invalid("there is no such service", field="service", remedy=f"one of {', '.join(EVENT_SERVICES)}")
    if kind and kind not in _OWNERS:
        raise Invalid("nothing of that kind has a history", field="history", remedy=f"one of {', '.join(_OWNERS)}")
    if params.get("refused"):
        return (service or "registry",)  # each service knows the records of all
    owner = _OWNERS.get(kind, "")
    if service and owner and service != owner:
        return ()
    return (service,) if service else (owner,) if owner else EVENT_SERVICES


def _sorted(records: list[EventRecord]) -> list[EventRecord]:
    """Newest first."""
    return sorted(records, key=lambda each: (-each.metadata.time_ms, each.history, -each.sequence))


def _missing(service: str, error: BraidError) -> Document:
    """A service that did not answer, as a gap."""
    return {"history": service, "first": 0, "last": 0, "reason": f"{service} did not answer: {error.message}"}


def _key(record: EventRecord) -> str:
    return f"{record.history}#{record.sequence}"
