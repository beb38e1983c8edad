"""The Join stream of one member: welcome, heartbeats, pushed changes and returned leases.

The stream reports to the term (`reconciler.term`) and is told what to push; it decides nothing. Each message is sent
only while this replica has authority at that instant.
"""

import asyncio
from collections import deque
from collections.abc import Sequence

from braid.api.assigner.v1 import beat_pb2, join_pb2
from braid.api.mesh.v1.endpoint_pb2 import ClusterAddress
from braid.kernel.errors import BraidError, Exhausted, Invalid, NotLeader, StreamExpired, Unavailable
from braid.kernel.limits.assigner.leases import (
    DELTA_LEASES_MAX,
    HEARTBEAT_MS_MAX,
    HEARTBEATS_PER_LEASE,
    NAMESAKES_MAX,
    OUTBOX_BYTES_MAX,
)
from braid.kernel.limits.rpc import OUTBOX_MESSAGES_MAX, STREAM_CLOSE_SECONDS
from braid.kernel.ports import DuplexServing, Generation, Task
from braid.runtime.replica import Replica
from braid.telemetry.tracing import Attribute
from services.assigner.codec.joins import grant_message, read_findings, read_splits, wish_message, work_message
from services.assigner.codec.specs import spec_message
from services.assigner.codec.usages import read_load
from services.assigner.domain.admission import CAPABILITIES, PROTOCOL_VERSION
from services.assigner.domain.responses import division_of
from services.assigner.liveness.member_streams import MemberKey
from services.assigner.liveness.message_allowance import Allowance
from services.assigner.liveness.sent_leases import SentLeases
from services.assigner.model import generations
from services.assigner.model.commands import Release
from services.assigner.model.events import LeaseGrant
from services.assigner.model.group import Group, GroupSpec, LeaseState, Split, channel_of
from services.assigner.model.lag.responses import MemberHandlers, WorkDivision
from services.assigner.peers import RegistryFollower
from services.assigner.reconciler.group_loop import GROUPS
from services.assigner.reconciler.term import Term


