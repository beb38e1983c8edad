"""One term as leader: connected members, awaited members and passed deadlines. Every group's loop runs within it.

Knowledge of connections lives here and ends with the term; `group_loop`'s keepers decide what follows from it. No
messages are read or written here: the members' streams are in `servicer/member_session.py`.
"""

from collections.abc import Collection, Iterable

from braid.kernel.errors import BraidError, LeaseLost, NotLeader, Unavailable
from braid.kernel.ids import ChannelId
from braid.kernel.limits.assigner.leases import (
    DEADLINE_BEAT_SECONDS,
    IDLE_CHECK_SECONDS,
    LEADER_GRACE_SECONDS,
)
from braid.kernel.limits.assigner.placement import BALANCE_LOOK_SECONDS
from braid.kernel.ports import Kafka, Task
from braid.runtime.histories.kinds import Change, Reloaded
from braid.runtime.replica import Replica
from braid.runtime.telemetry import AssignerMetrics
from braid.runtime.traces.pushes import PushSpans
from services.assigner.liveness.member_deadlines import MemberDeadlines, RevokeKey, grace_seconds
from services.assigner.liveness.member_streams import MemberKey, MemberStream, MemberStreams
from services.assigner.liveness.newcomers import Newcomers
from services.assigner.model import generations
from services.assigner.model.channels import ChannelView
from services.assigner.model.events import GoneReason, MemberGone, MemberJoined
from services.assigner.model.group import Fencing, Group, GroupSpec, Ownership
from services.assigner.model.registry_view import ClusterPlace
from services.assigner.model.stream_readers import StreamReaders
from services.assigner.peers import LagPeers, RegistryFollower
from services.assigner.policy.member_work import Usage
from services.assigner.reconciler.gauges import GroupGauges
from services.assigner.reconciler.group_loop import GROUPS, GroupKeeper
from services.assigner.reconciler.group_queue import GroupQueue
from services.assigner.reconciler.idle_groups import IdleWatch
from services.assigner.reconciler.member_pushes import MemberPushes
from services.assigner.reconciler.memberships import Memberships
from services.assigner.reconciler.placement_looks import PlacementLooks
from services.assigner.reconciler.response_watch import ResponseWatch
from services.assigner.reconciler.scaling_watch import ScalingWatch
from services.assigner.reconciler.takeover import Takeover


