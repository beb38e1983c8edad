"""The work on a consumer's leases: begun at the grant, restored, fetched, committed and given back.

Applications use `consumer.Consumer`; `lease_session` says who holds which lease.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from braid.api.assigner.v1 import join_pb2
from braid.client.commits.restore import Restored
from braid.client.consuming.backlogs import Backlogs
from braid.client.consuming.cluster import ClusterWork
from braid.client.consuming.consumer_context import ConsumerContext
from braid.client.consuming.work_division import WorkDivision
from braid.client.delivery.key_order import KeyOrder
from braid.client.delivery.lease_work import LeaseWork
from braid.client.delivery.stages import Stage
from braid.client.handling.consumer_runners import Runners
from braid.client.handling.cpu_samples import LeaseTime
from braid.client.membership.lease_protocol import LeaseKeeper, LeaseListener
from braid.client.records.delivery import OwnedLease
from braid.client.telemetry.consumer_observer import observer
from braid.client.telemetry.zone_bytes import FETCHED, tally
from braid.kernel.errors import BraidError, ClusterUnavailable, NotFound
from braid.kernel.ids import LeaseId
from braid.kernel.limits.client import (
    BACKLOG_LOOK_SECONDS,
    CONSUMER_CLOSE_SECONDS,
    FINAL_COMMIT_SECONDS,
    HANDLERS_END_POLL_SECONDS,
    RESTORE_RETRY_SECONDS,
)
from braid.kernel.ports import Contact, Generation, Kafka

_log = logging.getLogger("braid.consumer")
OpenLeases = Callable[[LeaseListener, Callable[[], join_pb2.Heartbeat]], LeaseKeeper]


class LeaseWorks:
    """The work on the leases of one consumer: `LeaseListener` for its session, `ClusterLeases` for each cluster."""

    def __init__(
        self,
        kafka: Kafka,
        open_leases: OpenLeases,
        runners: Runners,
        context: ConsumerContext,
        *,
        resumed: Callable[[str], None],
        division: WorkDivision,
    ) -> None:
        """`open_leases` gets the listener for leases, and the function that fills heartbeats.

        `resumed` is called with the lanes that an operator wants resumed; `division` divides handlers between lanes.
        """
        settings = context.settings
        self._kafka = kafka
        self._runners = runners
        self._context = context
        self._host, self._background, self._settings = context.host, context.background, settings
        self._resumed = resumed
        self._division = division
        self.observer = observer(context.host.clock, settings.group, self._cluster_id)
        self._exclusive = settings.ownership == "exclusive"
        self._works: dict[LeaseId, LeaseWork] = {}
        self._left_over: list[LeaseWork] = []  # exclusive leases that ended while records were out
        self.clusters: dict[str, ClusterWork] = {}
        self.session = open_leases(self, self._loads)
        self._backlogs = Backlogs(
            self._works,
            context.ready,
            context.memory,
            ordered=settings.ordering != "none",
            slots=runners.slots,
            changed=self._tell_splits,
        )
        self.close_finished = self._backlogs.close_finished

    def __iter__(self) -> Iterator[LeaseWork]:
        """Iterates over the work on the leases owned now."""
        return iter(list(self._works.values()))

    def note_acked(self) -> None:
        """Notes buffered acknowledgements of every lease, so that all reports count them."""
        for work in self._works.values():
            work.note_acked()

    async def hand_back_all(self) -> None:
        """Drains, commits and releases everything, in the time a consumer has to close."""
        seconds = CONSUMER_CLOSE_SECONDS
        await asyncio.gather(*(self._hand_back(work, seconds) for work in self))

    def end_all(self) -> None:
        """Ends the work on all leases, which are gone."""
        for work in self:
            self._end(work)

    async def close(self) -> None:
        """Closes the clients of all clusters."""
        await asyncio.gather(*(cluster.close() for cluster in self.clusters.values()))

    # --- leases come and go (called by the session)

    def granted(self, leases: Sequence[OwnedLease]) -> None:
        """Begins work on each granted lease.

        What was granted before the assigner heard of our leaving goes back with the leave.
        """
        if self._background.closed:
            return
        try:
            for held in leases:
                self._begin(held)
        except BraidError as error:  # for example a security profile this process does not have
            self._background.refuse(error)
        _tell(self._settings.on_assigned, leases)

    def lent(self, cluster: str, generation: Generation) -> None:
        """Sets the generation that commits on a cluster carry from now on."""
        if cluster in self.clusters:
            self.clusters[cluster].committer.lend(generation)

    def revoked(self, lease: OwnedLease, deadline_seconds: float) -> None:
        """Drains, commits and gives back the leases asked for."""
        work = self._works.get(lease.id)
        if work is not None and work.lease.epoch == lease.epoch:
            self._background.beside(lambda: self._hand_back(work, deadline_seconds), f"hand-back-{lease.id}")
        _tell(self._settings.on_revoked, [lease])

    def lost(self, leases: Sequence[OwnedLease]) -> None:
        """Drops the work on lost leases; the next holder handles their unfinished records too."""
        for held in leases:
            work = self._works.get(held.id)
            if work is not None and work.lease.epoch == held.epoch:
                self._end(work)
            self._cancel_handlers(held.id)
        _tell(self._settings.on_revoked, leases)

    def refused(self, error: BraidError) -> None:
        """Refuses to continue, because the assigner refuses this member."""
        self._background.refuse(error)

    def resumed(self, lane: str) -> None:
        """Resumes a stopped lane, as an operator asks."""
        self._resumed(lane)

    @property
    def divides_work(self) -> bool:
        """See `LeaseListener.divides_work`."""
        return self._division.possible

    def work_divided(self, told: join_pb2.WorkDivision) -> None:
        """Divides handlers between lanes as the assigner says."""
        self._division.apply(told)

    def _cancel_handlers(self, lease: LeaseId) -> None:
        """Cancels the handlers of a lost lease: in exclusive groups, and where the application wants it."""
        if self._exclusive or self._settings.cancel_at_loss:
            self._runners.cancel(lease)

    def _worked_on(self, lease: LeaseId) -> bool:
        """Whether records of a lease are handed out, under this epoch or an earlier one."""
        self._left_over = [work for work in self._left_over if work.handled]
        current = self._works.get(lease)
        return any(work.lease.id == lease for work in self._left_over) or (current is not None and current.handled > 0)

    def busy(self) -> bool:
        """See `LeaseListener.busy`."""
        return any(work.lease.id not in self._works for work in self._left_over if work.handled)

    # --- work on one lease

    def split(self, asked: join_pb2.SplitBacklog) -> None:
        """Splits a lease that is far behind, as an operator asks, so that its head is worked on too."""
        self._background.beside(lambda: self._split(asked), f"split-{asked.lease}")

    async def _split(self, asked: join_pb2.SplitBacklog) -> None:
        work = self._works.get(LeaseId.parse(asked.lease))
        if work is None or work.lease.epoch != asked.epoch:
            return  # the lease is gone; callers see that
        refused = "its committed progress is being read, or it is asked back"
        if work.working:
            cluster = self.clusters[work.lease.cluster.name]
            refused = await self._backlogs.split(work, cluster, asked.share, relaxed=asked.relaxed)
        if refused:
            _log.warning("%s is not split: %s", asked.lease, refused)
            told = join_pb2.SplitLease(lease=asked.lease, epoch=asked.epoch, at=-1, refused=refused)
            await self.session.divided([*self._backlogs.told(), told])

    async def split_what_is_behind(self) -> None:
        """Splits leases whose records in hand are too old, where the application wants that; until cancelled."""
        wanted = self._settings.backlog
        assert wanted is not None, "run only where it is wanted"
        while True:
            await self._host.clock.sleep(BACKLOG_LOOK_SECONDS)
            too_old_ms = self._host.clock.now_ms() - int(wanted.split_after_seconds * 1_000)
            for work in self:
                work.note_acked()
                oldest_ms = work.oldest_unfinished_ms if work.working and not work.behind else None
                if oldest_ms is not None and oldest_ms < too_old_ms:
                    cluster = self.clusters[work.lease.cluster.name]
                    await self._backlogs.split(work, cluster, wanted.share, relaxed=wanted.relaxed)

    def _tell_splits(self) -> None:
        if not self._background.closed:
            self._background.beside(lambda: self.session.divided(self._backlogs.told()), "split-leases")

    def _begin(self, held: OwnedLease) -> None:
        earlier = self._works.get(held.id)
        if earlier is not None:
            self._end(earlier)
        cluster = self._cluster(held)
        work = self._works[held.id] = self._work(held, cluster)
        self._background.beside(lambda: self._restore(work, cluster), f"restore-{held.id}")

    def _work(self, held: OwnedLease, cluster: ClusterWork) -> LeaseWork:
        ordering = self._settings.ordering
        return LeaseWork(
            held,
            group=self._settings.group,
            ready=self._context.ready,
            settling=cluster.settling,
            memory=self._context.memory.lane(held.id.channel.lane),
            may_start=self.session.may_start if self._exclusive else None,
            brake=self._context.brakes.lane(held.id.channel.lane),
            new_order=None if ordering == "none" else partial(KeyOrder, by_key=ordering == "key"),
            where=self._settings.where,
            pathways=None if self._context.pathways is None else self._context.pathways.of_lease(held.id),
        )

    async def _restore(self, work: LeaseWork, cluster: ClusterWork) -> None:
        while work.stage is Stage.RESTORING:
            try:
                restored = await cluster.restore(work)
            except (ClusterUnavailable, NotFound) as error:
                _log.debug("progress of %s is not known yet: %s", work.lease.id, error)
                await self._host.clock.sleep(RESTORE_RETRY_SECONDS)
            except BraidError as error:
                self._background.refuse(error)
                return
            else:
                if restored is None:
                    return
                work.begin(restored.progress, restored.topic_id, restored.log, restored.behind)
                if work.working:
                    self._backlogs.resume(work, restored)
                    cluster.add(work)
                    await self._tell_found(work.lease, restored)

    async def _tell_found(self, lease: OwnedLease, restored: Restored) -> None:
        """Reports findings about committed progress; each becomes an event of the group."""
        if restored.findings:
            told = join_pb2.RestoreFindings(lease=str(lease.id), epoch=lease.epoch)
            for each in restored.findings:
                told.findings.add(kind=each.kind, start=each.start, end=each.end, reason=each.reason)
            await self.session.found(told)

    async def _hand_back(self, work: LeaseWork, deadline_seconds: float) -> None:
        cluster = self.clusters[work.lease.cluster.name]
        cluster.fetching.remove(work)
        work.drain()
        cluster.committer.encoder.foresee_last(work)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(deadline_seconds * 0.8):
                await work.drained()
        if self._exclusive:
            await self._handlers_end(work)
        if work.ended:
            return
        committed = not work.restored or await self._last_commit(work, cluster)
        self._end(work)
        self._cancel_handlers(work.lease.id)
        lease = work.lease
        await self.session.release(lease.id, lease.epoch, commit_waived=not committed, reason="asked back")

    async def _handlers_end(self, work: LeaseWork) -> None:
        """Cancels handlers that still run. While one does not end, its lease is not given back but runs out."""
        lease = work.lease.id
        if self._worked_on(lease):
            _log.warning("%s is asked back and still worked on", lease)
            self._cancel_handlers(lease)
        while not work.ended and self._worked_on(lease):
            await self._host.clock.sleep(HANDLERS_END_POLL_SECONDS)

    async def _last_commit(self, work: LeaseWork, cluster: ClusterWork) -> bool:
        try:
            async with asyncio.timeout(FINAL_COMMIT_SECONDS):
                await cluster.committer.commit([work], final=True)
        except (TimeoutError, BraidError) as error:
            _log.warning("last commit of %s is waived: %s", work.lease.id, error)
            return False
        return True

    def _end(self, work: LeaseWork) -> None:
        work.end()
        if self._exclusive and work.handled:
            self._left_over.append(work)
        self.clusters[work.lease.cluster.name].remove(work)
        if self._works.get(work.lease.id) is work:
            del self._works[work.lease.id]
        for older in work.behind:  # after the lease: the lane's other backlogs share anew
            self._backlogs.forget(older)

    def _cluster_id(self, name: str) -> str:
        """A cluster's own id, empty before it told any."""
        cluster = self.clusters.get(name)
        return "" if cluster is None else cluster.cluster_id

    def _cluster(self, held: OwnedLease) -> ClusterWork:
        name = held.cluster.name
        if name not in self.clusters:
            cluster = self._kafka.cluster(held.cluster.bootstrap, held.cluster.security_profile)
            self.clusters[name] = ClusterWork(
                name,
                cluster if self.observer is None else self.observer.watch(cluster, name),
                self._context,
                self,
                tally(FETCHED, name, held.cluster.zone, self._context.zone),
            )
            self.clusters[name].start()
        return self.clusters[name]

    def detached(self) -> bool:
        """See `ClusterLeases`."""
        return not self.session.attached

    def begin_anew(self, lease: OwnedLease) -> None:
        """See `ClusterLeases`."""
        self._begin(lease)

    async def ask_generation(self, cluster: str, generation: Generation) -> None:
        """See `ClusterLeases`."""
        await self.session.refused(cluster, generation)

    def contacts(self) -> dict[str, Contact]:
        """By cluster on which leases lie, whether it answers."""
        read = {work.lease.cluster.name for work in self._works.values()}
        return {name: cluster.contact() for name, cluster in self.clusters.items() if name in read}

    def _loads(self) -> join_pb2.Heartbeat:
        """Returns the measured load of each lease that is not idle.

        Records taken one by one without `run` are only counted.
        """
        heartbeat, now, samples = join_pb2.Heartbeat(), self._host.clock.elapsed(), self._runners.samples
        if samples is not None and (handlers := self._runners.slots()):
            samples.take()
            heartbeat.work.cores, heartbeat.work.handlers = self._runners.cores(), handlers
            heartbeat.work.cpu_micros = samples.process_micros
        for lease, work in self._works.items():
            records, size = work.take_load()
            busy, oldest = work.busy.take_micros(now), work.oldest_unfinished_ms or 0
            if records or size or busy or oldest:
                time = LeaseTime(0, 0) if samples is None else samples.times(lease.channel, busy)
                heartbeat.loads.add(
                    lease=str(lease),
                    records=records,
                    bytes=size,
                    busy_micros=busy,
                    oldest_unfinished_ms=oldest,
                    cpu_micros=time.cpu,
                    lost_micros=time.lost,
                )
        if heartbeat.HasField("work") and samples is not None:
            heartbeat.work.delay_micros = samples.delay_micros
        away = [name for name, cluster in self.clusters.items() if cluster.committer.unreachable]
        heartbeat.unreachable_clusters.extend(away)
        return heartbeat


def _tell(callback: Callable[[list[str]], None] | None, leases: Sequence[OwnedLease]) -> None:
    """Calls an application's callback; an error in it is logged and does not end the session."""
    if callback is None or not leases:
        return
    try:
        callback([str(held.id) for held in leases])
    except Exception:  # noqa: BLE001 - an application's callback may raise anything
        _log.exception("a callback for leases failed")
