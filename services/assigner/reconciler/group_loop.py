"""The level-triggered loop of one group while this replica leads: signals become commands, one decision at a time.

Signals (a lost member, a lease given back, a changed channel) gather while a decision is being appended; the next one
takes them all, and always ends with a balance step.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence

from braid.kernel.errors import BraidError, CorruptHistory, NotLeader
from braid.kernel.limits.assigner.leases import SIGNALS_PER_DECISION_MAX, STARTS_AT_ONCE
from braid.kernel.ports import Generation, Kafka, Task
from braid.kernel.timing.backoff import Backoff
from braid.runtime.histories.kinds import Kind
from braid.runtime.replica import Replica
from braid.telemetry.tracing import continued
from services.assigner.codec.events import GroupCodec
from services.assigner.domain import unfencing
from services.assigner.domain.decide import GroupDecider
from services.assigner.domain.shadow import Trial
from services.assigner.model import backlog_splits, generations, progress_resets, stopped_lanes
from services.assigner.model.backlog_splits import ReportSplits, ToldSplit
from services.assigner.model.commands import (
    Balance,
    Command,
    FixStart,
    Loads,
    LookAtIdle,
    ObserveChannels,
    Release,
    ReleaseLeases,
    RemoveMember,
    TakeOverdue,
    Together,
)
from services.assigner.model.events import (
    Event,
    GoneReason,
    RevokesStarted,
)
from services.assigner.model.group import Channel, Group, GroupSpec
from services.assigner.model.lag.response_events import TakeResponse, UndoResponse
from services.assigner.model.lag.scaling_events import DesireCapacity
from services.assigner.model.progress_findings import ProgressDoubted, ReportDoubts
from services.assigner.model.progress_resets import RecordReset
from services.assigner.model.registry_view import RegistryView
from services.assigner.model.stopped_lanes import ReportStops
from services.assigner.peers import RegistryFollower
from services.assigner.policy import constraints
from services.assigner.policy.measured_loads import GroupLoads, Sample
from services.assigner.policy.member_work import ToldWork, Usage
from services.assigner.policy.responses.facts import MemberFacts
from services.assigner.policy.responses.group_facts import answers_slowness, member_facts
from services.assigner.reconciler.deleted_streams import DeletedStreams
from services.assigner.reconciler.drained import DrainedReads
from services.assigner.reconciler.membership_endings import MembershipEnder
from services.assigner.reconciler.memberships import GenerationKeeper, Memberships
from services.assigner.reconciler.shadow_loop import ShadowKeeper
from services.assigner.reconciler.start_positions import write_reset, write_start

GROUPS: Kind[Group, Command, Event] = Kind("group", GroupDecider(), GroupCodec())


class GroupKeeper:
    """Decides for one group what its members' connections, the registry and its deadlines ask for.

    Attributes:
        attempt: Set once the attempt to decide that is under way, or comes next, has ended; then it is another one.
    """

    def __init__(
        self,
        replica: Replica,
        kafka: Kafka,
        registry: RegistryFollower,
        memberships: Memberships,
        name: str,
        *,
        live: Callable[[], tuple[str, ...]],
        reached: Callable[[str], bool],
        end_members: Callable[[BraidError], None],
        forget: Callable[[], bool],
    ) -> None:
        """`live` tells which members can be told something now, `reached` whether members reach a cluster.

        `end_members` ends the streams of all members, with the reason why. `forget` drops this loop where the group has
        no open streams, and returns whether it did.
        """
        self._replica = replica
        self._kafka = kafka
        self._registry = registry
        self._name = name
        self._live = live
        self._forget = forget
        self._removals: dict[str, RemoveMember] = {}
        self._removing: dict[str, RemoveMember] = {}
        self._commands: list[Command] = []
        self._causes: dict[str, str] = {}  # each with its trace
        self._signal = asyncio.Event()
        self.attempt = asyncio.Event()
        self._starts: dict[str, Task] = {}
        state, execute = self._state, self._execute_now
        self._generations = GenerationKeeper(
            replica, registry, memberships, name, state=state, execute=execute, ask=self._ask, reached=reached
        )
        self._endings = MembershipEnder(replica, kafka, registry, memberships, name, state=state, execute=execute)
        self._drained = DrainedReads(replica, kafka, registry, name, state=state, execute=execute)
        self._deleted = DeletedStreams(
            replica, registry, state=state, present=lambda: bool(live()), end_members=end_members
        )
        self._shadow = ShadowKeeper(replica, memberships.metrics, name, state=state, loads=self.loads)
        self._seen: tuple[GroupSpec | None, RegistryView | None] = (None, None)  # by the last decision
        self._loads = GroupLoads(replica.host.clock.elapsed())

    # --- signals

    def poke(self, cause: str, trace: str = "") -> None:
        """Runs the loop once more, because something changed."""
        self._causes[cause] = trace or self._causes.get(cause, "")
        self._signal.set()

    def remove(self, member: str, reason: GoneReason, cause: str) -> None:
        """Removes a member that is gone."""
        self._removals.setdefault(member, RemoveMember(member, reason))
        self.poke(cause)

    async def spare(self, member: str) -> None:
        """Drops the removal of a member that is back, or waits until the decision that contains it is made."""
        while member in self._removing:
            await self.attempt.wait()
        self.keep(member)

    def keep(self, member: str) -> None:
        """Drops the removal of a member that is here, unless the decision that contains it is made already."""
        self._removals.pop(member, None)
        self._removing.pop(member, None)  # not to be tried again, should its append fail

    def release(self, member: str, releases: tuple[Release, ...], trace: str = "") -> None:
        """Frees leases that a member gives back, in the trace of what asked for them."""
        self._commands.append(ReleaseLeases(member, releases))
        self.poke(f"given back by {member}", trace)

    def measured(self, member: str, samples: Sequence[Sample], work: ToldWork | None) -> None:
        """Takes a heartbeat's measurements of a member and its leases."""
        if samples or work is not None or self._loads.usage(member) is not None:
            self._loads.heard(self._state(), member, self._replica.host.clock.elapsed(), samples, work)

    def compared_members(self) -> Mapping[str, MemberFacts]:
        """Returns how each member compares with the others, where the group's policies ask for it."""
        state, now = self._state(), self._replica.host.clock.elapsed()
        if not answers_slowness(state.responses):
            self._loads.compare_no_more()
            return member_facts(state, {})
        return member_facts(state, self._loads.compare(state, now))

    def usage(self, member: str) -> Usage | None:
        """Returns what a member uses; None where it does not tell."""
        return self._loads.usage(member)

    def loads(self) -> Loads:
        """The measurements, as a decision uses them."""
        return self._loads.taken(self._state(), self._replica.host.clock.elapsed())

    @property
    def trial(self) -> Trial | None:
        """The result of the looks at the group's shadow policy; None without one, or before the first look."""
        return self._shadow.trial

    def look(self) -> None:
        """Decides if loads have become uneven, or if moves that rules ask for may continue."""
        self._shadow.look()
        state, now = self._state(), self._replica.host.clock.elapsed()
        if self._loads.uneven(state, now):
            self.poke("loads")
        elif self._loads.recovered(now) and state.rules.constrain:
            self.poke("the minute's moves are over")

    def take(self, lease: str, epoch: int) -> None:
        """Takes a lease whose holder let its revoke deadline pass."""
        self._commands.append(TakeOverdue(((lease, epoch),)))
        self.poke(f"revoke of {lease} overdue")

    def refused(self, cluster: str, generation: Generation) -> bool:
        """Notes that a member's commit was refused. Returns whether there is something newer to lend it."""
        return self._generations.refused(cluster, generation)

    def stopped(self, member: str, lanes: Mapping[str, str]) -> None:
        """Takes a member's report of all its stopped lanes."""
        if lanes or stopped_lanes.of_member(self._state(), member):
            self._ask(ReportStops(member, tuple(sorted(lanes.items()))), f"reported by {member}")

    def divided(self, member: str, told: Sequence[ToldSplit]) -> None:
        """Takes a member's report of all its split leases."""
        if told or backlog_splits.of_member(self._state(), member):
            self._ask(ReportSplits(member, tuple(told)), f"reported by {member}")

    def found(self, member: str, told: Sequence[ProgressDoubted]) -> None:
        """Takes a member's findings about committed progress."""
        if told:
            self._ask(ReportDoubts(member, tuple(told)), f"reported by {member}")

    def look_at_idle(self, look: LookAtIdle) -> None:
        """Checks whether the group was waited for too long."""
        self._ask(look, "idle")

    def desire(self, command: DesireCapacity) -> None:
        """Records how many members the group should have."""
        self._ask(command, "its lag and load")

    def answer(self, command: TakeResponse | UndoResponse) -> None:
        """Records a response to lag."""
        self._ask(command, "its lag")

    def _ask(self, command: Command, cause: str) -> None:
        self._commands.append(command)
        self.poke(cause)

    # --- the loop

    async def run(self) -> None:
        """Decides whenever there is a signal, until leadership ends, or nothing is left that only this loop knows.

        Of very many groups most have nothing to do for long. The next signal finds another loop.
        """
        backoff = Backoff(self._replica.host)
        while True:
            await self._signal.wait()
            self._signal.clear()
            try:
                await self._decide()
                self._fix_starts()
                self._generations.look()
                self._endings.look()
                self._drained.look()
                self._deleted.look()
                backoff.reset()
                await self._replica.host.clock.sleep(0)  # pushes that were begun are sent before the next decision
                if not self._busy and self._forget():
                    return
            except (NotLeader, CorruptHistory):
                return
            except BraidError as error:  # whatever it is, the other groups go on
                self._replica.log.warning("a group's decision is tried again", group=self._name, error=str(error))
                await backoff.wait()
                self._signal.set()

    @property
    def _busy(self) -> bool:
        """Whether something is to be decided, under way, or known to this loop alone."""
        waiting = self._signal.is_set() or self._removals or self._commands or self._starts or self._loads.begun
        parts = (self._generations, self._endings, self._drained, self._deleted, self._shadow)
        return bool(waiting or any(each.active for each in parts))

    def stop(self) -> None:
        """Ends the tasks that were started here."""
        for task in self._starts.values():
            task.cancel()
        self._generations.stop()
        self._endings.stop()
        self._drained.stop()
        self._deleted.stop()
        self._shadow.stop()

    async def _decide(self) -> None:
        removing = dict(list(self._removals.items())[:SIGNALS_PER_DECISION_MAX])
        commands = self._commands[:SIGNALS_PER_DECISION_MAX]
        causes, self._causes = self._causes, {}
        for member in removing:
            del self._removals[member]
        self._removing = removing
        seen = (self._state().spec, self._registry.view)
        observations = [] if seen == self._seen else _observations(*seen)
        together = Together((*commands, *removing.values(), *observations, self._balance()))
        try:
            with continued(next(filter(None, causes.values()), "")):
                outcome = await self._execute(together, _text(causes))
        except BaseException:
            self._removals = {**removing, **self._removals}
            self._causes = {**causes, **self._causes}
            raise
        finally:
            self._removing = {}
            ended, self.attempt = self.attempt, asyncio.Event()
            ended.set()
        self._seen = seen
        del self._commands[: len(commands)]
        if outcome or self._removals or self._commands:
            self._signal.set()  # until a step finds nothing to do

    async def _execute(self, command: Command, cause: str) -> bool:
        """Executes a command; returns whether anything was decided."""
        outcome = await self._replica.aggregates.execute(
            GROUPS, self._name, command, actor=self._replica.instance, cause=cause
        )
        events = [record.event for record in outcome.events]
        for event in events:
            if isinstance(event, RevokesStarted):
                ruled = constraints.asked_for(outcome.state, event)
                self._loads.moved(len(event.leases), self._replica.host.clock.elapsed(), ruled)
        return bool(outcome.events)

    async def _execute_now(self, command: Command, cause: str) -> bool:
        """Executes a command and the balance step that follows from it, outside the loop."""
        return await self._execute(Together((command, self._balance())), cause)

    def _balance(self) -> Balance:
        return Balance(self._live(), self.loads())

    def _state(self) -> Group:
        return self._replica.aggregates.state(GROUPS, self._name)

    # --- start positions

    def _fix_starts(self) -> None:
        state = self._state()
        for name, channel in sorted(state.channels.items()):
            wanted = channel.awaits_start and state.spec is not None and state.spec.wants(channel.id)
            if (wanted or channel.reset is not None) and name not in self._starts:
                if len(self._starts) >= STARTS_AT_ONCE:
                    return  # each that is written begins the next
                task = self._replica.host.tasks.spawn(self._fix_start(name), f"start of {self._name} in {name}")
                self._starts[name] = task

    async def _fix_start(self, name: str) -> None:
        """Writes a start, or what replaces progress, then records it, trying until its cluster answers.

        Other channels have their own tasks.
        """
        backoff = Backoff(self._replica.host)
        try:
            while not await self._start_fixed(name):
                await backoff.wait()
        except (NotLeader, CorruptHistory):
            return  # the next leader finds what was written
        finally:
            self._starts.pop(name, None)

    async def _start_fixed(self, name: str) -> bool:
        """One attempt; True when there is nothing left to do."""
        state, view = self._state(), self._registry.view
        channel = state.channels.get(name)
        if channel is None or state.spec is None:
            return True
        if channel.reset is not None and progress_resets.resettable(state, channel):
            return await self._reset_done(state, channel, channel.reset)
        if not channel.awaits_start:
            return True
        if channel.cluster in unfencing.ending(state):
            return False  # the group is deleted and written anew there
        place = view.clusters.get(channel.cluster) if view else None
        if place is None:
            return False
        try:
            authority = self._replica.require_leader
            generation = generations.lent(state, channel.cluster)
            offsets = await write_start(
                self._kafka, place, self._name, channel, state.spec.start, authority, generation
            )
            await self._execute(FixStart(name, offsets), f"start written on {channel.cluster}")
        except (NotLeader, CorruptHistory):
            raise
        except BraidError as error:
            self._replica.log.info("a start waits for its cluster", channel=name, group=self._name, error=str(error))
            return False
        return True

    async def _reset_done(self, state: Group, channel: Channel, wanted: tuple[int, ...]) -> bool:
        """One attempt to replace progress; waits for a newer generation where somebody could still commit."""
        view = self._registry.view
        place = view.clusters.get(channel.cluster) if view else None
        if place is None or channel.cluster in generations.gated(state):
            return False
        try:
            generation = generations.lent(state, channel.cluster)
            authority = self._replica.require_leader
            await write_reset(
                self._kafka, place, self._name, channel.topic, wanted, state.last_epoch, authority, generation
            )
            await self._execute(RecordReset(str(channel.id), wanted), f"progress written on {channel.cluster}")
        except (NotLeader, CorruptHistory):
            raise
        except BraidError as error:
            where = str(channel.id)
            self._replica.log.info("a reset waits for its cluster", channel=where, group=self._name, error=str(error))
            return False
        return self._state().channels[str(channel.id)].reset is None


def _observations(spec: GroupSpec | None, view: RegistryView | None) -> list[Command]:
    return [] if spec is None or view is None else [ObserveChannels(view.of(spec.streams))]


def _text(causes: Mapping[str, str]) -> str:
    """Joins the causes of a decision for its events; at most three are named."""
    named = list(causes)[:3]
    more = [f"{len(causes) - 3} more"] if len(causes) > 3 else []
    return "; ".join(named + more)
