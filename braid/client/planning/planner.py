"""A member of a group that plans ranges of its leases for others to process, instead of consuming records itself.

Whoever uses it asks what its leases offer (`offers`), says which ranges are handed out (`planned`) and which are done
(`done`). Progress is committed as every member commits it; a lease asked back is released once the range that is out is
done. Everything runs on one event loop.
"""

import asyncio
import contextlib
import logging
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from braid.api.assigner.v1 import assigner_service_pb2 as api
from braid.api.assigner.v1 import group_pb2, join_pb2
from braid.client.consumer_settings import ConsumerSettings
from braid.client.delivery.lease_work import LeaseWork
from braid.client.delivery.memory_bound import MemoryBound
from braid.client.delivery.ready_queue import ReadyQueue
from braid.client.delivery.stages import Stage
from braid.client.mesh import Mesh
from braid.client.planning.planner_cluster import PlannerCluster
from braid.client.records.delivery import OwnedLease
from braid.client.tasks import Run, watched
from braid.kernel.errors import BraidError, ClusterUnavailable, NotFound, OffsetOutOfRange, Unavailable
from braid.kernel.ids import LeaseId
from braid.kernel.limits.client import FINAL_COMMIT_SECONDS, FIRST_ROUTE_SECONDS, RESTORE_RETRY_SECONDS
from braid.kernel.limits.names import PAGE_SIZE_MAX
from braid.kernel.limits.planning import SPARK_CLOSE_SECONDS, SPARK_SETTLE_POLL_SECONDS, SPARK_SETTLE_SECONDS
from braid.kernel.ports import Generation, Task
from braid.kernel.progress.ranges import Ranges
from braid.kernel.progress.tracker import Progress

_log = logging.getLogger("braid.planner")


class Offer(NamedTuple):
    """What may be planned of a lease.

    Attributes:
        start: Everything below is done or handed out.
        end: The log's end.
        skip: Start, end, start, end … of ranges above `start` that other members have done.
        topic_id: Which log it is; empty for unknown.
    """

    start: int
    end: int
    skip: tuple[int, ...] = ()
    topic_id: bytes = b""


class Done(NamedTuple):
    """Everything below `end` is done in the log of a topic id; an empty one stands for whatever log there is."""

    end: int
    topic_id: bytes = b""


class _Out(NamedTuple):
    """A range handed out of a lease."""

    work: LeaseWork
    end: int
    rows: int

    def finished(self) -> None:
        """It is done, or not to be done."""
        self.work.head.finished(self.rows, 0)