class MemberSession:
    """One member's open stream; a `MemberStream`."""

    def __init__(
        self,
        replica: Replica,
        registry: RegistryFollower,
        term: Term,
        key: MemberKey,
        spec: GroupSpec,
        stream: DuplexServing,
        handlers: MemberHandlers | None = None,
    ) -> None:
        self.handlers = handlers
        self.left = False
        self.returns = False  # its stream lasted as long as one may, and another follows
        self.key = key
        self.lease_seconds = spec.lease_ms / 1000
        self.ticket = 0
        self._replica = replica
        self._registry = registry
        self._term = term
        self._spec = spec
        self._stream = stream
        self._allowance = Allowance(replica.host.clock.elapsed())
        self._outbox: deque[join_pb2.JoinResponse] = deque()
        self._outbox_bytes = 0
        self._writable = asyncio.Event()
        self._writing: Task | None = None
        self._ended = asyncio.Event()
        self._error: BraidError | None = None
        self._deltas = 0
        self._granted: list[LeaseGrant] = []
        self._revoked: list[tuple[LeaseGrant, float, str]] = []
        self._lent: set[str] = set()  # clusters whose newer generation is to be lent
        self._sent = SentLeases()
        self._trace = ""  # of what is queued
        self._revoke_traces: dict[str, str] = {}  # by lease, until it is given back
        self._unreachable: frozenset[str] | None = None  # not sent yet

    @property
    def namesake(self) -> join_pb2.Namesake:
        """The name of this member for another with its client id."""
        return join_pb2.Namesake(member_id=self.key.member, peer=self._stream.caller.peer)

    async def serve(self) -> None:
        """Reads and writes until either side ends the stream. Raises the reason if the assigner ended it."""
        spawn = self._replica.host.tasks.spawn
        reading = spawn(self._read(), f"reads {self.key.member}")
        self._writing = spawn(self._write(), f"writes {self.key.member}")
        try:
            await self._ended.wait()
        finally:
            self._ended.set()
            self._writable.set()
            reading.cancel()
            self._term.push_spans.gone(self)
        if self._error is not None:
            raise self._error

    async def written(self) -> None:
        """Waits for a message under way, unless nobody reads: beside it grpc cannot say how a stream ended."""
        if self._writing is not None:
            try:
                async with asyncio.timeout(STREAM_CLOSE_SECONDS):
                    await self._writing.ended()
            except TimeoutError:
                self._writing.cancel()

    # --- what the term tells

    def welcome(
        self,
        state: Group,
        held: frozenset[tuple[str, int]],
        namesakes: "Sequence[MemberSession]" = (),
        secret: bytes = b"",
    ) -> None:
        """Queues the welcome; then what the member holds without knowing it, and what it is to give back.

        `namesakes` are the sessions of others under its client id; unless they are many, each hears of this one.
        `secret` is what the member comes back with; empty where it knows it, or needs none.
        """
        kept: list[join_pb2.HeldLease] = []
        for name, lease in sorted(state.held_by(self.key.member).items()):
            grant = LeaseGrant(name, self.key.member, lease.epoch)
            if (name, lease.epoch) in held:
                kept.append(join_pb2.HeldLease(lease=name, epoch=lease.epoch))
                cluster = _cluster_of(state, name)
                self._sent.add(name, lease.epoch, cluster)
                self._lent.add(cluster)
            else:
                self._granted.append(grant)
            if lease.state is LeaseState.REVOKING:
                left = max((lease.deadline_ms - self._replica.host.clock.now_ms()) / 1000, 0.001)
                self._revoked.append((grant, left, lease.reason))
        welcome = join_pb2.MemberWelcome(
            protocol_version=PROTOCOL_VERSION,
            capabilities=CAPABILITIES,
            member_id=self.key.member,
            lease_ms=self._spec.lease_ms,
            heartbeat_ms=min(self._spec.lease_ms // HEARTBEATS_PER_LEASE, HEARTBEAT_MS_MAX),
            kept=kept,
            spec=spec_message(self._spec),
            ticket=self.ticket,
            namesakes=[each.namesake for each in namesakes],
            resume_secret=secret,
            work=work_message(division_of(state)),
        )
        self._push(join_pb2.JoinResponse(welcome=welcome))
        for each in namesakes if len(namesakes) < NAMESAKES_MAX else ():
            each._push(join_pb2.JoinResponse(namesake=self.namesake))
        self.flush()

    def granted(self, grants: Sequence[LeaseGrant]) -> None:
        """Queues a grant of leases to the member."""
        self._granted += grants

    def revoked(self, leases: Sequence[LeaseGrant], deadline_seconds: float, reason: str) -> None:
        """Queues a revoke with its deadline; 0 when the leases are lost already."""
        self._revoked += [(lease, deadline_seconds, reason) for lease in leases]

    def lent(self, cluster: str) -> None:
        """Queues the group's newer generation on a cluster."""
        self._lent.add(cluster)

    def traced(self, traceparent: str) -> None:
        """Notes the trace that what is queued now belongs to."""
        self._trace = traceparent

    def resume(self, lane: str) -> None:
        """Asks the member to resume a stopped lane."""
        self._push(join_pb2.JoinResponse(resume=join_pb2.ResumeLane(lane=lane)))

    def split(self, split: Split) -> None:
        """Asks the member to split a lease, so that its head is worked on too."""
        self._push(wish_message(split))

    def divide(self, work: WorkDivision) -> None:
        """Tells the member how to divide its work, if it can."""
        if self.handlers is not None:
            self._push(join_pb2.JoinResponse(work=work_message(work)))

    def reaches(self, cluster: str) -> bool:
        """Whether the member holds leases on the cluster and does not report it as unreachable."""
        return self._unreachable is not None and cluster not in self._unreachable and cluster in self._sent.clusters

    def flush(self) -> None:
        """Pushes what is queued: one delta, or several if one would be too large."""
        while self._push_delta():
            pass

    def _push_delta(self) -> bool:
        """Leases wait for the address of their cluster, and for a generation if one is to be lent.

        Returns:
            Whether more is to be told than fits: the generation came with the first, and comes with each.
        """
        state, view = self._replica.aggregates.state(GROUPS, self.key.group), self._registry.view
        clusters: dict[str, join_pb2.ClusterDelta] = {}
        waiting: list[LeaseGrant] = []
        told = 0
        for at, grant in enumerate(self._granted):
            if told == DELTA_LEASES_MAX:
                waiting += self._granted[at:]
                break
            channel = state.channels.get(channel_of(grant.lease))
            place = view.clusters.get(channel.cluster) if view and channel else None
            if channel is None or place is None or generations.lends_nothing_yet(state, channel.cluster):
                waiting.append(grant)
                continue
            address = ClusterAddress(
                name=place.name, bootstrap=place.bootstrap, zone=place.zone, security_profile=place.security_profile
            )
            delta = clusters.setdefault(channel.cluster, join_pb2.ClusterDelta(cluster=address))
            delta.granted.append(grant_message(grant, channel))
            self._sent.add(grant.lease, grant.epoch, channel.cluster)
            self._revoke_traces.pop(grant.lease, None)
            self._lent.add(channel.cluster)
            told += 1
        self._granted = waiting
        self._add_revokes(state, clusters)
        self._add_generations(state, clusters)
        if clusters:
            self._deltas += 1
            delta_message = join_pb2.LeaseDelta(sequence=self._deltas, clusters=clusters.values())
            self._push(join_pb2.JoinResponse(delta=delta_message, traceparent=self._traced(told)))
            self._trace = self._trace if self._granted else ""  # some wait, and belong to it
        return told == DELTA_LEASES_MAX

    def _traced(self, granted: int) -> str:
        """Begins the span of a delta, which ends with its acknowledgement; returns the context to send with it."""
        if not self._trace or self._ended.is_set():
            return ""
        attributes: dict[str, Attribute] = {
            "braid.group": self.key.group,
            "braid.member": self.key.member,
            "braid.leases.granted": granted,
        }
        return self._term.push_spans.begin(self, self._deltas, "push leases", self._trace, attributes)

    def _add_revokes(self, state: Group, clusters: dict[str, join_pb2.ClusterDelta]) -> None:
        waiting = {(grant.lease, grant.epoch) for grant in self._granted}
        revoked, self._revoked = self._revoked, []
        for grant, seconds, reason in revoked:
            if (grant.lease, grant.epoch) in waiting:  # never told, so it is given back unused
                self._granted = [each for each in self._granted if each != grant]
                self._term.keeper(self.key.group).release(self.key.member, (Release(grant.lease, grant.epoch),))
                continue
            if seconds <= 0:
                self._sent.drop(grant.lease, grant.epoch)
            channel = state.channels.get(channel_of(grant.lease))
            name = channel.cluster if channel else ""
            delta = clusters.setdefault(name, join_pb2.ClusterDelta(cluster=ClusterAddress(name=name)))
            if self._trace:
                self._revoke_traces[grant.lease] = self._trace
            delta.revoked.append(
                join_pb2.RevokedLease(
                    lease=grant.lease, epoch=grant.epoch, deadline_ms=round(seconds * 1000), reason=reason
                )
            )

    def _add_generations(self, state: Group, clusters: dict[str, join_pb2.ClusterDelta]) -> None:
        """Adds the newest generation of clusters on which the member owns every lease that it may believe it holds."""
        lent, self._lent = self._lent, set()
        for name in sorted(lent & self._sent.clusters):
            generation = generations.lent(state, name)
            if generation is None:
                continue
            if not self._owns_all(state, name):
                self._lent.add(name)  # with the delta that takes the rest from it
                continue
            delta = clusters.setdefault(name, join_pb2.ClusterDelta(cluster=ClusterAddress(name=name)))
            delta.generation.generation, delta.generation.member_id = generation

    def _owns_all(self, state: Group, cluster: str) -> bool:
        """Whether the member owns every lease sent to it; else it could commit a lost one under the new generation."""
        for name, epoch in self._sent.on(cluster).items():
            lease = state.leases.get(name)
            if lease is None or (lease.holder, lease.epoch) != (self.key.member, epoch):
                return False
        return True

    def end(self, error: BraidError) -> None:
        """Ends the stream with an error. The first end counts."""
        if not self._ended.is_set():
            self._error = error
            self._ended.set()

    # --- the wire

    def _push(self, message: join_pb2.JoinResponse) -> None:
        if len(self._outbox) >= OUTBOX_MESSAGES_MAX or self._outbox_bytes > OUTBOX_BYTES_MAX:
            self.end(Exhausted("the member reads too slowly", remedy="join again"))
            return
        self._outbox.append(message)
        self._outbox_bytes += message.ByteSize()
        self._writable.set()

    async def _write(self) -> None:
        try:
            while True:
                while self._outbox and self._may_speak():
                    message = self._outbox.popleft()
                    await self._stream.send(message)
                    self._outbox_bytes -= message.ByteSize()
                if self._ended.is_set():
                    return
                self._writable.clear()
                await self._writable.wait()
        except Unavailable:
            self._ended.set()
        except BraidError as error:  # a message that is too large
            self.end(error)

    def _may_speak(self) -> bool:
        if not self._term.valid():
            self.end(NotLeader(f"{self._replica.instance} no longer leads", remedy="ask the leader"))
        return not self._ended.is_set()

    async def _read(self) -> None:
        try:
            while (message := await self._stream.receive()) is not None:
                if isinstance(message, join_pb2.JoinRequest):
                    self._take(message)
        except StreamExpired:
            self.returns = True
        except Unavailable:
            pass  # the connection broke: the end says all
        except BraidError as error:
            self.end(error)
        self._ended.set()

    def _take(self, message: join_pb2.JoinRequest) -> None:
        """A kind of message this release does not know is passed over; capabilities say what is understood."""
        match message.WhichOneof("message"):
            case "heartbeat":
                self._allowance.take(self._replica.host.clock.elapsed())
                self._unreachable = frozenset(message.heartbeat.unreachable_clusters)
                if self._term.heard(self.key, self):
                    self._measured(message.heartbeat)
                    reply = join_pb2.HeartbeatReply(sequence=message.heartbeat.sequence)
                    self._push(join_pb2.JoinResponse(heartbeat=reply))
            case "acknowledge":
                self._term.push_spans.acknowledged(self, message.acknowledge.delta_sequence)
                self._given_back(message.acknowledge)
            case "commit_refused":
                self._refused(message.commit_refused)
            case "stopped":
                self._term.keeper(self.key.group).stopped(self.key.member, message.stopped.lanes)
            case "splits":
                self._term.keeper(self.key.group).divided(self.key.member, read_splits(message.splits.leases))
            case "found":
                self._term.keeper(self.key.group).found(self.key.member, read_findings([message.found]))
            case "leaving":
                self._term.leaving(self.key, self)
            case "leave":
                self.left = True
                self._ended.set()
            case "hello":
                self.end(Invalid("a stream has one hello", field="hello"))

    def news(self, news: beat_pb2.MemberNews) -> None:
        """Takes what came with a heartbeat on a Beat stream."""
        if news.HasField("unreachable"):
            self._unreachable = frozenset(news.unreachable.clusters)
        self._measured(news)

    def _measured(self, told: join_pb2.Heartbeat | beat_pb2.MemberNews) -> None:
        self._term.keeper(self.key.group).measured(self.key.member, *read_load(told))

    def _given_back(self, message: join_pb2.Acknowledge) -> None:
        """Frees leases that the member gives back; those it never got or gave back before cost no decision."""
        releases = tuple(
            Release(each.lease, each.epoch, each.commit_waived)
            for each in message.released
            if self._sent.drop(each.lease, each.epoch)
        )
        traces = [self._revoke_traces.pop(each.lease, "") for each in message.released]
        if releases:
            self._term.keeper(self.key.group).release(self.key.member, releases, next(filter(None, traces), ""))

    def _refused(self, message: join_pb2.CommitRefused) -> None:
        """Lends a newer generation than the refused one; without one, the next bump's event will."""
        generation = Generation(message.generation.generation, message.generation.member_id)
        if self._term.keeper(self.key.group).refused(message.cluster, generation):
            self.lent(message.cluster)
            self.flush()


def _cluster_of(state: Group, lease: str) -> str:
    """Returns the cluster of a lease; empty when its channel is not known."""
    channel = state.channels.get(channel_of(lease))
    return channel.cluster if channel else ""
