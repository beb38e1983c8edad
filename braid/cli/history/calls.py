"""Records of calls: who asked which replica for what, and how it ended; listed, followed, and as rows."""

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Final, NamedTuple

from braid.api.mesh.v1.event_pb2 import EventFilter, EventRecord
from braid.cli.core.documents import Document
from braid.cli.core.output import API_VERSION, Item
from braid.cli.core.session import Session
from braid.cli.history.feed import Events, Subject, events_of, follow_events
from braid.kernel.audit.calls import AUDIT, AuditRecord, CallRecorded, Outcome
from braid.kernel.audit.fields import fields_of
from braid.kernel.errors import CorruptHistory, Unavailable
from braid.rpc.audit_records import parse, read_record

_SERVICES: Final = ("registry", "assigner", "lagmon", "dlq")  # each knows the records of all
_COUNTS: Final = f"{AUDIT}/counts/"


class Wanted(NamedTuple):
    """Which records; empty fields match everything.

    Attributes:
        subject: Only calls about this stream, cluster or group.
        filter: What replicas leave out.
    """

    subject: Subject
    filter: EventFilter


async def list_calls(session: Session, wanted: Wanted, until_ms: int = 0, latest: int = 0) -> Events:
    """Records of all replicas, in order of time; of a count that was written again only the last.

    Raises:
        Unavailable: no service answers.
    """
    failure: Unavailable | None = None
    for service in _SERVICES:
        try:
            found = await events_of(session, service, AUDIT, until_ms, latest, wanted.filter)
        except Unavailable as error:
            failure = error
            continue
        return Events(_last_of_each(filter_calls(found.records, wanted)), [], found.revisions)
    assert failure is not None
    raise failure


async def follow_calls(session: Session, wanted: Wanted, after: Events) -> AsyncIterator[EventRecord]:
    """Records as they are written, after those listed. Never ends by itself."""
    service = next(iter(after.revisions))
    async for record in follow_events(session, Subject(service, AUDIT), after, wanted.filter):
        for each in filter_calls([record], wanted):
            yield each


def call_item(record: EventRecord) -> Item:
    """A record's row, in the columns of events."""
    _, _, place = record.history.partition("/")
    found, (service, _, instance) = _record(record), place.partition("/")[2].partition(".")
    document: Document = {
        "apiVersion": API_VERSION,
        "kind": "Call",
        "id": f"{record.history}/{record.sequence}",
        **(fields_of(found, service, instance) if found is not None else {}),
    }
    metadata = record.metadata
    called = found.call if isinstance(found, CallRecorded) else None
    cells = (
        (called.rpc or "many") if called else "CallsLost",
        _what(found),
        metadata.actor if called else instance,
        called.command if called else "",
        metadata.request_id,
        str(metadata.time_ms),
    )
    name = f"{place}/{record.sequence}"
    return Item(name, f"call/{name}", cells, metadata.time_ms, document)


def is_call(record: EventRecord) -> bool:
    """Whether an event is a record of calls."""
    return record.history.startswith(f"{AUDIT}/")


def filter_calls(records: Iterable[EventRecord], wanted: Wanted) -> list[EventRecord]:
    """Returns the records that are wanted; replicas of older releases leave nothing out."""
    return [record for record in records if _matches(record, wanted)]


def _matches(record: EventRecord, wanted: Wanted) -> bool:
    filter, found = wanted.filter, _record(record)
    call = found.call if isinstance(found, CallRecorded) else None
    if filter.actor not in ("", record.metadata.actor) or record.metadata.time_ms < filter.since_ms:
        return False
    if call is None:
        return not (filter.rpc or filter.refused or wanted.subject.history)
    about = wanted.subject.history in ("", *call.resource.split(","))
    return about and filter.rpc in ("", call.rpc) and (not filter.refused or call.outcome is Outcome.REFUSED)


def _last_of_each(records: Sequence[EventRecord]) -> list[EventRecord]:
    kept: dict[object, EventRecord] = {}
    for record in records:
        found = _record(record) if record.history.startswith(_COUNTS) else None
        key = (record.history, found.key if isinstance(found, CallRecorded) else record.sequence)
        kept[key] = record
    return sorted(kept.values(), key=lambda each: (each.metadata.time_ms, each.history, each.sequence))


def _record(record: EventRecord) -> AuditRecord | None:
    """The call that a record states; None for one of a later release."""
    try:
        return read_record(parse(record.data))
    except CorruptHistory:
        return None


def _what(found: AuditRecord | None) -> str:
    if found is None:
        return ""
    if not isinstance(found, CallRecorded):
        return f"{found.count} calls are not recorded"
    call = found.call
    outcome = call.outcome.value + (f" ({call.reason})" if call.reason else "")
    times = f", {found.count} times" if found.count > 1 else ""
    proved = "" if call.authenticated else ", not proved"
    where = f" from {call.address}" if call.address else ""
    return f"{outcome} {call.resource or 'many things'}{where}{times}{proved}"