class PlannerSession:
    """Holds leases for a planner; use `open` and `close`."""

    def __init__(self, mesh: Mesh, settings: ConsumerSettings, *, fail_on_data_loss: bool = False) -> None:
        """`settings` as for a consumer; those about handling records have no meaning here.

        With `fail_on_data_loss` a log that lost its start before that was done ends this member's work before anything
        of it is committed; else the lost range is stated as expired, with a warning.
        """
        self._fail_on_data_loss = fail_on_data_loss
        self._host = mesh._host
        self._kafka = mesh._kafka
        self._assigner = mesh.service("assigner")
        self._settings = settings
        self._ready = ReadyQueue({})
        self._memory = MemoryBound(settings.max_in_flight_bytes, {})
        self._session = mesh._leases(settings, self, self._loads)
        self._works: dict[LeaseId, LeaseWork] = {}
        self._clusters: dict[str, PlannerCluster] = {}
        self._out: dict[LeaseId, _Out] = {}
        self._log_ends: dict[LeaseId, int] = {}  # as seen last, of the works there are
        self._done: dict[LeaseId, Done] = {}
        self._tasks: list[Task] = []
        self._background: dict[int, Task] = {}
        self._background_count = 0
        self._refusal: BraidError | None = None
        self._refused = asyncio.Event()
        self._closing = False

    async def open(self) -> None:
        """Joins the group.

        Raises:
            BraidError: the assigner refuses this member.
            Unavailable: no assigner answers.
        """
        self._tasks = [self._watched(self._session.run, "lease-session"), self._watched(self._session.guard, "guard")]
        joined = asyncio.ensure_future(self._session.joined())
        refused = asyncio.ensure_future(self._refused.wait())
        await asyncio.wait((joined, refused), timeout=FIRST_ROUTE_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        outcome = joined.done()
        joined.cancel()
        refused.cancel()
        if self._refusal is not None or not outcome:
            await self._stop()
            raise self._refusal or Unavailable(
                f"group {self._settings.group} could not be joined in {FIRST_ROUTE_SECONDS:g} s",
                remedy="check that an assigner runs at the endpoint: braid doctor",
            )

    @property
    def held(self) -> Sequence[OwnedLease]:
        """The leases it holds now."""
        return [work.lease for work in self._works.values()]

    def check(self) -> None:
        """Raises why this member cannot go on, if it cannot."""
        if self._refusal is not None:
            raise self._refusal

    def done(self, ends: Mapping[LeaseId, Done]) -> None:
        """Everything below these offsets is done, whoever did it; progress is committed soon.

        It is claimed once the log is seen to reach so far, and only of the log it speaks of. To be called before `open`
        with what is known by then.
        """
        for lease, done in ends.items():
            before = self._done.get(lease)
            same = before is not None and before.topic_id == done.topic_id
            self._done[lease] = max(done, before) if before is not None and same else done
            self._pass(lease)

    def _pass(self, lease: LeaseId) -> None:
        """Moves progress of a lease up to what is known to be done."""
        work, done = self._works.get(lease), self._done.get(lease)
        out = self._out.get(lease)
        if work is None or done is None or not work.restored or work.ended:
            return
        end, log_end = self._done_below(lease, work.topic_id), self._log_ends.get(lease)
        if log_end is None or log_end < end:  # not known yet; or records were lost, and others may get their offsets
            return
        if work.head.progress.fetched < end:
            work.pass_to(end)
            self._clusters[work.lease.cluster.name].settled(0)
        if out is not None and out.end <= end:
            del self._out[lease]
            out.finished()

    def _done_below(self, lease: LeaseId, topic_id: bytes) -> int:
        """What is known to be done of this log."""
        done = self._done.get(lease)
        return done.end if done is not None and done.topic_id in (b"", topic_id) else 0

    def withdraw(self) -> None:
        """What is handed out still was never worked on: it is offered again."""
        for out in self._out.values():
            out.finished()
        self._out.clear()

    async def offers(self) -> dict[LeaseId, Offer]:
        """What the leases offer now. Leases on a cluster that does not answer offer nothing.

        Raises:
            BraidError: this member cannot go on.
        """
        answers = await asyncio.gather(*(cluster.logs() for cluster in self._clusters.values()))
        self.check()
        found = {}
        for lease, log in (pair for answer in answers for pair in answer.items()):
            work = self._works.get(lease)
            if work is None or not work.restored or work.ended:
                continue
            if self._clusters[work.lease.cluster.name].was_replaced(work):
                _log.warning("%s: its topic was made anew; its progress is read again", lease)
                self._begin(work.lease)
                continue
            self._log_ends[lease] = log.end
            self._pass(lease)
            stopped = self._clusters[work.lease.cluster.name].committer.stopped
            if work.working and lease not in self._out and not stopped:
                self._expire(work, log.start)
                progress = work.head.progress
                found[lease] = Offer(progress.fetched, log.end, progress.done_ranges.edges, work.topic_id)
        return found

    def begin_again(self, lease: LeaseId) -> None:
        """What is said to be done of a lease is not in its log any more: its progress is read again, and believed."""
        self._done.pop(lease, None)
        work = self._works.get(lease)
        if work is not None and work.working:
            self._begin(work.lease)

    def _expire(self, work: LeaseWork, log_start: int) -> None:
        """What left the log before it was handed out is stated as expired, or ends this member's work."""
        progress = work.head.progress
        if log_start <= progress.fetched:
            return
        lost = progress.done_ranges.gaps(progress.fetched, log_start)
        self._judge_loss(work.lease.id, lost)
        work.expire(log_start)
        self._clusters[work.lease.cluster.name].settled(0)

    def _judge_loss(self, lease: LeaseId, lost: Ranges) -> None:
        if not lost:
            return
        if self._fail_on_data_loss:
            raise OffsetOutOfRange(
                f"offsets {lost} of {lease} left the log before they were done",
                field="failOnDataLoss",
                remedy="set failOnDataLoss to false to go on without them",
                metadata={"lease": str(lease), "start": str(lost.start), "end": str(lost.end)},
            )
        _log.warning("offsets %s of %s left the log before they were done; they are stated as expired", lost, lease)

    def planned(self, ranges: Mapping[LeaseId, tuple[int, int]]) -> None:
        """These ranges of what was just offered are handed out; to be called before anything else is awaited."""
        for lease, (start, end) in ranges.items():
            work = self._works[lease]
            if work.head.hand_out(end - start):
                self._out[lease] = _Out(work, end, end - start)

    async def settle(self) -> None:
        """Waits, for a while, until this member has its share of the group's leases and knows their progress."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SPARK_SETTLE_SECONDS):
                while not await self._is_settled():
                    self.check()
                    await self._host.clock.sleep(SPARK_SETTLE_POLL_SECONDS)
        self.check()

    async def _is_settled(self) -> bool:
        try:
            leases = await self._leases()
        except Unavailable:
            return False
        free = any(lease.state != group_pb2.LEASE_STATE_HELD for lease in leases)
        ours = {lease.name for lease in leases if lease.member == self._session.member_id}
        held = {str(lease) for lease in self._works}
        restored = all(work.restored for work in self._works.values())
        return not free and ours == held and restored and bool(leases)

    async def _leases(self) -> list[group_pb2.Lease]:
        found: list[group_pb2.Lease] = []
        token = ""
        while True:
            request = api.ListLeasesRequest(group=self._settings.group, page_size=PAGE_SIZE_MAX, page_token=token)
            page = await self._assigner.unary("ListLeases", request, api.ListLeasesResponse)
            found.extend(page.leases)
            token = page.next_page_token
            if not token:
                return found

    async def close(self) -> None:
        """Commits what is done, releases every lease and leaves. A range that is out stays pending work."""
        if self._closing:
            return
        self._closing = True
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SPARK_CLOSE_SECONDS * 0.8):
                    await self._session.leaving()
                    await asyncio.gather(*(self._release(work) for work in list(self._works.values())))
                    await self._session.leave("closed")
        finally:
            await self._stop()

    # --- `LeaseListener`

    def granted(self, leases: Sequence[OwnedLease]) -> None:
        """Begins work on each."""
        if self._closing:
            return
        try:
            for held in leases:
                self._begin(held)
        except BraidError as error:  # for example a security profile this process does not have
            self.refused(error)

    def lent(self, cluster: str, generation: Generation) -> None:
        """What commits on a cluster carry from now on."""
        if cluster in self._clusters:
            self._clusters[cluster].committer.lend(generation)

    def revoked(self, lease: OwnedLease, deadline_seconds: float) -> None:
        """Waits for the range that is out, then gives the lease back."""
        work = self._works.get(lease.id)
        if work is not None and work.lease.epoch == lease.epoch:
            self._beside(lambda: self._hand_back(work, deadline_seconds), f"hand-back-{lease.id}")

    def lost(self, leases: Sequence[OwnedLease]) -> None:
        """Drops the work; a range that is out will be the next holder's too."""
        for held in leases:
            work = self._works.get(held.id)
            if work is not None and work.lease.epoch == held.epoch:
                self._end(work)

    def busy(self) -> bool:
        """Never an exclusive member."""
        return False

    def resumed(self, lane: str) -> None:
        """It stops no lane."""

    def split(self, asked: join_pb2.SplitBacklog) -> None:
        """A query plans what it reads by itself."""
        refused = join_pb2.SplitLease(
            lease=asked.lease, epoch=asked.epoch, at=-1, refused="a Spark query plans what it reads by itself"
        )
        self._beside(lambda: self._session.divided([refused]), f"split-{asked.lease}")

    def refused(self, error: BraidError) -> None:
        """Nothing more can be done here."""
        self._refusal = error
        self._refused.set()

    # --- work on one lease

    def _begin(self, held: OwnedLease) -> None:
        earlier = self._works.get(held.id)
        if earlier is not None:
            self._end(earlier)
        cluster = self._cluster(held)
        work = LeaseWork(
            held,
            group=self._settings.group,
            ready=self._ready,
            settling=cluster,
            memory=self._memory.lane(held.id.channel.lane),
            may_start=None,
        )
        self._works[held.id] = work
        self._log_ends.pop(held.id, None)
        self._beside(lambda: self._restore(work, cluster), f"restore-{held.id}")

    async def _restore(self, work: LeaseWork, cluster: PlannerCluster) -> None:
        def accept(progress: Progress, topic_id: bytes) -> None:
            lost, below = progress.snapshot().expired, self._done_below(work.lease.id, topic_id)
            self._judge_loss(work.lease.id, lost.subtract(Ranges([(0, below)])))

        while work.stage is Stage.RESTORING:
            try:
                await cluster.restore(work, accept)
            except (ClusterUnavailable, NotFound) as error:
                _log.debug("progress of %s is not known yet: %s", work.lease.id, error)
                await self._host.clock.sleep(RESTORE_RETRY_SECONDS)
            except BraidError as error:
                self.refused(error)
                return
        self._pass(work.lease.id)

    async def _hand_back(self, work: LeaseWork, deadline_seconds: float) -> None:
        work.drain()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(deadline_seconds * 0.8):
                await work.drained()
        await self._release(work)

    async def _release(self, work: LeaseWork) -> None:
        if work.ended:
            return
        committed = not work.restored or await self._last_commit(work)
        if self._works.get(work.lease.id) is not work:  # lost meanwhile
            return
        self._end(work)
        lease = work.lease
        await self._session.release(lease.id, lease.epoch, commit_waived=not committed, reason="asked back")

    async def _last_commit(self, work: LeaseWork) -> bool:
        seconds = SPARK_CLOSE_SECONDS * 0.4 if self._closing else FINAL_COMMIT_SECONDS
        try:
            async with asyncio.timeout(seconds):
                await self._clusters[work.lease.cluster.name].committer.commit([work], final=True)
        except (TimeoutError, BraidError) as error:
            _log.warning("last commit of %s is waived: %s", work.lease.id, error)
            return False
        return True

    def _end(self, work: LeaseWork) -> None:
        work.end()
        lease = work.lease.id
        self._clusters[work.lease.cluster.name].remove(work)
        if self._works.get(lease) is work:
            del self._works[lease]
        if lease in self._out and self._out[lease].work is work:
            del self._out[lease]

    def _cluster(self, held: OwnedLease) -> PlannerCluster:
        name = held.cluster.name
        if name not in self._clusters:
            self._clusters[name] = PlannerCluster(
                self._host,
                name,
                self._kafka.cluster(held.cluster.bootstrap, held.cluster.security_profile),
                self._settings.group,
                interval_seconds=self._settings.commit_interval_seconds,
                detached=lambda: not self._session.attached,
                refused=self.refused,
                watch=self._watched,
                ask=lambda generation: self._session.refused(name, generation),
            )
            self._clusters[name].start()
        return self._clusters[name]

    def _loads(self) -> join_pb2.Heartbeat:
        heartbeat = join_pb2.Heartbeat()
        for lease, work in self._works.items():
            records, size = work.take_load()
            heartbeat.loads.add(lease=str(lease), records=records, bytes=size)
        away = [name for name, cluster in self._clusters.items() if cluster.committer.unreachable]
        heartbeat.unreachable_clusters.extend(away)
        return heartbeat

    # --- odds and ends

    def _beside(self, run: Run, name: str) -> None:
        """Runs something that ends with the session at the latest."""
        self._background_count += 1
        number = self._background_count

        async def forgotten_at_its_end() -> None:
            try:
                await run()
            finally:
                self._background.pop(number, None)

        self._background[number] = self._watched(forgotten_at_its_end, name)

    def _watched(self, run: Run, name: str) -> Task:
        """Runs something the session cannot live without: when it dies of an error, the session refuses to go on."""
        return watched(self._host.tasks, run, name, self.refused)

    async def _stop(self) -> None:
        self._closing = True
        for work in list(self._works.values()):
            self._end(work)
        tasks = [*self._tasks, *self._background.values()]
        for task in tasks:
            task.cancel()
        for task in tasks:
            await task.ended()
        await asyncio.gather(*(cluster.close() for cluster in self._clusters.values()))
