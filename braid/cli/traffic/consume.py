"""The work of `consume`: prints records as they arrive, with a group or without."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from braid.cli.core.documents import Document
from braid.cli.core.lists import all_clusters, all_streams
from braid.cli.core.output import Format, render_line
from braid.cli.core.record_documents import RecordPlace, record_document
from braid.cli.core.session import Session, missing_among
from braid.client.reading.record_filter import Candidate, json_of, matches
from braid.client.reading.stream_reader import Reader, SeenRecord
from braid.kernel.errors import NotFound
from braid.kernel.filters.grammar import EVERYTHING, Filter
from braid.kernel.ports import KafkaRecord

_LOOK_SECONDS: Final = 1.0  # between two looks whether the wait is over


class Wanted(NamedTuple):
    """The records that a command requests. `partition` None for all; `most` and `timeout_seconds` 0 for no limit.

    `cluster` empty for all; `headers` whether they are printed before each value.
    """

    stream: str
    group: str
    start: str | datetime
    lanes: tuple[str, ...]
    partition: int | None
    most: int
    timeout_seconds: float
    cluster: str = ""
    filter: Filter = EVERYTHING
    headers: bool = False


class Shown(NamedTuple):
    """A record in its printed form; `done` is called once it was printed."""

    record: KafkaRecord
    document: Document
    done: Callable[[], None]


Take = Callable[[float], Awaitable[Shown | None]]


async def consume_records(session: Session, wanted: Wanted, format: Format) -> int:
    """Prints records until there are enough, none arrived for long enough, or the user ends it.

    Raises:
        NotFound: the stream, lane or partition does not exist.
    """
    if not wanted.most and not wanted.timeout_seconds:
        session.interrupt_code = 0  # it ends no other way
    source = _by_group if wanted.group else _by_reader
    count = 0
    try:
        async with source(session, wanted) as take:
            while not wanted.most or count < wanted.most:
                shown = await _next(session, wanted, take, count)
                if shown is None:
                    break
                _print(session, format, shown, wanted.headers)
                shown.done()
                count += 1
    finally:
        if session.terminal.lively:
            session.terminal.note(f"{count} records")
    return 0


async def _next(session: Session, wanted: Wanted, take: Take, count: int) -> Shown | None:
    """The next record; None if it is time to end."""
    waited = 0.0
    while not wanted.timeout_seconds or waited < wanted.timeout_seconds:
        look = min(_LOOK_SECONDS, wanted.timeout_seconds - waited) if wanted.timeout_seconds else _LOOK_SECONDS
        shown = await take(look)
        if shown is not None:
            return shown
        if not waited and not count and session.terminal.lively:
            session.terminal.note("waiting for records; Ctrl-C ends it")
        waited += look
    return None


def _print(session: Session, format: Format, shown: Shown, headers: bool) -> None:
    record = shown.record
    if format is Format.JSON:
        session.terminal.print(render_line(shown.document))
    elif headers:
        session.terminal.print_bytes(header_line(record.headers) + b"\t" + (record.value or b""))
    else:
        session.terminal.print_bytes(record.value or b"")


def header_line(headers: Sequence[tuple[str, bytes | None]]) -> bytes:
    """Headers as Kafka's console consumer prints them: `name:value`, with commas between; `NO_HEADERS` for none."""
    return b",".join(name.encode() + b":" + (value or b"") for name, value in headers) or b"NO_HEADERS"


@contextlib.asynccontextmanager
async def _by_group(session: Session, wanted: Wanted) -> AsyncIterator[Take]:
    """Consumes as a member of the group: printed records are acknowledged, and committed at the end."""
    lanes = dict.fromkeys(wanted.lanes, 1) or None
    consumer = session.mesh.consumer([wanted.stream], group=wanted.group, start=wanted.start, lanes=lanes)

    async def take(timeout_seconds: float) -> Shown | None:
        record = await consumer.take(timeout_seconds)
        if record is None:
            return None
        place = RecordPlace(record.stream, record.lane, record.cluster, record.topic, record.partition)
        return Shown(record.raw, record_document(place, record.raw), record.ack)

    async with contextlib.AsyncExitStack() as stack:
        async with _suggesting(session, wanted), session.terminal.waiting(f"joining group {wanted.group}"):
            await stack.enter_async_context(consumer)
        yield take


@contextlib.asynccontextmanager
async def _by_reader(session: Session, wanted: Wanted) -> AsyncIterator[Take]:
    """Consumes without a group: no progress is kept."""
    reader = Reader(
        session.ports.host,
        session.ports.kafka,
        session.service("registry"),
        stream=wanted.stream,
        lanes=wanted.lanes,
        start=wanted.start,
        partition=wanted.partition,
        cluster=wanted.cluster,
    )
    told: set[str] = set()

    async def take(timeout_seconds: float) -> Shown | None:
        seen = await _matching(session, reader, wanted.filter, timeout_seconds)
        if seen is None:
            _tell_unreachable(session, reader, told)
            return None
        place = RecordPlace(seen.stream, seen.lane, seen.cluster, seen.topic, seen.partition)
        return Shown(seen.record, record_document(place, seen.record), lambda: None)

    async with contextlib.AsyncExitStack() as stack:
        async with _suggesting(session, wanted):
            await stack.enter_async_context(reader)
        yield take


async def _matching(session: Session, reader: Reader, filter: Filter, timeout_seconds: float) -> SeenRecord | None:
    """The next record that the filter wants; None if none came in time, however many others did."""
    clock = session.ports.host.clock
    until = clock.elapsed() + timeout_seconds
    while (left := until - clock.elapsed()) > 0:
        seen = await reader.take(left)
        if seen is None or _wanted(filter, seen):
            return seen
        await asyncio.sleep(0)  # records that are there are taken without a wait: Ctrl-C and fetching need their turn
    return None


def _wanted(filter: Filter, seen: SeenRecord) -> bool:
    value = seen.record.value
    candidate = Candidate(seen.lane, seen.cluster, seen.partition, seen.record, lambda: json_of(value))
    return matches(filter, candidate)


def _tell_unreachable(session: Session, reader: Reader, told: set[str]) -> None:
    for cluster in reader.unreachable:
        if cluster not in told:
            told.add(cluster)
            session.terminal.note(f"cluster {cluster} cannot be reached; what lies there comes when it is back")


@contextlib.asynccontextmanager
async def _suggesting(session: Session, wanted: Wanted) -> AsyncIterator[None]:
    try:
        yield
    except NotFound as error:
        if error.field.startswith(("lane", "partition", "spec.lanes")):
            raise
        if error.field == "cluster":
            raise await missing_among(error, wanted.cluster, all_clusters(session)) from error
        raise await missing_among(error, wanted.stream, all_streams(session)) from error
