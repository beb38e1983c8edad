"""The producer: sends records to a stream wherever it is, and reports only what a broker acknowledged.

It keeps its own copy of a record until the record's fate is known, so that a change of route can send it again. The
`dispatcher` moves records between channels; this module has what an application calls.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Final, Self

from braid.client.producing.dispatcher import Dispatcher
from braid.client.producing.outbox import Outbox, Pending, held_bytes, record_bytes
from braid.client.producing.outcomes import Outcomes, all_settled, outcome_of
from braid.client.producing.route_session import RouteSource
from braid.client.producing.routes import RouteTable
from braid.client.producing.settings import ProducerSettings
from braid.client.records.braid_headers import ID_HEADER, INGESTED_HEADER
from braid.client.records.outgoing import LANE_HEADER, Copy, Headers, Outgoing, Receipt
from braid.client.tasks import Run, watched
from braid.client.telemetry.pathways.producing import SentPathways
from braid.client.telemetry.pathways.recorder import Recorder
from braid.client.telemetry.spans import send_span, sent, trace_headers
from braid.kernel.errors import BraidError, Invalid, RecordTooLarge, Unavailable
from braid.kernel.ids import DLQ_LANE
from braid.kernel.limits.client import (
    DEAD_LETTER_HEADERS_BYTES_MAX,
    FIRST_ROUTE_SECONDS,
    PRODUCER_CLOSE_SECONDS,
    PRODUCER_LATE_SECONDS,
    PRODUCER_SWEEP_SECONDS,
    PRODUCER_TELL_SECONDS,
)
from braid.kernel.pathways.header import PATHWAY_HEADER
from braid.kernel.ports import Host, Kafka, Task
from braid.telemetry.tracing import tracer

_NOT_COPIED: Final = (LANE_HEADER, PATHWAY_HEADER)  # the time in which a record lay as a dead letter is no latency
OpenRoutes = Callable[[str, Callable[[RouteTable], None], Callable[[BraidError], None]], RouteSource]


class Producer:
    """Sends records to one stream. Made by `Mesh.producer`; use it as an asynchronous context."""

    def __init__(
        self,
        host: Host,
        kafka: Kafka,
        open_routes: OpenRoutes,
        *,
        stream: str,
        zone: str,
        settings: ProducerSettings,
        pathways: Recorder | None = None,
    ) -> None:
        """`open_routes` gets this producer's id, its listener for routes, and what to call when it is refused.

        `pathways` measures pathways of records; None where they are not followed.
        """
        self.stream = stream
        self.id = host.ids.ulid()
        self._host = host
        self._settings = settings
        self._lane_rule = settings.lane_rule
        self._outbox = Outbox(settings.max_buffer_bytes)
        self._outcomes = Outcomes(host.clock, self._outbox, stream, settings.delivery_timeout_seconds)
        self._sequence = 0
        self._ingested_ms, self._ingested = 0, (INGESTED_HEADER, b"0")  # the header of just now, for all of that time
        self._ready = asyncio.Event()
        self._refusal: BraidError | None = None
        self._watch = open_routes(self.id, self._on_route, self._on_refused)
        self._watch.asks(lambda cluster: self._moves.reach(cluster, host.clock.elapsed()))
        self._moves = Dispatcher(
            host,
            kafka,
            self._outbox,
            settings,
            zone=zone,
            settled=self._outcomes.settled,
            left=self._watch.left,
            resumed=self._watch.resumed,
            acknowledge=self._watch.acknowledge,
        )
        self._tasks: list[Task] = []
        self._tracer = tracer()
        self._pathways = SentPathways(pathways, stream, self.id) if pathways is not None else None
        self._closed = False

    async def __aenter__(self) -> Self:
        self._tasks = [
            self._spawn(self._watch.run, f"routes-{self.stream}"),
            self._spawn(self._moves.run, f"moves-{self.stream}"),
            self._spawn(self._sweep, f"sweep-{self.stream}"),
        ]
        try:
            async with asyncio.timeout(FIRST_ROUTE_SECONDS):
                await self._ready.wait()
        except TimeoutError:
            await self._end()
            raise Unavailable(
                f"no route for stream {self.stream} came in {FIRST_ROUTE_SECONDS:g} s",
                remedy="check that a registry runs at the endpoint: braid doctor",
            ) from None
        except asyncio.CancelledError:
            await self._end()
            raise
        if self._refusal is not None:
            await self._end()
            raise self._refusal
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def buffered_bytes(self) -> int:
        """Memory that the copies of unacknowledged records hold; `max_buffer_bytes` bounds it."""
        return self._outbox.bytes

    @property
    def refused(self) -> bool:
        """Whether it will never send again; every call then raises the reason."""
        return self._refusal is not None

    @property
    def max_record_bytes(self) -> int:
        """The stream's bound on a record: key, value and headers."""
        return self._moves.route.max_record_bytes

    async def send(
        self,
        value: bytes | None,
        *,
        key: bytes | None = None,
        lane: str | None = None,
        headers: Mapping[str, bytes] | None = None,
        timestamp: int | None = None,
        id: str | None = None,
    ) -> Receipt:
        """Sends one record and waits for the broker's acknowledgement (`acks=all`).

        Args:
            value: The record's value; None for a tombstone.
            key: Records of one key stay in one partition of a channel, in order.
            lane: None for what the producer's `lane_rule` says, else `live`, or the only lane the stream has.
            headers: Further headers; names that begin with `braid-` are Braid's own.
            timestamp: The record's own time, milliseconds since the epoch; None for now.
            id: Keeps the identity of a record that is delivered again; None for a new one.

        Returns:
            Where the record lies.

        Raises:
            NotFound: the stream has no such lane, or is gone.
            RecordTooLarge: it exceeds the stream's `max_record_bytes`.
            ClusterAccessDenied: the stream's cluster refuses this client: its password, certificate or permissions.
                The record was not written, unless it was on its way when that began.
            Unavailable: the producer was closed while the record waited for room; it was not sent.
            DeliveryUnknown: no acknowledgement came in time; the record may have arrived, and may still arrive.
        """
        outgoing = Outgoing(value, key, lane, headers, timestamp)
        if self._tracer is None:
            return await self._send(outgoing, _listed(headers), id)
        with send_span(self._tracer, self.stream) as span:
            receipt = await self._send(outgoing, _listed(headers), id)
            sent(span, receipt, self._moves.cluster_id(receipt.channel))
            return receipt

    async def send_dead_letter(
        self, value: bytes | None, key: bytes | None, headers: Headers, timestamp_ms: int
    ) -> Receipt:
        """Sends a copy to the dlq lane; its added headers may exceed the stream's `max_record_bytes`."""
        outgoing = Outgoing(value, key, DLQ_LANE, None, timestamp_ms)
        return await self._send(outgoing, list(headers), None, headroom_bytes=DEAD_LETTER_HEADERS_BYTES_MAX)

    async def send_many(self, records: Iterable[Outgoing]) -> list[Receipt]:
        """Sends records in order, waits until all have settled, then raises the first failure there was.

        Where traces are set up, all are sent under one span.
        """
        if self._tracer is None:
            return await self._send_many(records)
        with send_span(self._tracer, self.stream) as span:
            receipts = await self._send_many(records)
            if receipts:
                sent(span, receipts[0], self._moves.cluster_id(receipts[0].channel), len(receipts))
            return receipts

    async def _send_many(self, records: Iterable[Outgoing]) -> list[Receipt]:
        futures: list[asyncio.Future[Receipt]] = []
        refusal: BaseException | None = None
        for outgoing in records:
            try:
                record = await self._queued(outgoing, _listed(outgoing.headers), None)
            except BraidError as error:
                refusal = error
                break
            futures.append(record.future)
        await all_settled(futures)
        receipts = [future.result() for future in futures]  # raises the first failure there was
        if refusal is not None:
            raise refusal
        return receipts

    async def send_copies(self, copies: Sequence[Copy]) -> list[Receipt | BraidError]:
        """Sends records that were in a stream before, in order, under the identity and ingestion time they had.

        Braid's headers that a copy brings stay as they are, and may pass the stream's `max_record_bytes`. The time of
        the record is now: an old one would let the broker delete it by its age, and forget too early what it has seen.

        Returns:
            For each copy where it lies, or why it is not known to lie anywhere.
        """
        futures: list[asyncio.Future[Receipt] | BraidError] = []
        for copy in copies:
            identity = next(
                (value.decode("ascii", "replace") for name, value in copy.headers if name == ID_HEADER), None
            )
            outgoing = Outgoing(copy.value, copy.key, copy.lane)
            headers = [header for header in copy.headers if header[0] not in _NOT_COPIED]
            try:
                record = await self._queued(outgoing, headers, identity, headroom_bytes=DEAD_LETTER_HEADERS_BYTES_MAX)
                futures.append(record.future)
            except BraidError as error:
                futures.append(error)
        waiting = [each for each in futures if not isinstance(each, BraidError)]
        if waiting:
            await asyncio.wait(waiting)
        return [each if isinstance(each, BraidError) else outcome_of(each) for each in futures]

    async def flush(self) -> None:
        """Waits until the fate of every record sent so far is known."""
        futures = [record.future for record in self._outbox]
        if futures:
            await asyncio.wait(futures)

    async def close(self) -> None:
        """Waits for acknowledgements for a while, then fails the rest with `DeliveryUnknown` and disconnects.

        The registry is told how far the producer's receipts go, if it can be reached within a second: what a cluster
        loses later is known by them.
        """
        if self._closed:
            return
        self._closed = True
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PRODUCER_CLOSE_SECONDS):
                    while not all(record.future.done() for record in self._outbox):
                        await self.flush()  # and again: whoever waited for room has it now
        finally:
            await self._end()

    # --- the way of a record

    async def _send(
        self, outgoing: Outgoing, headers: list[tuple[str, bytes]], id: str | None, *, headroom_bytes: int = 0
    ) -> Receipt:
        record = await self._queued(outgoing, headers, id, headroom_bytes=headroom_bytes)
        return await record.future

    async def _queued(
        self, outgoing: Outgoing, headers: list[tuple[str, bytes]], id: str | None, *, headroom_bytes: int = 0
    ) -> Pending:
        """Copies a record, waiting while the buffer is full, and hands it to its channel."""
        self._check_open()
        route = self._moves.route
        now_ms = self._host.clock.now_ms()
        named = outgoing.lane
        if named is None and self._lane_rule is not None:
            named = self._lane_rule(outgoing, now_ms)
        lane = self._checked(route.lane(named))
        self._sequence += 1
        sequence = self._sequence
        identity = id or f"{self.id}:{sequence}"
        self._complete(headers, identity, lane, now_ms)
        size = record_bytes(outgoing.key, outgoing.value, headers)
        if size > route.max_record_bytes + headroom_bytes:
            raise RecordTooLarge(
                f"the record has {size} bytes, stream {self.stream} takes {route.max_record_bytes}",
                field="value",
                remedy="raise the stream's max_record_bytes, or split the record",
            )
        if self._pathways is not None and self._pathways.stamp(
            headers, sequence, now_ms, route.max_record_bytes - size
        ):
            size = record_bytes(outgoing.key, outgoing.value, headers)
        stamp_ms = outgoing.timestamp if outgoing.timestamp is not None else now_ms
        held = held_bytes(size, headers)
        if not self._outbox.try_reserve(held):
            await self._outbox.reserve(held)
        record = Pending(
            sequence, lane, outgoing.key, outgoing.value, headers, stamp_ms, size,
            id=identity, deadline=self._host.clock.elapsed() + self._settings.delivery_timeout_seconds, held=held,
        )  # fmt: skip
        self._outbox.add(record)
        if not self._moves.offer(record):
            await self._outcomes.submit(record, self._moves.submit)
        return record

    def _checked(self, lane: str) -> str:
        """Returns a lane that the producer may write to.

        Raises `Invalid` for another, whose channels do not wait for it.
        """
        lanes = self._settings.lanes
        if lanes and lane not in lanes:
            raise Invalid(f"this producer writes to {', '.join(lanes)} only, not to {lane}", field="lane")
        return lane

    def _check_open(self) -> None:
        if self._refusal is not None:
            raise self._refusal
        if self._closed:
            raise Invalid("the producer is closed", remedy="send within its context")

    def _complete(self, headers: list[tuple[str, bytes]], identity: str, lane: str, now_ms: int) -> None:
        """Adds Braid's own headers and the trace's, unless they are given already."""
        if now_ms != self._ingested_ms:
            self._ingested_ms, self._ingested = now_ms, (INGESTED_HEADER, b"%d" % now_ms)
        own = [(ID_HEADER, identity.encode()), self._ingested, (LANE_HEADER, lane.encode())]
        if self._tracer is not None:
            own += trace_headers()
        if headers:
            given = {name for name, _ in headers}
            own = [header for header in own if header[0] not in given]
        headers += own

    # --- routes and time

    def _spawn(self, run: Run, name: str) -> Task:
        """Runs a task that the producer cannot do without."""
        return watched(self._host.tasks, run, name, self._died)

    def _died(self, error: BraidError) -> None:
        """Makes every later send fail with the error, and releases callers that wait already."""
        self._on_refused(error)
        self._outbox.close(error)
        self._outcomes.give_up_all(str(error))

    def _on_route(self, route: RouteTable) -> None:
        self._moves.follow(route)
        if route.lanes:  # a stream that was just created has none yet
            self._ready.set()

    def _on_refused(self, error: BraidError) -> None:
        self._refusal = error
        self._ready.set()

    async def _sweep(self) -> None:
        while True:
            await self._outbox.filled()
            before = self._host.clock.elapsed()
            await self._host.clock.sleep(PRODUCER_SWEEP_SECONDS)
            now = self._host.clock.elapsed()
            self._outcomes.give_up_overdue(now)
            self._moves.look_at_leaders()
            self._moves.look_at_refusals(now)
            if now - before > PRODUCER_SWEEP_SECONDS + PRODUCER_LATE_SECONDS:
                self._moves.forgive(now)
            for cluster, channel, count, seconds in self._moves.silent(now):
                self._watch.report(cluster, channel, count, f"no acknowledgement for {seconds:.1f} s")

    async def _end(self) -> None:
        self._closed = True
        self._outbox.close(Unavailable("the producer was closed while the record waited for room; it was not sent"))
        watch, others = self._tasks[:1], self._tasks[1:]
        await _ended(others)
        await self._moves.close()
        if self._refusal is None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PRODUCER_TELL_SECONDS):
                    await self._watch.told()
        await _ended(watch)
        self._outcomes.give_up_all("the producer was closed before its acknowledgement came")


async def _ended(tasks: Sequence[Task]) -> None:
    for task in tasks:
        task.cancel()
    for task in tasks:
        await task.ended()


def _listed(headers: Mapping[str, bytes] | None) -> list[tuple[str, bytes]]:
    return list(headers.items()) if headers else []
