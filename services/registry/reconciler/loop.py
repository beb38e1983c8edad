"""The level-triggered loop of a leading registry: read the world, decide what `policy.plan` says, start the work.

It keeps no state that a new leader needs: results are in the histories, the rest is read again. Each channel has at
most one step under way. A step that fails is retried after a while, and logged once.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial

from braid.kernel.errors import BraidError
from braid.kernel.limits.registry.resources import (
    LOSS_SEEN_SECONDS,
    RECONCILE_SECONDS,
    WORK_AT_ONCE,
    WORK_RETRY_SECONDS,
)
from braid.kernel.limits.registry.traffic import ARRIVALS_LOOK_SECONDS, DECIDE_SECONDS, MOVES_PER_ROUND_MAX
from braid.kernel.offset_ranges import united
from braid.kernel.resumptions import Resumption
from braid.runtime.replica import Replica
from braid.telemetry.tracing import continued
from services.registry.histories import CLUSTERS, STREAMS, read_world
from services.registry.kafka import drain
from services.registry.kafka.clients import Access
from services.registry.kafka.drain import HeldStep
from services.registry.liveness.producer_sessions import Sessions
from services.registry.model.channels import CONSUMABLE, Channel, ChannelRef, ChannelState, DrainStep
from services.registry.model.clusters.cluster import Cluster
from services.registry.model.clusters.loads import MeasuredLoad
from services.registry.model.stream_commands import (
    PlanChannel,
    RecordProducersLeft,
    RecordRetentionRestored,
    ReportLoss,
    ReportOverwritten,
    StreamCommand,
)
from services.registry.model.streams import Stream, StreamSpec
from services.registry.ownership import deletion
from services.registry.ownership.mark_log import MarkLogs
from services.registry.peers import Peers
from services.registry.policy.channel_work import Work, next_work
from services.registry.policy.decommission import ClusterDecision, left_on, plan_emptied
from services.registry.policy.plan import Decision, plan, plan_moves, waits
from services.registry.policy.world import World
from services.registry.reconciler import provision
from services.registry.reconciler.channel_traces import ChannelTraces
from services.registry.term_tasks import KeyedTasks, Signal, wait_for

_CONFIGURED = (ChannelState.STANDBY, ChannelState.ACTIVE)
_Key = tuple[str, ChannelRef]
_Declared = tuple[StreamSpec, bool, int, int]  # what a topic's configuration follows from


@dataclass(frozen=True, slots=True)
class _Job:
    """One step of one channel."""

    stream: Stream
    channel: Channel
    cluster: Cluster
    work: Work | None  # None: bring the topic's configuration up to date
    resumptions: frozenset[Resumption] = frozenset()  # to be looked at

    @property
    def key(self) -> _Key:
        return self.stream.name, self.channel.ref

    @property
    def name(self) -> str:
        """The step's name, for people."""
        return self.work.value if self.work else "configure topic"


