"""The consumer: a member of a group that works on the partitions it is leased, over as many clusters as they lie on.

Here the parts meet: leases come and go, each becomes work that is restored, fetched, handed out, committed and given
back. The parts themselves know nothing of one another.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from braid.api.assigner.v1 import join_pb2
from braid.client.brake import Brakes
from braid.client.cluster_work import ClusterWork
from braid.client.dead_letters import DeadLetters
from braid.client.handling import Handling
from braid.client.lease_session import Held, LeaseKeeper, LeaseListener
from braid.client.lease_view import Lease, view
from braid.client.memory import MemoryBound
from braid.client.order import Order
from braid.client.partition_work import PartitionWork, Stage
from braid.client.producer import Producer
from braid.client.ready import Ready
from braid.client.record import Record
from braid.client.restore import restore
from braid.client.retries import Retries
from braid.client.settings import ConsumerSettings
from braid.client.watched import Run, watched
from braid.kernel import limits
from braid.kernel.errors import BraidError, ClusterUnavailable, Invalid, NotFound, Unavailable
from braid.kernel.ids import LeaseId
from braid.kernel.ports import Generation, Host, Kafka, Task

if TYPE_CHECKING:
    from braid.client.columns import Batch

_log = logging.getLogger("braid.consumer")
Handler = Callable[[Record], Awaitable[object]]
OpenLeases = Callable[[LeaseListener, Callable[[], join_pb2.Heartbeat]], LeaseKeeper]


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
    ) -> None:
        """`open_leases` gets who hears of leases, and what fills heartbeats; `open_producer` writes dead letters."""
        self._host = host
        self._kafka = kafka
        self._settings = settings
        self._zone = zone
        self._ready = Ready(settings.lanes)
        ready_records_max = max(limits.READY_RECORDS_MAX, limits.READY_RECORDS_PER_HANDLER * settings.concurrency)
        self._memory = MemoryBound(settings.max_in_flight_bytes, settings.lanes, ready_records_max)
        self._retries = Retries(host, self._retries_full)
        self._dead_letters = DeadLetters(host, settings.group, open_producer)
        self._brakes = Brakes(settings.retry.dead_letters, self._stopped)
        self._session = open_leases(_Listening(self), self._loads)
        self._exclusive = settings.ownership == "exclusive"
        self._works: dict[LeaseId, PartitionWork] = {}
        self._left_over: list[PartitionWork] = []  # exclusive: ended, and not all that was handed out is settled
        self._clusters: dict[str, ClusterWork] = {}
        self._tasks: list[Task] = []
        self._background: dict[int, Task] = {}
        self._background_count = 0
        self._handlings: list[Handling] = []
        self._refusal: BraidError | None = None
        self._was_refused = asyncio.Event()
        self._closed = False
        self._way = ""  # how records are taken, where an order is kept

    async def __aenter__(self) -> Self:
        self._tasks = [
            self._watched(self._session.run, "lease-session"),
            self._watched(self._session.guard, "lease-guard"),
            self._watched(self._retries.run, "retries"),
        ]
        try:
            async with asyncio.timeout(limits.FIRST_ROUTE_SECONDS):
                await self._joined_or_refused()
        except asyncio.CancelledError:
            await self._stop()
            raise
        except TimeoutError:
            await self._stop()
            raise Unavailable(
                f"group {self._settings.group} could not be joined in {limits.FIRST_ROUTE_SECONDS:g} s",
                remedy="check that an assigner runs at the endpoint: braid doctor",
            ) from None
        if self._refusal is not None:
            await self._stop()
            raise self._refusal
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

        A handler that returns without settling its record acknowledges it; one that raises sends it the way of the
        retry policy, and after the last attempt to the dlq lane.

        Raises:
            BraidError: the assigner or a cluster refuses this member for good.
        """
        self._take_as("records")
        handling = Handling(self._host, self._ready, self._settings, handler, self._watched)
        self._handlings.append(handling)
        try:
            await handling.run()
        finally:
            self._handlings.remove(handling)
        if self._refusal is not None:
            raise self._refusal

    async def __aiter__(self) -> AsyncIterator[Record]:
        """Records one by one, until the consumer is closed. Each is to be settled: `ack`, `retry`, `reject` …"""
        self._take_as("records")
        ready = self._ready
        run = ready.run
        while (record := await ready.take()) is not None:
            yield record
            while run:  # looked at each time: what is left of it may be recalled
                yield run.popleft()

    async def batches(self, max_records: int = limits.FETCH_RECORDS_MAX) -> "AsyncIterator[Batch]":
        """Records as columns, of one partition at a time, until the consumer is closed.

        Args:
            max_records: Rows of a batch at most.
        """
        from braid.client.columns import Batch  # pyarrow is loaded by who wants columns

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
        """As many records as wait, at most `max_records`; none when none came in time."""
        first = await self.take(timeout_seconds)
        taken, take_nowait = [] if first is None else [first], self._ready.take_nowait
        while taken and len(taken) < max_records and (record := take_nowait()) is not None:
            taken.append(record)
        return taken

    @property
    def closed(self) -> bool:
        """Whether it takes part no longer."""
        return self._closed

    def leases(self) -> list[Lease]:
        """What this member owns now."""
        now_ms = self._host.clock.now_ms()
        return [view(work, now_ms) for work in self._works.values()]

    def lag(self) -> dict[str, float]:
        """By lease, the age in seconds of the oldest record fetched and not done."""
        return {lease.name: lease.lag_seconds for lease in self.leases()}

    def pause(self, lane: str) -> None:
        """Hands out no more records of a lane; what is fetched waits."""
        self._ready.pause(lane)

    def resume(self, lane: str) -> None:
        """Hands records of a lane out again; what `stopped` told of it is over."""
        self._brakes.release(lane)
        self._ready.resume(lane)

    def stopped(self) -> Mapping[str, str]:
        """By lane, why no more of its records are handed out: too many of them would be dead-lettered (`Retry`)."""
        return self._brakes.reasons

    async def commit(self) -> None:
        """Commits everything done so far, now. Raises `ClusterUnavailable` when a cluster does not answer."""
        for cluster in list(self._clusters.values()):
            await cluster.committer.commit([work for work in cluster.committer.works.values() if work.dirty])

    async def close(self) -> None:
        """Drains, commits, releases every lease and leaves the group.

        A member of an exclusive group with records that are not settled releases no lease of theirs and does not
        leave: those leases run out. If a handler of `run` cannot be cancelled, the process ends.
        """
        if self._closed:
            return
        self._closed = True
        self._ready.close()
        working = list(self._works.values())
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(limits.CONSUMER_CLOSE_SECONDS):
                    await self._session.leaving()
                    await asyncio.gather(*(self._hand_back(work, limits.CONSUMER_CLOSE_SECONDS) for work in working))
                    await self._session.leave("closed")
        finally:
            await self._stop()
        if self._exclusive and any(handling.running for handling in self._handlings):
            self._host.exit("a handler of an exclusive group cannot be cancelled, and its lease is about to run out")

    # --- leases come and go (called by the session)

    def _granted(self, leases: Sequence[Held]) -> None:
        """Begins work on each. What was granted before the assigner heard of our leaving goes back with the leave."""
        if self._closed:
            return
        try:
            for held in leases:
                self._begin(held)
        except BraidError as error:  # for example a security profile this process does not have
            self._refuse(error)
        _tell(self._settings.on_assigned, leases)

    def _lent(self, cluster: str, generation: Generation) -> None:
        """What commits on a cluster carry from now on."""
        if cluster in self._clusters:
            self._clusters[cluster].committer.lend(generation)

    def _revoked(self, lease: Held, deadline_seconds: float) -> None:
        """Drains, commits and gives back."""
        work = self._works.get(lease.id)
        if work is not None and work.lease.epoch == lease.epoch:
            self._beside(lambda: self._hand_back(work, deadline_seconds), f"hand-back-{lease.id}")
        _tell(self._settings.on_revoked, [lease])

    def _lost(self, leases: Sequence[Held]) -> None:
        """Drops the work; whatever is handled still is the next holder's too."""
        for held in leases:
            work = self._works.get(held.id)
            if work is not None and work.lease.epoch == held.epoch:
                self._end(work)
            self._cancel_handlers(held.id)
        _tell(self._settings.on_revoked, leases)

    def _cancel_handlers(self, lease: LeaseId) -> None:
        """For exclusive groups: no handler outlives its lease."""
        if self._exclusive:
            for handling in self._handlings:
                handling.cancel(lease)

    def _worked_on(self, lease: LeaseId) -> bool:
        """Whether records of a lease are out, under this epoch or an earlier one."""
        self._left_over = [work for work in self._left_over if work.handled]
        current = self._works.get(lease)
        return any(work.lease.id == lease for work in self._left_over) or (current is not None and current.handled > 0)

    def _busy(self) -> bool:
        """See `LeaseListener.busy`."""
        return any(work.lease.id not in self._works for work in self._left_over if work.handled)

    def _stopped(self, lane: str, reason: str) -> None:
        """More of a lane's records would be dead-lettered than any record is to blame for."""
        _log.error(
            "lane %s of group %s is stopped: %s. Mend the handler, then resume", lane, self._settings.group, reason
        )
        self._ready.pause(lane)

    def _take_as(self, way: str) -> None:
        """An order is kept among records or among batches. Raises `Invalid` for both at one consumer."""
        ordering = self._settings.ordering
        if ordering != "none" and self._way not in ("", way):
            already = f"it hands out {self._way} already"
            raise Invalid(f"{ordering!r} is kept for one of records and batches; {already}", field="ordering")
        self._way = way

    def _refuse(self, error: BraidError) -> None:
        """Nothing more can be done here."""
        self._refusal = error
        self._was_refused.set()
        self._ready.fail(error)

    # --- work on one lease

    def _begin(self, held: Held) -> None:
        earlier = self._works.get(held.id)
        if earlier is not None:
            self._end(earlier)
        cluster = self._cluster(held)
        work = PartitionWork(
            held,
            group=self._settings.group,
            ready=self._ready,
            settling=cluster,
            memory=self._memory.lane(held.id.channel.lane),
            may_start=self._session.may_start if self._exclusive else None,
            brake=self._brakes.lane(held.id.channel.lane),
            order=None if self._settings.ordering == "none" else Order(by_key=self._settings.ordering == "key"),
            where=self._settings.where,
        )
        self._works[held.id] = work
        self._beside(lambda: self._restore(work, cluster), f"restore-{held.id}")

    async def _restore(self, work: PartitionWork, cluster: ClusterWork) -> None:
        while work.stage is Stage.RESTORING:
            try:
                await cluster.describe()
                progress, topic_id = await restore(
                    self._settings.group, work.lease.topic_partition, cluster.offsets, cluster.admin
                )
            except (ClusterUnavailable, NotFound) as error:
                _log.debug("progress of %s is not known yet: %s", work.lease.id, error)
                await self._host.clock.sleep(limits.RESTORE_RETRY_SECONDS)
            except BraidError as error:
                self._refuse(error)
                return
            else:
                work.begin(progress, topic_id)
                if work.working:
                    cluster.add(work)

    async def _hand_back(self, work: PartitionWork, deadline_seconds: float) -> None:
        cluster = self._clusters[work.lease.cluster.name]
        cluster.intake.remove(work)
        work.drain()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(deadline_seconds * 0.8):
                await work.drained()
        if self._exclusive:
            await self._handlers_end(work)
        if work.ended:
            return
        committed = not work.restored or await self._last_commit(work, cluster)
        self._end(work)
        lease = work.lease
        await self._session.release(lease.id, lease.epoch, commit_waived=not committed, reason="asked back")

    async def _handlers_end(self, work: PartitionWork) -> None:
        """Cancels what still runs. While it does not end the lease is not given back: it has to run out."""
        lease = work.lease.id
        if self._worked_on(lease):
            _log.warning("%s is asked back and still worked on", lease)
            self._cancel_handlers(lease)
        while not work.ended and self._worked_on(lease):
            await self._host.clock.sleep(limits.HANDLERS_END_POLL_SECONDS)

    async def _last_commit(self, work: PartitionWork, cluster: ClusterWork) -> bool:
        try:
            async with asyncio.timeout(limits.FINAL_COMMIT_SECONDS):
                await cluster.committer.commit([work], final=True)
        except (TimeoutError, BraidError) as error:
            _log.warning("last commit of %s is waived: %s", work.lease.id, error)
            return False
        return True

    def _end(self, work: PartitionWork) -> None:
        work.end()
        if self._exclusive and work.handled:
            self._left_over.append(work)
        self._clusters[work.lease.cluster.name].remove(work)
        if self._works.get(work.lease.id) is work:
            del self._works[work.lease.id]

    def _cluster(self, held: Held) -> ClusterWork:
        name = held.cluster.name
        if name not in self._clusters:
            self._clusters[name] = ClusterWork(
                self._host,
                self._kafka.cluster(held.cluster.bootstrap, held.cluster.security_profile),
                self._settings,
                zone=self._zone,
                memory=self._memory,
                retries=self._retries,
                dead_letters=self._dead_letters,
                detached=lambda: not self._session.attached,
                refused=self._refuse,
                out_of_range=lambda work: self._begin(work.lease),
                watch=self._watched,
                beside=self._beside,
                ask=lambda generation: self._session.refused(name, generation),
            )
            self._clusters[name].start()
        return self._clusters[name]

    # --- odds and ends

    def _beside(self, run: Run, name: str) -> None:
        """Runs something that ends with the consumer at the latest."""
        self._background_count += 1
        number = self._background_count

        async def forgotten_at_its_end() -> None:
            try:
                await run()
            finally:
                self._background.pop(number, None)

        self._background[number] = self._watched(forgotten_at_its_end, name)

    def _watched(self, run: Run, name: str) -> Task:
        """Runs something the consumer cannot live without: when it dies of an error, the consumer refuses to go on."""
        return watched(self._host.tasks, run, name, self._refuse)

    async def _joined_or_refused(self) -> None:
        joined = asyncio.ensure_future(self._session.joined())
        refused = asyncio.ensure_future(self._was_refused.wait())
        try:
            await asyncio.wait([joined, refused], return_when=asyncio.FIRST_COMPLETED)
        finally:
            joined.cancel()
            refused.cancel()

    def _retries_full(self, full: bool) -> None:
        self._memory.blocked = full
        if full:
            _log.warning("%d records wait for a retry; fetching pauses", limits.PARKED_RETRIES_MAX)

    def _loads(self) -> join_pb2.Heartbeat:
        """What the work costs, idle leases left out; of records taken without `run`, one by one, only the number."""
        heartbeat, now = join_pb2.Heartbeat(), self._host.clock.elapsed()
        for lease, work in self._works.items():
            records, size = work.take_load()
            busy, oldest = work.busy.take_micros(now), work.oldest_unfinished_ms() or 0
            if records or size or busy or oldest:
                heartbeat.loads.add(
                    lease=str(lease), records=records, bytes=size, busy_micros=busy, oldest_unfinished_ms=oldest
                )
        away = [name for name, cluster in self._clusters.items() if cluster.committer.unreachable]
        heartbeat.unreachable_clusters.extend(away)
        return heartbeat

    async def _stop(self) -> None:
        self._closed = True
        self._ready.close()
        for work in list(self._works.values()):
            self._end(work)
        tasks = [*self._tasks, *self._background.values()]
        for task in tasks:
            task.cancel()
        for task in tasks:
            await task.ended()
        await self._dead_letters.close()
        await asyncio.gather(*(cluster.close() for cluster in self._clusters.values()))


class _Listening:
    """`LeaseListener` for a consumer, whose own methods are for applications."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer

    def granted(self, leases: Sequence[Held]) -> None:
        self._consumer._granted(leases)

    def lent(self, cluster: str, generation: Generation) -> None:
        self._consumer._lent(cluster, generation)

    def revoked(self, lease: Held, deadline_seconds: float) -> None:
        self._consumer._revoked(lease, deadline_seconds)

    def lost(self, leases: Sequence[Held]) -> None:
        self._consumer._lost(leases)

    def busy(self) -> bool:
        return self._consumer._busy()

    def refused(self, error: BraidError) -> None:
        self._consumer._refuse(error)


def _tell(callback: Callable[[list[str]], None] | None, leases: Sequence[Held]) -> None:
    """Calls an application's callback; what it raises is its own affair, not the session's."""
    if callback is None or not leases:
        return
    try:
        callback([str(held.id) for held in leases])
    except Exception:  # noqa: BLE001 - an application's callback may raise anything
        _log.exception("a callback for leases failed")
