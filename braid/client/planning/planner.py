"""A member of a group that plans ranges of its leases for others to process, instead of consuming records.

Its user asks what the leases offer (`offers`), says which ranges are handed out (`planned`) and which are done
(`done`). The planner commits progress as every member does; a lease asked back is released once the range that is out
is done. Everything runs on one event loop.
"""

import asyncio
import contextlib
import logging
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from braid.api.assigner.v1 import assigner_service_pb2 as api
from braid.api.assigner.v1 import group_pb2, join_pb2
from braid.client.consumer_settings import ConsumerSettings
from braid.client.consuming.background import Background
from braid.client.delivery.lease_work import LeaseWork
from braid.client.delivery.memory_bound import MemoryBound
from braid.client.delivery.ready_queue import ReadyQueue
from braid.client.delivery.stages import Stage
from braid.client.mesh import Mesh
from braid.client.planning.planned_lease import Offer, PlannedLease
from braid.client.planning.planner_cluster import PlannerCluster
from braid.client.records.delivery import OwnedLease
from braid.kernel.capabilities import SPARK
from braid.kernel.errors import BraidError, ClusterUnavailable, NotFound, Unavailable
from braid.kernel.ids import LeaseId
from braid.kernel.limits.client import FINAL_COMMIT_SECONDS, FIRST_ROUTE_SECONDS, RESTORE_RETRY_SECONDS
from braid.kernel.limits.planning import SPARK_CLOSE_SECONDS, SPARK_SETTLE_POLL_SECONDS, SPARK_SETTLE_SECONDS
from braid.kernel.ports import Generation
from braid.kernel.progress.ranges import Ranges
from braid.kernel.progress.tracker import Progress
from braid.rpc.pages import listed

_log = logging.getLogger("braid.planner")


class Done(NamedTuple):
    """States that everything below `end` is done in the log with this topic id; an empty id stands for any log."""

    end: int
    topic_id: bytes = b""