class Reconciler:
    """The reconciliation loop of one term.

    Attributes:
        holders: Who or what holds each channel's present step.
        problems: Why each channel's last attempt failed; removed at the next success.
        traces: The traces that steps of channels continue.
    """

    def __init__(
        self,
        replica: Replica,
        access: Access,
        marks: MarkLogs,
        peers: Peers,
        sessions: Sessions,
        placing: asyncio.Lock,
        broken: Callable[[], Mapping[tuple[str, str], str]],
        answering: Callable[[], Collection[str]],
        loads: Callable[[], Mapping[str, MeasuredLoad]],
    ) -> None:
        """Prepares a term. `placing` is held from reading clusters to the append that depends on it; the rest are parts
        of `World`."""
        self.holders: dict[_Key, tuple[str, ...]] = {}
        self.problems: dict[_Key, BraidError] = {}
        self.traces = ChannelTraces(replica.host.clock)
        self._replica = replica
        self._access = access
        self._marks = marks
        self._peers = peers
        self._sessions = sessions
        self._placing = placing
        self._broken = broken
        self._answering = answering
        self._loads = loads
        self._running = KeyedTasks(replica.host)
        self._wake = Signal()
        self._not_before: dict[_Key, dict[Work | None, float]] = {}  # by step: one that may wait long holds up no other
        self._configured: dict[_Key, _Declared] = {}
        self._said: dict[str, str] = {}
        self._suspected: dict[_Key, tuple[ReportLoss, float]] = {}
        self._undecided: dict[_Key, frozenset[Resumption]] = {}  # beside a loss that is being recorded

    def wake(self) -> None:
        """Requests a round at once, after a change."""
        self._wake.fire()

    def producers_moved(self) -> None:
        """Retries waiting steps at once, after a producer acknowledged or left."""
        for key in [key for key in self._not_before if key not in self.problems]:
            del self._not_before[key]
        self._wake.fire()

    async def run(self) -> None:
        """Reconciles until cancelled."""
        try:
            while True:
                woken = self._wake.next()
                if await self._move(self.world()):
                    continue
                decided = await self._decide(self.world())
                self._start_work(self.world())
                if decided:
                    await wait_for(woken, RECONCILE_SECONDS)
        finally:
            await self._running.stop()

    def world(self) -> World:
        """The world as this leader knows it now."""
        world = read_world(self._replica.aggregates, self._replica.host.clock.now_ms(), self._replica.waits)
        return replace(world, broken=self._broken(), answering=self._answering(), loads=self._loads())

    # --- decisions

    async def _move(self, world: World) -> bool:
        """Moves traffic off failing clusters. Returns whether more must move: a full round moved, or some is held."""
        planned, moved = plan_moves(world), 0
        for decision in planned.decisions:
            moved += await self._execute(decision.stream, decision.command, decision.cause)
        if planned.held and not moved:
            self._start_work(world)  # who is found to have let go makes room
            await self._replica.host.clock.sleep(ARRIVALS_LOOK_SECONDS)
        return planned.held or moved == MOVES_PER_ROUND_MAX

    async def _decide(self, world: World) -> bool:
        """Executes the plan; returns whether all of it. With thousands of decisions, moves interrupt it and the rest is
        planned anew."""
        await self._replica.waits.keep(waits(world))
        decisions, clock = plan(world), self._replica.host.clock
        began = clock.elapsed()
        for decision in decisions:
            if clock.elapsed() - began > DECIDE_SECONDS:
                return False
            if isinstance(decision.command, PlanChannel):
                await self._place(decision, decision.command)
            else:
                await self._execute(decision.stream, decision.command, decision.cause)
        for empty in plan_emptied(world):
            await self._call_empty(empty)
        return True

    async def _place(self, decision: Decision, command: PlanChannel) -> None:
        """Plans a channel, unless its cluster was closed since the plan was made."""
        async with self._placing:
            if self.world().cluster(command.cluster).takes_traffic:
                await self._execute(decision.stream, command, decision.cause)

    async def _call_empty(self, decision: ClusterDecision) -> None:
        async with self._placing:
            if left_on(self.world(), decision.cluster):
                return
            try:
                await self._replica.aggregates.execute(
                    CLUSTERS, decision.cluster, decision.command, actor=self._replica.instance, cause=decision.cause
                )
            except BraidError as error:
                self._replica.log.warning("not recorded", cluster=decision.cluster, error=str(error))
                return
        self._replica.log.info("cluster", cluster=decision.cluster, change="empty")

    async def _execute(self, stream: str, command: StreamCommand, cause: str) -> bool:
        """Records one decision; returns whether it was. A plan from an older state may be refused: the next round plans
        anew."""
        try:
            outcome = await self._replica.aggregates.execute(
                STREAMS, stream, command, actor=self._replica.instance, cause=cause
            )
        except BraidError as error:
            if self._said.get(stream) != error.message:
                self._replica.log.warning("not recorded", stream=stream, command=repr(command), error=str(error))
            self._said[stream] = error.message
            return False
        self._said.pop(stream, None)
        for record in outcome.events:
            self._replica.log.info("stream", stream=stream, change=repr(record.event), cause=cause)
        return True

    # --- work

    def _start_work(self, world: World) -> None:
        """Starts due steps, up to the limit. Steps that retention threatens start first, beyond the limit."""
        now = self._replica.host.clock.elapsed()
        jobs = [
            job
            for stream in world.streams.values()
            for channel in stream.channels
            if (job := self._job(world, stream, channel))
        ]
        for job in sorted(jobs, key=lambda job: job.work is not Work.LIFT_RETENTION):
            at_once = 2 * WORK_AT_ONCE if job.work is Work.LIFT_RETENTION else WORK_AT_ONCE
            if len(self._running) < at_once and now >= self._not_before.get(job.key, {}).get(job.work, 0.0):
                self._running.start(f"{job.stream.name}/{job.channel.ref}", partial(self._work, job))

    def _job(self, world: World, stream: Stream, channel: Channel) -> _Job | None:
        cluster = world.cluster(channel.cluster)
        told_late = channel.producers_left and not channel.retiring
        if told_late and self._sessions.receipts(stream.name, channel):
            return _Job(stream, channel, cluster, Work.AWAIT_PRODUCERS)
        work = next_work(world, channel)
        there = cluster.reachable and not world.lost(channel) and channel.state in CONSUMABLE
        if work is Work.LIFT_RETENTION:
            fails = channel.drain_step is DrainStep.PRODUCERS and (stream.name, channel.ref) in self.problems
            return _Job(stream, channel, cluster, Work.AWAIT_PRODUCERS if fails else work)
        if there and (resumed := self._sessions.resumptions(stream.name, channel)):
            return _Job(stream, channel, cluster, Work.LOOK_FOR_CUTS, resumed)
        in_use = channel.state in _CONFIGURED and not channel.retiring and not world.in_trouble(channel)
        stale = self._configured.get((stream.name, channel.ref)) != _declared(stream, channel)
        if in_use and stale and work in (None, Work.AWAIT_TAIL):
            return _Job(stream, channel, cluster, None)
        return _Job(stream, channel, cluster, work) if work is not None else None

    async def _work(self, job: _Job) -> None:
        """Makes one attempt at one step."""
        try:
            result = await self._perform(job)
        except BraidError as error:
            self._failed(job, error)
            return
        self.problems.pop(job.key, None)
        loss = result.loss if isinstance(result, HeldStep) else None
        confirmed = self._is_confirmed(job, loss)
        if isinstance(result, HeldStep):
            self.holders[job.key] = result.holders
            if loss is None or not confirmed:
                self._later(job, result.seconds)
                return
            result = loss
        self.holders.pop(job.key, None)
        self._not_before.pop(job.key, None)
        if result is not None and not await self._record(job, result):
            self._later(job)
        elif isinstance(result, RecordProducersLeft):
            self._sessions.forget_receipts(job.stream.name, job.channel, result.acknowledged)
        elif isinstance(result, ReportOverwritten) and job.work is not Work.LOOK_FOR_CUTS:
            self._later(job)  # a canary was taken: leaders learn of a seal one by one
        elif isinstance(result, ReportOverwritten):
            decided = job.resumptions - self._undecided.pop(job.key, frozenset())
            self._sessions.looked_at(job.stream.name, job.channel, decided)
        self.wake()

    async def _record(self, job: _Job, result: StreamCommand) -> bool:
        """Records a step's result, in the trace of what changed the channel before."""
        with continued(self.traces.of(job.stream.name, job.channel.ref)):
            return await self._execute(job.stream.name, result, f"{job.channel.ref}: {job.name}")

    def _is_confirmed(self, job: _Job, loss: ReportLoss | None) -> bool:
        """Whether an unrecorded loss has been visible and unchanged for long enough to record it."""
        if loss is None or loss.ranges == job.channel.lost or job.channel.closed:
            self._suspected.pop(job.key, None)
            return False
        now = self._replica.host.clock.elapsed()
        seen, since = self._suspected.get(job.key, (loss, now))
        since = since if seen.ranges == loss.ranges else now
        self._suspected[job.key] = (loss, since)
        return now - since >= LOSS_SEEN_SECONDS

    async def _perform(self, job: _Job) -> StreamCommand | HeldStep | None:
        access, channel, cluster = self._access, job.channel, job.cluster
        match job.work:
            case None:
                await provision.reconfigure_topic(access, cluster, job.stream, channel)
                self._configured[job.key] = _declared(job.stream, channel)
                return None
            case Work.CREATE_TOPIC:
                return await provision.create_topic(access, self._marks, cluster, job.stream, channel)
            case Work.LOOK_FOR_CUTS:
                return await self._look_for_cuts(job)
            case Work.LIFT_RETENTION:
                return await drain.lift_retention(access, cluster, channel)
            case Work.AWAIT_PRODUCERS:
                return self._producers_left(job)
            case Work.SEAL:
                return await drain.seal(access, cluster, channel, self._replica.host.clock)
            case Work.READ_END_OFFSETS:
                return await drain.read_end_offsets(access, cluster, channel)
            case Work.AWAIT_GROUPS:
                return await drain.await_groups(access, self._peers, cluster, job.stream.name, channel)
            case Work.AWAIT_TAIL:
                if unsure := self._replica.waits.stopped:
                    return HeldStep((unsure,))
                now_ms = self._replica.host.clock.now_ms()
                return await drain.await_tail(access, self._peers, cluster, job.stream, channel, now_ms)
            case Work.RESTORE_RETENTION:
                await provision.restore_retention(access, cluster, job.stream, channel)
                return RecordRetentionRestored(channel.ref)
            case Work.RETIRE:
                name = str(channel.id(job.stream.name))
                revision = self._replica.aggregates.revision
                clock = self._replica.host.clock
                return await deletion.retire(access, self._marks, self._peers, cluster, name, channel, revision, clock)

    async def _look_for_cuts(self, job: _Job) -> StreamCommand | HeldStep | None:
        """Checks logs for truncation. For a draining channel, an undecided case stays so: nothing is written there any
        more."""
        found = await drain.look_for_cuts(self._access, job.cluster, job.channel, job.resumptions)
        waits = frozenset(found.open) if job.channel.state is ChannelState.ACTIVE else frozenset()
        if united((*job.channel.overwritten, *found.lost)) != job.channel.overwritten:
            self._undecided[job.key] = waits
            return ReportOverwritten(job.channel.ref, found.lost, found.evidence)
        self._sessions.looked_at(job.stream.name, job.channel, job.resumptions - waits)
        return HeldStep(("its logs are shorter than what producers saw of them",)) if waits else None

    def _producers_left(self, job: _Job) -> StreamCommand | HeldStep:
        """Records that producers left, with receipts of a producer that came back after nobody waited for it."""
        current = self._replica.aggregates.state(STREAMS, job.stream.name).route_revision
        now = self._replica.host.clock.elapsed()
        standing = self._sessions.standing(job.stream.name, job.channel, current, now)
        if standing.holders and not job.channel.producers_left:
            return HeldStep(tuple(standing.holders))
        known = self._sessions.known_ends(job.stream.name, job.channel)
        return RecordProducersLeft(job.channel.ref, current, tuple(standing.expired), known, standing.unheard)

    def _failed(self, job: _Job, error: BraidError) -> None:
        before = self.problems.get(job.key)
        self.problems[job.key] = error
        self.holders[job.key] = (str(error),)
        self._later(job)
        if before is None or before.message != error.message:
            channel = str(job.channel.id(job.stream.name))
            self._replica.log.warning("channel waits", channel=channel, work=job.name, error=str(error))

    def _later(self, job: _Job, seconds: float = WORK_RETRY_SECONDS) -> None:
        self._not_before[job.key] = {job.work: self._replica.host.clock.elapsed() + seconds}


def _declared(stream: Stream, channel: Channel) -> _Declared:
    return stream.spec, channel.keeps_everything, channel.copies, channel.copies_intended
