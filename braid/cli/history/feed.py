"""Decoded events of every service: listed up to a moment, or followed as they happen."""

import asyncio
from collections.abc import AsyncIterator
from typing import Final, NamedTuple

from braid.api.mesh.v1.event_pb2 import (
    EventFilter,
    EventGap,
    EventRecord,
    ListEventsRequest,
    ListEventsResponse,
    WatchEventsRequest,
)
from braid.cli.core.documents import Document, to_document
from braid.cli.core.limits import CLI_EVENTS_MAX, CLI_WATCH_SECONDS
from braid.cli.core.output import API_VERSION, Column, Columns, Item
from braid.cli.core.session import Session
from braid.cli.errors import nearest
from braid.kernel.errors import Compacted, Exhausted, Invalid, NotLeader, Unavailable
from braid.kernel.limits.names import PAGE_SIZE_MAX
from braid.rpc.event_documents import EVENT_SERVICES
from braid.rpc.event_documents import event_body as event_body
from braid.rpc.event_documents import summary as summary

COLUMNS: Final = Columns(
    (
        Column("EVENT"),
        Column("WHAT", shrinks=True),
        Column("ACTOR", shrinks=True),
        Column("CAUSE", wide=True),
        Column("REQUEST", wide=True),
        Column("TIME-MS", wide=True),
    )
)
_NEEDED: Final = ("registry", "assigner")  # a mesh may do without the others
_OWNERS: Final = {
    "stream": "registry",
    "cluster": "registry",
    "group": "assigner",
    "replay": "dlq",
    "alerts": "lagmon",
    "outlets": "lagmon",
    "grants": "registry",
    "revocations": "registry",
    "tenants": "registry",
    "approvals": "registry",
}
_BY_REASON: Final = {
    "TrafficMoved",
    "CapacityDesired",
    "ResponseTaken",
    "ResponseUndone",
}  # events that are looked for by why they happened


class Subject(NamedTuple):
    """The subject of events: everything if empty, else `<kind>/<id>` of a service."""

    service: str = ""
    history: str = ""


def parse_subject(text: str) -> Subject:
    """Reads `<kind>/<name>`; of grants, tenants and the like there is one, `grants/mesh`. Raises `Invalid`."""
    if not text:
        return Subject()
    kind, _, name = text.partition("/")
    kind = kind if kind in _OWNERS else kind.removesuffix("s")
    if kind not in _OWNERS or not name or "/" in name:
        close = nearest(kind, _OWNERS)
        remedy = (
            f"write {close or 'stream'}/NAME" if name else f"write {close or 'stream'}/NAME, for example stream/logs"
        )
        raise Invalid(f"{text!r} has no history of its own", field="--for", remedy=remedy)
    return Subject(_OWNERS[kind], f"{kind}/{name}")


class Events(NamedTuple):
    """Events in order of time, and which of the requested ones are not kept.

    Attributes:
        revisions: By service, the revision up to which they are complete.
    """

    records: list[EventRecord]
    gaps: list[EventGap]
    revisions: dict[str, int]

    def note_gaps(self, session: Session) -> None:
        """Prints what is missing before or among the events."""
        for gap in self.gaps:
            place = gap.history.partition("/")[2]
            session.terminal.note(f"events {gap.first} to {gap.last} of {place} are missing: {gap.reason}")


async def list_events(
    session: Session, subject: Subject, until_ms: int = 0, latest: int = 0, filter: EventFilter | None = None
) -> Events:
    """The events of a moment's past, or of each history only its latest; with a filter those that match.

    A service that cannot be reached is left out, and said so, if another answers.

    Raises:
        Unavailable: no service answers.
    """
    found = Events([], [], {})
    failures: list[Unavailable] = []
    services = [subject.service] if subject.service else await _services(session)
    for service in services:
        try:
            some = await events_of(session, service, subject.history, until_ms, latest, filter)
        except Unavailable as error:
            failures.append(error)
            continue
        found.records.extend(some.records)
        found.gaps.extend(some.gaps)
        found.revisions.update(some.revisions)
    if len(failures) == len(services):
        raise failures[0]
    for failure in failures:
        session.terminal.note(f"some events are missing: {failure.message}")
    found.records.sort(key=lambda each: (each.metadata.time_ms, each.history, each.sequence))
    return found