class PlannerSession:
    """Holds leases for a planner: `open` joins the group, `close` leaves it."""

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
        self._session = mesh._leases(settings, self, self._loads, (SPARK,))
        self._held: dict[LeaseId, PlannedLease] = {}
        self._clusters: dict[str, PlannerCluster] = {}
        self._done: dict[LeaseId, Done] = {}
        self._background = Background(mesh._host.tasks, lambda error: None)
        self._closing = False

    async def open(self) -> None:
        """Joins the group.

        Raises:
            BraidError: the assigner refuses this member.
            Unavailable: no assigner answers.
        """
        self._background.beside(self._session.run, "lease-session")
        self._background.beside(self._session.guard, "guard")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FIRST_ROUTE_SECONDS):
                await self._background.unless_refused(self._session.joined())
        if self._background.refusal is not None or not self._session.member_id:
            await self._stop()
            raise self._background.refusal or Unavailable(
                f"group {self._settings.group} could not be joined in {FIRST_ROUTE_SECONDS:g} s",
                remedy="check that an assigner runs at the endpoint: braid doctor",
            )

    @property
    def held(self) -> Sequence[OwnedLease]:
        """The leases held now."""
        return [each.work.lease for each in self._held.values()]

    def check(self) -> None:
        """Raises the reason why this member cannot continue, if there is one."""
        if self._background.refusal is not None:
            raise self._background.refusal

    def done(self, ends: Mapping[LeaseId, Done]) -> None:
        """Marks everything below these offsets as done; progress is committed soon.

        A claim waits until the log is seen to reach so far, and covers only the log with that topic id. Call this
        before `open` with what is known by then.
        """
        for lease, done in ends.items():
            before = self._done.get(lease)
            same = before is not None and before.topic_id == done.topic_id
            self._done[lease] = max(done, before) if before is not None and same else done
            self._pass(lease)

    def _pass(self, lease: LeaseId) -> None:
        """Raises the progress of a lease to what is known to be done."""
        held = self._held.get(lease)
        if held is not None:
            held.done_below(self._done_below(lease, held.work.topic_id))

    def _done_below(self, lease: LeaseId, topic_id: bytes) -> int:
        """Returns what is known to be done of this log."""
        done = self._done.get(lease)
        return done.end if done is not None and done.topic_id in (b"", topic_id) else 0

    def withdraw(self) -> None:
        """Takes back ranges that are out and were never worked on; they are offered again."""
        for held in self._held.values():
            held.withdraw()

    async def offers(self) -> dict[LeaseId, Offer]:
        """Returns what the leases offer now. Leases on a cluster that does not answer offer nothing.

        Raises:
            BraidError: this member cannot go on.
        """
        answers = await asyncio.gather(*(cluster.logs() for cluster in self._clusters.values()))
        self.check()
        found = {}
        for lease, log in (pair for answer in answers for pair in answer.items()):
            held = self._held.get(lease)
            if held is None or not held.known:
                continue
            if held.cluster.was_replaced(held.work):
                _log.warning("%s: its topic was made anew; its progress is read again", lease)
                self._begin(held.work.lease)
                continue
            offer = held.offer(log, self._done_below(lease, held.work.topic_id))
            if offer is not None:
                found[lease] = offer
        return found

    def begin_again(self, lease: LeaseId) -> None:
        """Reads a lease's progress again, because its log does not contain what is said to be done of it."""
        self._done.pop(lease, None)
        held = self._held.get(lease)
        if held is not None and held.work.working:
            self._begin(held.work.lease)

    def planned(self, ranges: Mapping[LeaseId, tuple[int, int]]) -> None:
        """Hands out ranges that were just offered; call it before awaiting anything else."""
        for lease, (start, end) in ranges.items():
            self._held[lease].hand_out(start, end)

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
        held = {str(lease) for lease in self._held}
        restored = all(each.work.restored for each in self._held.values())
        return not free and ours == held and restored and bool(leases)

    async def _leases(self) -> list[group_pb2.Lease]:
        listing = listed(
            self._assigner, "ListLeases", api.ListLeasesRequest(group=self._settings.group), api.ListLeasesResponse
        )
        return [lease async for page in listing for lease in page.leases]

    async def close(self) -> None:
        """Commits what is done, releases every lease and leaves. A range that is out remains pending work."""
        if self._closing:
            return
        self._closing = True
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SPARK_CLOSE_SECONDS * 0.8):
                    await self._session.leaving()
                    await asyncio.gather(*(self._release(held) for held in list(self._held.values())))
                    await self._session.leave("closed")
        finally:
            await self._stop()

    # --- `LeaseListener`

    def granted(self, leases: Sequence[OwnedLease]) -> None:
        """Begins work on each granted lease."""
        if self._closing:
            return
        try:
            for lease in leases:
                self._begin(lease)
        except BraidError as error:  # for example a security profile this process does not have
            self.refused(error)

    def lent(self, cluster: str, generation: Generation) -> None:
        """Sets the generation that commits on a cluster carry from now on."""
        if cluster in self._clusters:
            self._clusters[cluster].committer.lend(generation)

    def revoked(self, lease: OwnedLease, deadline_seconds: float) -> None:
        """Waits for the range that is out, then gives the lease back."""
        held = self._held.get(lease.id)
        if held is not None and held.work.lease.epoch == lease.epoch:
            self._background.beside(lambda: self._hand_back(held, deadline_seconds), f"hand-back-{lease.id}")

    def lost(self, leases: Sequence[OwnedLease]) -> None:
        """Drops the work; the next holder handles the range that is out, too."""
        for lease in leases:
            held = self._held.get(lease.id)
            if held is not None and held.work.lease.epoch == lease.epoch:
                self._end(held)

    def busy(self) -> bool:
        """Returns False: a planner is never an exclusive member."""
        return False

    def resumed(self, lane: str) -> None:
        """Does nothing: a planner stops no lane."""

    def split(self, asked: join_pb2.SplitBacklog) -> None:
        """Refuses the split: a query plans by itself what it reads."""
        refused = join_pb2.SplitLease(
            lease=asked.lease, epoch=asked.epoch, at=-1, refused="a Spark query plans what it reads by itself"
        )
        self._background.beside(lambda: self._session.divided([refused]), f"split-{asked.lease}")

    @property
    def divides_work(self) -> bool:
        """False: a planner runs no handlers."""
        return False

    def work_divided(self, told: join_pb2.WorkDivision) -> None:
        """Does nothing: a planner runs no handlers."""

    def refused(self, error: BraidError) -> None:
        """Ends this member with the assigner's refusal."""
        self._background.refuse(error)

    # --- work on one lease

    def _begin(self, lease: OwnedLease) -> None:
        earlier = self._held.get(lease.id)
        if earlier is not None:
            self._end(earlier)
        cluster = self._cluster(lease)
        work = LeaseWork(
            lease,
            group=self._settings.group,
            ready=self._ready,
            settling=cluster,
            memory=self._memory.lane(lease.id.channel.lane),
            may_start=None,
        )
        self._held[lease.id] = held = PlannedLease(work, cluster, fail_on_data_loss=self._fail_on_data_loss)
        self._background.beside(lambda: self._restore(held), f"restore-{lease.id}")

    async def _restore(self, held: PlannedLease) -> None:
        work = held.work

        def accept(progress: Progress, topic_id: bytes) -> None:
            lost, below = progress.snapshot().expired, self._done_below(work.lease.id, topic_id)
            held.judge_loss(lost.subtract(Ranges([(0, below)])))

        while work.stage is Stage.RESTORING:
            try:
                await held.cluster.restore(work, accept)
            except (ClusterUnavailable, NotFound) as error:
                _log.debug("progress of %s is not known yet: %s", work.lease.id, error)
                await self._host.clock.sleep(RESTORE_RETRY_SECONDS)
            except BraidError as error:
                self.refused(error)
                return
        self._pass(work.lease.id)

    async def _hand_back(self, held: PlannedLease, deadline_seconds: float) -> None:
        held.work.drain()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(deadline_seconds * 0.8):
                await held.work.drained()
        await self._release(held)

    async def _release(self, held: PlannedLease) -> None:
        if held.work.ended:
            return
        seconds = SPARK_CLOSE_SECONDS * 0.4 if self._closing else FINAL_COMMIT_SECONDS
        committed = not held.work.restored or await held.last_commit(seconds)
        lease = held.work.lease
        if self._held.get(lease.id) is not held:  # lost meanwhile
            return
        self._end(held)
        await self._session.release(lease.id, lease.epoch, commit_waived=not committed, reason="asked back")

    def _end(self, held: PlannedLease) -> None:
        held.end()
        if self._held.get(held.work.lease.id) is held:
            del self._held[held.work.lease.id]

    def _cluster(self, lease: OwnedLease) -> PlannerCluster:
        name = lease.cluster.name
        if name not in self._clusters:
            self._clusters[name] = PlannerCluster(
                self._host,
                name,
                self._kafka.cluster(lease.cluster.bootstrap, lease.cluster.security_profile),
                self._settings.group,
                interval_seconds=self._settings.commit_interval_seconds,
                detached=lambda: not self._session.attached,
                refused=self.refused,
                watch=self._background.watched,
                ask=lambda generation: self._session.refused(name, generation),
            )
            self._clusters[name].start()
        return self._clusters[name]

    def _loads(self) -> join_pb2.Heartbeat:
        heartbeat = join_pb2.Heartbeat()
        for lease, held in self._held.items():
            records, size = held.work.take_load()
            heartbeat.loads.add(lease=str(lease), records=records, bytes=size)
        away = [name for name, cluster in self._clusters.items() if cluster.committer.unreachable]
        heartbeat.unreachable_clusters.extend(away)
        return heartbeat

    async def _stop(self) -> None:
        self._closing = True
        for held in list(self._held.values()):
            self._end(held)
        await self._background.stop()
        await asyncio.gather(*(cluster.close() for cluster in self._clusters.values()))
