"""The consumer: a member of a group that handles records of the partitions it leases, on any number of clusters.

This module has what applications call, and connects the parts. What happens to a lease is in `leases`.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractContextManager
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Self, cast

from braid.client.consumer_settings import ConsumerSettings
from braid.client.consuming.background import Background
from braid.client.consuming.cluster_session import ClusterSession
from braid.client.consuming.consumer_context import ConsumerContext
from braid.client.consuming.explainer import Explainer
from braid.client.consuming.explanations import Explained, Lease, view
from braid.client.consuming.lane_control import LaneControl
from braid.client.consuming.leases import LeaseWorks, OpenLeases
from braid.client.consuming.work_division import WorkDivision
from braid.client.delivery.fetch_pauses import FetchPauses
from braid.client.delivery.handler_lanes import HandlerPlace
from braid.client.delivery.memory_bound import MemoryBound
from braid.client.delivery.ready_queue import ReadyQueue
from braid.client.handling.consumer_runners import Runners
from braid.client.handling.cpu_samples import CpuSamples
from braid.client.handling.dead_letters import DeadLetters
from braid.client.handling.retries import Retries
from braid.client.handling.runner import HandlerRunner, Supply
from braid.client.handling.threads import InThreads, open_threads
from braid.client.producing.producer import Producer
from braid.client.records.handled import Tell, ThreadRecord, X
from braid.client.records.record import Record
from braid.client.telemetry.metrics import Levels
from braid.client.telemetry.pathways.consuming import ReceivedPathways
from braid.client.telemetry.pathways.recorder import Recorder
from braid.kernel.errors import Invalid, Unavailable
from braid.kernel.limits.client import (
    CONSUMER_CLOSE_SECONDS,
    FETCH_RECORDS_MAX,
    FIRST_ROUTE_SECONDS,
    PARKED_RETRIES_MAX,
    READY_RECORDS_MAX,
    READY_RECORDS_PER_HANDLER,
)
from braid.kernel.ports import Host, Kafka, Threads

if TYPE_CHECKING:
    from braid.client.records.batch import Batch

Handler = Callable[[Record], object]


class Consumer:
    """One member of a group. Made by `Mesh.consumer`; use it as an asynchronous context."""

    def __init__(
        self,
        host: Host,
        kafka: Kafka,
        open_leases: OpenLeases,
        open_producer: Callable[[str], Producer],
        *,
        zone: str,
        settings: ConsumerSettings,
        cluster_watch: ClusterSession | None = None,
        pathways: Recorder | None = None,
    ) -> None:
        """`open_leases` gets the listener for leases, and the function that fills heartbeats.

        `open_producer` writes dead letters. `cluster_watch` reports silent clusters to the registry; None for no
        reports. `pathways` measures pathways of records; None where they are not followed.
        """
        self._host = host
        self._cluster_watch = cluster_watch
        self._settings = settings
        self._ready = ReadyQueue(settings.lanes)
        ready_records_max = max(READY_RECORDS_MAX, READY_RECORDS_PER_HANDLER * settings.handlers_max)
        self._memory = MemoryBound(settings.max_in_flight_bytes, settings.lanes, ready_records_max)
        self._background = Background(host.tasks, self._ready.fail)
        self._runners = Runners(settings.handlers, CpuSamples(host.clock, host.cpu) if host.cpu else None)
        self._levels = Levels(settings.group)
        stopped = self._levels.stopped
        self._lanes = LaneControl(host, settings, self._ready, self._background, stopped, self._tell_stopped)
        brakes, states = self._lanes.brakes, self._lanes.states
        pauses = FetchPauses(self._memory, states, self._levels.held_back, self._levels.copying)
        self._retries = Retries(host, pauses.parked, settings.retry.budget, brakes, states, self._levels.parked)
        self._dead_letters = DeadLetters(
            host,
            settings.group,
            open_producer,
            beside=self._background.beside,
            held=pauses.copied,
            tracebacks=settings.dead_letter_tracebacks,
        )
        self._pathways = ReceivedPathways(pathways, host, settings.group) if pathways is not None else None
        context = ConsumerContext(
            host, settings, zone, self._background, self._ready, self._memory, self._retries, self._dead_letters,
            brakes, self._pathways,
        )  # fmt: skip
        division = WorkDivision(settings, self._ready, self._memory, self._runners)
        resumed = self._lanes.resume_stopped
        self._works = LeaseWorks(kafka, open_leases, self._runners, context, resumed=resumed, division=division)
        self._explainer = Explainer(self._works, context, states, self._runners)
        self._session = self._works.session
        self._way = ""  # "records" or "batches", once an order decides it

    async def __aenter__(self) -> Self:
        self._levels.parked_bound.set(PARKED_RETRIES_MAX)
        beside = self._background.beside
        beside(self._session.run, "lease-session")
        beside(self._session.guard, "lease-guard")
        beside(self._retries.run, "retries")
        if self._settings.backlog is not None:
            beside(self._works.split_what_is_behind, "backlogs")
        try:
            async with asyncio.timeout(FIRST_ROUTE_SECONDS):
                await self._background.unless_refused(self._session.joined())
        except asyncio.CancelledError:
            await self._stop()
            raise
        except TimeoutError:
            await self._stop()
            raise Unavailable(
                f"group {self._settings.group} could not be joined in {FIRST_ROUTE_SECONDS:g} s",
                remedy="check that an assigner runs at the endpoint: braid doctor",
            ) from None
        if self._background.refusal is not None:
            await self._stop()
            raise self._background.refusal
        if self._cluster_watch is not None:
            self._cluster_watch.add(self._works)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # --- what an application calls

    @property
    def member_id(self) -> str:
        """This member's id in its group."""
        return self._session.member_id

    async def run(self, handler: Handler) -> None:
        """Calls `handler` with each record, up to `concurrency` at once, until the consumer is closed.

        A coroutine function is awaited; an ordinary one is called in a thread of its own, and may settle its record
        there. A handler that returns without settling its record acknowledges it; one that raises sends it the way of
        the retry policy, and after the last attempt to the dlq lane.

        Raises:
            BraidError: the assigner or a cluster refuses this member for good.
            Invalid: `concurrency` asks for more threads than `HANDLER_THREADS_MAX`.
        """
        self._take_as("records")
        ready = self._ready
        await self._handle(lambda place: Supply(place.take_quickly, partial(ready.take, place)), handler, ThreadRecord)

    async def run_batches(self, handler: Callable[["Batch"], object], *, max_records: int = FETCH_RECORDS_MAX) -> None:
        """Runs a handler like `run`, over batches of one partition, up to `concurrency` at once.

        A handler's error is that of all rows it has not settled: they come back one by one, so that the one at fault is
        found and the others go on.

        Args:
            handler: A coroutine function, or an ordinary one, which is called in a thread.
            max_records: Rows of a batch at most.
        """
        from braid.client.records.batch import Batch, ThreadBatch  # pyarrow is loaded by who wants columns

        async def take(place: HandlerPlace) -> Batch | None:
            taken = await self._ready.take_slice(max_records, place)
            return None if taken is None else Batch(taken)

        self._take_as("batches")
        await self._handle(lambda place: Supply(lambda: None, partial(take, place)), handler, ThreadBatch)

    async def _handle(
        self,
        supply: Callable[[HandlerPlace], Supply[X]],
        handler: Callable[[X], object],
        for_thread: Callable[[X, Tell], X],
    ) -> None:
        threads = open_threads(self._host.tasks, handler, self._settings.handlers_max)
        call = handler if threads is None else InThreads(handler, for_thread, threads, self._runners.samples)
        awaited = cast("Callable[[X], Awaitable[object]]", call)
        with self._ready.places(self._settings.handlers_max, self._settings.handlers_by_lane) as places:
            handling = HandlerRunner(
                self._host,
                list(map(supply, places)),
                self._settings,
                awaited,
                self._background.watched,
                in_threads=threads is not None,
                trouble=self._lanes.circuits,
                again=self._retries.again,
                overdue_changed=self._overdue_changed,
                observer=self._works.observer,
                pathways=self._pathways,
                samples=self._runners.samples,
            )
            await self._run(handling, threads)

    async def _run(self, handling: HandlerRunner[X], threads: Threads | None) -> None:
        self._runners.add(handling)
        try:
            await handling.run()
        finally:
            self._runners.remove(handling)
            if not self._runners:
                self._lanes.circuits.close_all()
            if threads is not None:
                threads.close()
        if self._background.refusal is not None:
            raise self._background.refusal

    async def __aiter__(self) -> AsyncIterator[Record]:
        """Records one by one, until the consumer is closed. Each is to be settled: `ack`, `retry`, `reject` …"""
        self._take_as("records")
        ready = self._ready
        ahead = ready.run.records
        while (record := await ready.take()) is not None:
            yield record
            while ahead:  # read each time: the rest of the run may be recalled
                yield ahead.popleft()

    async def batches(self, max_records: int = FETCH_RECORDS_MAX) -> "AsyncIterator[Batch]":
        """Records as columns, of one partition at a time, until the consumer is closed.

        Args:
            max_records: Rows of a batch at most.
        """
        from braid.client.records.batch import Batch  # pyarrow is loaded by who wants columns

        self._take_as("batches")
        elapsed = self._host.clock.elapsed
        while (taken := await self._ready.take_slice(max_records)) is not None:
            taken.work.busy.began(elapsed())
            try:
                yield Batch(taken)
            finally:
                taken.work.busy.ended(elapsed())

    async def take(self, timeout_seconds: float) -> Record | None:
        """The next record, or None when none came in time."""
        self._take_as("records")
        try:
            async with asyncio.timeout(timeout_seconds):
                return await self._ready.take()
        except TimeoutError:
            return None

    async def take_many(self, max_records: int, timeout_seconds: float) -> list[Record]:
        """Takes the records that wait, at most `max_records`; returns none if none came in time."""
        first = await self.take(timeout_seconds)
        taken, take_nowait = [] if first is None else [first], self._ready.take_nowait
        while taken and len(taken) < max_records and (record := take_nowait()) is not None:
            taken.append(record)
        return taken

    def processing(self, item: "Record | Batch") -> AbstractContextManager[None]:
        """Wraps work on a record or batch taken without `run`: it reports the work as `run` reports handlers.

        It makes a span `process {topic}`, linked to the spans that sent the records, and measures
        `messaging.process.duration`. What is sent meanwhile continues the record's pathway. Without OpenTelemetry and
        pathways it does nothing. It settles nothing.
        """
        observer = self._works.observer
        work = contextlib.nullcontext() if observer is None else observer.processing(item)
        return work if self._pathways is None else self._pathways.processing(item, work)

    @property
    def closed(self) -> bool:
        """Whether the consumer takes part in its group no longer."""
        return self._background.closed

    @property
    def in_flight_bytes(self) -> int:
        """Bytes of fetched records that are not done: `max_in_flight_bytes` bounds them, then fetching waits."""
        return self._memory.used

    def leases(self) -> list[Lease]:
        """Returns the leases that this member owns now."""
        self._works.note_acked()
        now_ms = self._host.clock.now_ms()
        return [view(work, now_ms) for work in self._works]

    def lag(self) -> dict[str, float]:
        """Returns, by lease, the age in seconds of the oldest record fetched and not done."""
        return {lease.name: lease.lag_seconds for lease in self.leases()}

    def pause(self, lane: str) -> None:
        """Stops handing out records of a lane; fetched ones wait."""
        self._lanes.pause(lane)

    def resume(self, lane: str) -> None:
        """Hands out records of a lane again, whether it was paused or `stopped`."""
        self._lanes.resume(lane)

    def stopped(self) -> Mapping[str, str]:
        """Returns, by lane, why no more of its records are handed out.

        A lane stops if too many of its records would be dead-lettered, or nearly all fail through no fault of their own
        (`Retry`).
        """
        return self._lanes.states.stopped()

    def explain(self) -> list[Explained]:
        """Returns, by lease, what its records are doing now and what keeps it from doing more."""
        # Batches wait for each other, whatever their keys.
        return self._explainer.explain(by_key=self._settings.ordering == "key" and self._way == "records")

    def _overdue_changed(self) -> None:
        self._levels.overdue.set(self._runners.overdue())

    async def commit(self) -> None:
        """Commits all finished work now. Raises `ClusterUnavailable` when a cluster does not answer."""
        for cluster in list(self._works.clusters.values()):
            await cluster.committer.commit([work for work in cluster.committer.works if work.dirty])

    async def close(self) -> None:
        """Drains, commits, releases every lease and leaves the group. Handlers that do not end in time are cancelled.

        A member of an exclusive group with records that are not settled releases no lease of theirs and does not
        leave: those leases run out. If a handler of `run` cannot be cancelled, the process ends.
        """
        if self.closed:
            return
        self._background.closed = True
        self._ready.close()
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CONSUMER_CLOSE_SECONDS):
                    await self._session.leaving()
                    await self._works.hand_back_all()
                    await self._session.leave("closed")
        finally:
            await self._stop()
            self._runners.cancel()
        if self._settings.ownership == "exclusive" and self._runners.running:
            self._host.exit("a handler of an exclusive group cannot be cancelled, and its lease is about to run out")

    def _tell_stopped(self, lanes: dict[str, str]) -> None:
        if not self.closed:
            self._background.beside(lambda: self._session.stopped(lanes), "stopped-lanes")

    def _take_as(self, way: str) -> None:
        """An order is kept among records or among batches. Raises `Invalid` for both at one consumer."""
        ordering = self._settings.ordering
        if ordering != "none" and self._way not in ("", way):
            already = f"it hands out {self._way} already"
            raise Invalid(f"{ordering!r} is kept for one of records and batches; {already}", field="ordering")
        self._way = way

    async def _stop(self) -> None:
        self._background.closed = True
        self._ready.close()
        if self._cluster_watch is not None:
            self._cluster_watch.remove(self._works)
        self._works.end_all()
        await self._background.stop()
        self._levels.clear()  # no task is left that changes them
        await self._dead_letters.close()
        await self._works.close()