class Term:
    """This replica's time as leader."""

    def __init__(
        self,
        replica: Replica,
        registry: RegistryFollower,
        kafka: Kafka,
        metrics: AssignerMetrics,
        gauges: GroupGauges,
        idle_expiry_seconds: float,
    ) -> None:
        self._replica = replica
        self._registry = registry
        self._kafka = kafka
        self._gauges = gauges
        self._memberships = Memberships(kafka, metrics)
        self._idle = IdleWatch(replica, metrics, round(idle_expiry_seconds * 1000), self.keeper)
        lag = LagPeers(replica.host, replica.client("registry"), replica.client("lagmon"))
        self._scaling = ScalingWatch(replica, lag, self.keeper)
        self._clock = replica.host.clock
        now = self._clock.elapsed()
        self._elected_at = now
        self._idle_checked_at = now
        self._shown_at = now
        self._streams = MemberStreams()
        self._responses = ResponseWatch(replica, lag, gauges, self.keeper, self._streams.of)
        self._placements = PlacementLooks(replica, self.keeper, lambda: self._streams.groups)
        self._pushes = MemberPushes(replica, self._streams)
        self._deadlines = MemberDeadlines(now)
        self._newcomers = Newcomers()
        self._readers = StreamReaders()
        self._concerned = GroupQueue(replica.host.tasks, self.keeper)  # by a change of the registry's channels
        self._all_groups = GroupQueue(replica.host.tasks, self.keeper)
        self._takeover = Takeover(replica, self._deadlines, self._all_groups, self._take_over)
        self._keepers: dict[str, GroupKeeper] = {}
        self._loops: dict[str, Task] = {}
        looks = (self._idle, self._scaling, self._responses, self._placements)
        self._followers = (*(each.follow for each in looks), gauges.follow)
        self._stops = tuple(each.stop for each in (self._takeover, self._concerned, self._all_groups, *looks))
        self._tasks: list[Task] = []
        self._over = False
        self.push_spans = PushSpans()

    # --- what streams ask

    def valid(self) -> bool:
        """Whether this term's authority holds at this instant."""
        return not self._over and self._replica.leading()

    def keeper(self, group: str) -> GroupKeeper:
        """Returns the loop of a group, for use before anything is awaited; it starts when it is asked for."""
        known = self._keepers.get(group)
        if known is not None:
            return known
        parts = (self._replica, self._kafka, self._registry, self._memberships)
        keeper = GroupKeeper(
            *parts,
            group,
            live=lambda: self._placeable(group),
            reached=lambda cluster: self._reached(group, cluster),
            end_members=lambda error: self._end_members(group, error),
            forget=lambda: self._forget(group),
        )
        self._keepers[group] = keeper
        self._loops[group] = self._replica.host.tasks.spawn(keeper.run(), f"group {group}")
        return keeper

    def usage(self, key: MemberKey) -> Usage | None:
        """Returns what a member uses; None where it does not tell."""
        keeper = self._keepers.get(key.group)
        return None if keeper is None else keeper.usage(key.member)

    def _forget(self, group: str) -> bool:
        """Drops a group's loop, unless members are connected or joining: it says itself that it has nothing to do."""
        if self._streams.of(group) or self._newcomers.any(group):
            return False
        del self._keepers[group], self._loops[group]
        return True

    def _placeable(self, group: str) -> tuple[str, ...]:
        """Returns members that may be granted a lease now.

        An exclusive group waits after a restore of the store, until whatever was granted after the backup has expired.
        """
        state = self._replica.aggregates.state(GROUPS, group)
        grace_ends = self._elected_at + grace_seconds(state, LEADER_GRACE_SECONDS)
        if self._may_be_held(state) and self._clock.elapsed() < grace_ends:
            return ()
        return self._streams.staying(group)

    def _may_be_held(self, state: Group) -> bool:
        """Whether leases of an exclusive group may have holders that its history does not know."""
        exclusive = self._ownership(state.name) is Ownership.EXCLUSIVE
        return exclusive and generations.nothing_granted_since_restore(state, self._replica.aggregates.incarnation)

    async def check_vacant(self, group: str, spec: GroupSpec, view: ChannelView) -> None:
        """Checks a group's name before it is registered. Raises `GroupOccupied` when other Kafka consumers use it."""
        if spec.fencing is Fencing.GENERATION:
            wanted = {seen.cluster for seen in view.channels if spec.wants(ChannelId.parse(seen.name))}
            await self._memberships.check_vacant(group, self._places(wanted))

    def deleted(self, state: Group) -> None:
        """Ends the memberships of a deleted group."""
        for cluster, fence in state.fences.items():
            for place in self._places([cluster]):
                end = self._memberships.leave(state.name, fence.member_id, place)
                self._tasks.append(self._replica.host.tasks.spawn(end, f"{state.name} leaves {cluster}"))

    def _places(self, clusters: Iterable[str]) -> list[ClusterPlace]:
        known = self._registry.view.clusters if self._registry.view else {}
        return [known[cluster] for cluster in sorted(clusters) if cluster in known]

    def greet(self, key: MemberKey) -> None:
        """Notes that a member said hello.

        Until `joined`, neither its older stream's end nor its deadline removes it.
        """
        self._newcomers.begin(key)
        if not self._deadlines.expelled(key):
            self._expect(key)

    async def admit(self, key: MemberKey) -> None:
        """Checks a member before its join is decided.

        Raises:
            LeaseLost: it did not give back what it was asked for, and must let its lease run out first.
        """
        if self._deadlines.expelled(key):
            raise LeaseLost(
                f"member {key.member} overran a revoke's deadline", remedy="join again when its lease has run out"
            )
        if key.member in self._replica.aggregates.state(GROUPS, key.group).members:
            await self.keeper(key.group).spare(key.member)
            self._expect(key)

    def joined(self, key: MemberKey) -> None:
        """Notes that its join was decided, or has failed."""
        if self._newcomers.end(key):
            self._place_newcomers(key.group)

    def _place_newcomers(self, group: str) -> None:
        if (cause := self._newcomers.take(group)) is not None:
            self.keeper(group).poke(cause)

    def attach(self, key: MemberKey, stream: MemberStream) -> None:
        """Makes this the member's stream; an older one is ended, and an undecided removal is dropped."""
        self.keeper(key.group).keep(key.member)
        older = self._streams.get(key)
        self._streams.set(key, stream)
        if older is not None:
            older.end(LeaseLost("a newer stream of the same member replaced this one", remedy="join once per member"))
        self.heard(key, stream)
        self._newcomers.wait(key.group, self._clock.elapsed(), f"{key.member} is here")

    def leaving(self, key: MemberKey, stream: MemberStream) -> None:
        """Notes that the member wants no more grants on this stream."""
        if self._streams.get(key) is stream:
            self._streams.leave(key)

    def heard(self, key: MemberKey, stream: MemberStream) -> bool:
        """Notes a sign of life on this stream. Returns False when the stream counts no more, and must get no answer."""
        if self._streams.get(key) is not stream or not self.valid():
            return False
        self._deadlines.heard(key, self._clock.elapsed(), stream.lease_seconds)
        return True

    def heard_together(self, beating: Iterable[tuple[int, MemberStream | None]]) -> list[int]:
        """Notes what `heard` does, for many at one moment by their tickets; returns the tickets that count no more."""
        valid, now = self.valid(), self._clock.elapsed()
        unheard: list[int] = []
        for ticket, stream in beating:
            if valid and stream is not None and self._streams.get(stream.key) is stream:
                self._deadlines.heard(stream.key, now, stream.lease_seconds)
            else:
                unheard.append(ticket)
        return unheard

    def detach(self, key: MemberKey, stream: MemberStream, *, left: bool, returns: bool = False) -> None:
        """The stream is over. A member keeps its leases until its deadline where it is exclusive and did not leave.

        So does one that `returns`, because its stream was ended from here: nothing is wrong with it.
        """
        if self._streams.get(key) is not stream:
            return
        self._streams.pop(key)
        if self._over:
            return
        keeper = self.keeper(key.group)
        if left:
            keeper.remove(key.member, GoneReason.LEFT, f"{key.member} left")
        elif returns:
            return
        elif self._ownership(key.group) is not Ownership.EXCLUSIVE and not self._newcomers.joining(key):
            keeper.remove(key.member, GoneReason.DISCONNECTED, f"stream of {key.member} broke")
        else:
            keeper.poke(f"stream of {key.member} broke")

    def connected(self, key: MemberKey) -> bool:
        """Whether the member's stream is open."""
        return key in self._streams

    # --- its life

    async def run(self) -> None:
        """Leads until cancelled."""
        aggregates = self._replica.aggregates
        endings = [aggregates.subscribe(self._changed), self._registry.subscribe(self._registry_spoke)]
        self._takeover.begin()
        try:
            while True:
                await self._clock.sleep(DEADLINE_BEAT_SECONDS)
                if self.valid():
                    self._judge(self._clock.elapsed())
        finally:
            self._over = True
            for end in endings:
                end()
            self._close()

    def _take_over(self, state: Group) -> None:
        """Takes a group over, as it is now."""
        self._follow(state)
        if self._may_be_held(state):
            self._tasks.append(self._replica.host.tasks.spawn(self._poke_later(state.name), f"grace of {state.name}"))

    def _follow(self, state: Group) -> None:
        """Lets each kind of look know whether the group is one to look at."""
        view = self._registry.view
        self._readers.follow(state, 0 if view is None else view.revision)
        for follow in self._followers:
            follow(state)

    async def _poke_later(self, group: str) -> None:
        """Runs the group's loop again once unknown leases have expired."""
        state = self._replica.aggregates.state(GROUPS, group)
        await self._clock.sleep(grace_seconds(state, LEADER_GRACE_SECONDS))
        self.keeper(group).poke("leases from before the restore have expired")

    def _close(self) -> None:
        for keeper in self._keepers.values():
            keeper.stop()
        for stop in self._stops:
            stop()
        self._gauges.clear()
        for task in (*self._loops.values(), *self._tasks):
            task.cancel()
        self._pushes.stop()
        self._replica.host.tasks.spawn(self._memberships.close(), "memberships end")
        error = NotLeader(f"{self._replica.instance} no longer leads", remedy="ask the leader")
        for stream in self._streams:
            stream.end(error)

    # --- deadlines

    def _expect(self, key: MemberKey) -> None:
        state = self._replica.aggregates.state(GROUPS, key.group)
        self._deadlines.expect(state, key.member, self._clock.elapsed())

    def _judge(self, now: float) -> None:
        for member in self._deadlines.missed_members(now):
            if self._newcomers.joining(member) and not self._deadlines.expelled(member):
                self._expect(member)
            else:
                self._expire(member)
        for group in self._newcomers.overdue(now):
            self._place_newcomers(group)
        for revoke in self._deadlines.missed_revokes(now):
            self._overdue(revoke)
        if self._takeover.over and now - self._idle_checked_at >= IDLE_CHECK_SECONDS:  # a wait not named would end
            self._idle_checked_at = now
            self._idle.look()
        self._scaling.look()
        self._responses.look()
        self._placements.look()
        if now - self._shown_at >= BALANCE_LOOK_SECONDS:
            self._shown_at = now
            state = self._replica.aggregates.state
            self._gauges.show({name: state(GROUPS, name) for name in self._gauges.names})

    def _expire(self, key: MemberKey) -> None:
        """Removes a member: nothing it sends is answered from now on, so its own deadline passes too."""
        self._end_stream(key, "no heartbeat came for the lease time")
        self._deadlines.forget(key)
        self.keeper(key.group).remove(key.member, GoneReason.EXPIRED, f"no heartbeat of {key.member}")

    def _overdue(self, key: RevokeKey) -> None:
        """Takes an overdue lease. An exclusive member is cut off instead, and its lease runs out."""
        if self._ownership(key.group) is not Ownership.EXCLUSIVE:
            self.keeper(key.group).take(key.lease, key.epoch)
            return
        lease = self._replica.aggregates.state(GROUPS, key.group).leases.get(key.lease)
        if lease is None or lease.epoch != key.epoch or not lease.holder:
            return
        member = MemberKey(key.group, lease.holder)
        self._deadlines.expel(member)
        self._end_stream(member, f"{key.lease} was not given back in time", "join again when the lease ran out")

    # --- what was decided, and what the registry said

    def _changed(self, change: Change | Reloaded) -> None:
        if isinstance(change, Reloaded):
            self._reloaded()
            return
        if change.history.kind != GROUPS.name:
            return
        touched: dict[MemberKey, MemberStream] = {}
        state, now = self._replica.aggregates.state(GROUPS, change.history.id), self._clock.elapsed()
        for record in change.events:
            self._deadlines.follow(state, record.event, now)
            if isinstance(record.event, MemberGone):
                self._end_stream(MemberKey(state.name, record.event.member), "the member is gone from its group")
            touched |= self._pushes.tell(change.history.id, record.event, record.context.trace)
        self._pushes.flush(touched.values())
        self._follow(state)
        self._gauges.count(state.name, (record.event for record in change.events))
        last = change.events[-1]
        cause = f"{type(last.event).__name__} {last.sequence}"
        if all(isinstance(record.event, MemberJoined) for record in change.events):
            self._newcomers.wait(change.history.id, now, cause)
        else:
            self.keeper(change.history.id).poke(cause, last.context.trace)

    def _end_stream(self, key: MemberKey, reason: str, remedy: str = "join again") -> None:
        stream = self._streams.pop(key)
        if stream is not None:
            stream.end(LeaseLost(reason, remedy=remedy))

    def _reloaded(self) -> None:
        """Ends all streams, because members may have been told what histories no longer say; they join again."""
        streams = list(self._streams)
        self._streams.clear()
        for stream in streams:
            stream.end(Unavailable("the histories were read again", remedy="join again"))
        self._elected_at = self._clock.elapsed()
        self._deadlines.begin_anew()
        self._takeover.begin()

    def _registry_spoke(self, streams: Collection[str] | None) -> None:
        cause, view = "the registry's channels changed", self._registry.view
        if streams is None or view is None:
            self._pushes.flush(self._streams)  # what waited for a cluster's address
            self._all_groups.add(self._replica.aggregates.states(GROUPS), cause, self._registry.trace)
        else:
            self._concerned.add(self._readers.concerned(streams, view.revision), cause, self._registry.trace)

    def _end_members(self, group: str, error: BraidError) -> None:
        for stream in list(self._streams.of(group)):
            stream.end(error)

    def _reached(self, group: str, cluster: str) -> bool:
        return any(stream.reaches(cluster) for stream in self._streams.of(group))

    def _ownership(self, group: str) -> Ownership:
        spec = self._replica.aggregates.state(GROUPS, group).spec
        return spec.ownership if spec else Ownership.AT_LEAST_ONCE