async def follow_events(
    session: Session, subject: Subject, after: Events, filter: EventFilter | None = None
) -> AsyncIterator[EventRecord]:
    """Events as they happen, after those listed; each once. Never ends by itself."""
    seen: dict[str, int] = {}
    for listed in after.records:
        seen[listed.history] = max(listed.sequence, seen.get(listed.history, 0))
    arrived: asyncio.Queue[EventRecord] = asyncio.Queue(PAGE_SIZE_MAX)
    tasks = session.ports.host.tasks
    followers = []
    for service in [subject.service] if subject.service else list(EVENT_SERVICES):
        revision = after.revisions.get(service, 0)
        request = WatchEventsRequest(history=subject.history, after_revision=revision, filter=filter)
        follower = _follow(session, service, request, arrived, seen)
        followers.append(tasks.spawn(follower, f"events of {service}"))
    try:
        while True:
            record = await arrived.get()
            if record.sequence > seen.get(record.history, 0) and _matches(record, filter):
                yield record
    finally:
        for each in followers:
            each.cancel()


def event_item(record: EventRecord) -> Item:
    """The row of an event."""
    service, _, place = record.history.partition("/")
    body = event_body(service, record.data)
    metadata = record.metadata
    cells = (
        record.type,
        summary(_reason_first(body) if record.type in _BY_REASON else body),
        metadata.actor,
        metadata.cause or _asked_because(record.type, body),
        metadata.request_id,
        str(metadata.time_ms),
    )
    name = f"{place}/{record.sequence}"
    document: Document = {
        "apiVersion": API_VERSION,
        "kind": "Event",
        "history": record.history,
        "sequence": record.sequence,
        "revision": record.revision,
        "type": record.type,
        "metadata": to_document(metadata),
        "data": body,
    }
    return Item(name, f"event/{name}", cells, metadata.time_ms, document)


def _reason_first(body: Document) -> Document:
    """The content with its reason first, for rows whose end a narrow table cuts off."""
    return {"reason": body.get("reason", ""), **body}


def _asked_because(type: str, body: Document) -> str:
    """The operator's reason for a change without a causing event; empty if the event does not record it."""
    return str(body.get("reason", "")) if type in _BY_REASON else ""


async def _services(session: Session) -> list[str]:
    """Services with histories that run here, and those that every mesh needs, so that a missing one is noticed."""
    try:
        running = {each.service for each in await session.endpoints()}
    except Unavailable:
        running = set()
    return [service for service in EVENT_SERVICES if service in _NEEDED or service in running]


async def events_of(
    session: Session, service: str, history: str, until_ms: int, latest: int, filter: EventFilter | None
) -> Events:
    """Events of one service, in the order in which it lists them. Raises `Unavailable`, or `Exhausted` for too many."""
    found = Events([], [], {})
    request = ListEventsRequest(
        history=history, page_size=PAGE_SIZE_MAX, until_ms=until_ms, latest=latest, filter=filter
    )
    while True:
        page = await session.read(service, "ListEvents", request, ListEventsResponse)
        found.records.extend(each for each in page.events if _matches(each, filter))
        found.gaps.extend(page.gaps)
        found.revisions.setdefault(service, page.revision)
        request.page_token = page.next_page_token
        if not request.page_token:
            return found
        if len(found.records) >= CLI_EVENTS_MAX:
            remedy = "narrow it down (--for), or ask for fewer events of each history (--max)"
            raise Exhausted(f"there are more than {CLI_EVENTS_MAX} events", remedy=remedy)


def _matches(record: EventRecord, filter: EventFilter | None) -> bool:
    """Whether an event is of the actor and the time that are asked for; older replicas leave nothing out."""
    if filter is None:
        return True
    return filter.actor in ("", record.metadata.actor) and record.metadata.time_ms >= filter.since_ms


async def _follow(
    session: Session,
    service: str,
    request: WatchEventsRequest,
    arrived: "asyncio.Queue[EventRecord]",
    listed: dict[str, int],
) -> None:
    client = session.service(service)
    while True:
        try:
            async for record in client.server_stream("WatchEvents", request, EventRecord, any_replica=True):
                request.after_revision = max(request.after_revision, record.revision)
                await arrived.put(record)
        except Compacted:
            session.terminal.note(f"the {service} keeps no events as old as the last one seen; some are missing here")
            request.after_revision = 0
            for history in [each for each in listed if each.startswith(f"{service}/")]:
                del listed[history]  # a restored store counts on from its backup
        except (Unavailable, NotLeader):  # it comes back, or another does
            await session.ports.host.clock.sleep(CLI_WATCH_SECONDS)
