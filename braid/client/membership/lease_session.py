"""A member's side of the lease protocol: one `Join` stream, kept over reconnects and leader changes.

The member's deadline counts from the send time of the last acknowledged heartbeat. What happens past it is decided by
the group's ownership: `at_least_once` goes on for a bounded time with what it holds, `exclusive` gives everything up
(`design.md` §6).
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Protocol

from braid.api.assigner.v1 import join_pb2 as wire
from braid.client.membership.heartbeats import Heartbeats, Seat
from braid.client.membership.hello import greeting, strays, welcome
from braid.client.membership.lease_protocol import LeaseListener as LeaseListener
from braid.client.records.delivery import OwnedLease as Held
from braid.client.session_errors import is_final, is_strange
from braid.client.tasks import hanging_up, happens, race, within
from braid.kernel.errors import BraidError, Unavailable
from braid.kernel.ids import LeaseId
from braid.kernel.limits.client import (
    DETACHED_SECONDS_MAX,
    EXCLUSIVE_MARGIN,
    JOIN_SILENCE_SECONDS_MIN,
    RECONNECT_SECONDS_MAX,
    RECONNECT_SECONDS_MIN,
)
from braid.kernel.limits.leases import (
    CLOCK_RATE_SLACK,
    HEARTBEAT_MS_MAX,
    LEASE_MS_DEFAULT,
    WELCOME_ALIVE_SECONDS_MAX,
    WELCOME_SECONDS_MAX,
)
from braid.kernel.ports import DuplexCall, Generation, Host, TopicPartition
from braid.rpc.mesh_client import ServiceClient

PROTOCOL_VERSION = 1
# Commits with what it is lent, and asks when that is refused; shares a stream for heartbeats by the ticket it is given;
# waits for its welcome as long as it is told to.
CAPABILITIES = ("generations", "beats", "queued")
_log = logging.getLogger("braid.consumer")


class LeaseKeeper(Protocol):
    """Where a consumer's leases come from: `LeaseSession` over an assigner, or a test's fixed split."""

    @property
    def member_id(self) -> str:
        """This member's id; empty before it joined."""
        ...

    @property
    def attached(self) -> bool:
        """Whether the leases held are certain."""
        ...

    def may_start(self) -> bool:
        """Whether a handler may start now."""
        ...

    async def joined(self) -> None:
        """Waits until this member belongs to its group."""
        ...

    async def run(self) -> None:
        """Keeps the membership until cancelled or refused."""
        ...

    async def guard(self) -> None:
        """Watches the deadline of leases until cancelled."""
        ...

    async def release(self, lease: LeaseId, epoch: int, *, commit_waived: bool = False, reason: str = "") -> None:
        """Gives a lease back after its last commit."""
        ...

    async def refused(self, cluster: str, generation: Generation) -> None:
        """Tells that a cluster refused a commit with what was lent; something newer is lent in time."""
        ...

    async def stopped(self, lanes: Mapping[str, str]) -> None:
        """Tells all lanes that are stopped, each with its reason, whenever that has changed."""
        ...

    async def divided(self, splits: Sequence[wire.SplitLease]) -> None:
        """Tells all leases that are split, whenever that has changed, and beside them one that was refused to be."""
        ...

    async def found(self, findings: wire.RestoreFindings) -> None:
        """Tells what was not as committed where work on a lease began."""
        ...

    async def leaving(self) -> None:
        """Tells that nothing more is to be granted: what is held will be released, then `leave` comes."""
        ...

    async def leave(self, reason: str) -> None:
        """Leaves the group."""
        ...


class LeaseSession:
    """Joins a group, keeps its leases alive, tells the listener what it holds."""

    def __init__(
        self,
        host: Host,
        assigner: ServiceClient,
        hello: wire.MemberHello,
        listener: LeaseListener,
        *,
        loads: Callable[[], wire.Heartbeat],
        exclusive: bool,
        detached_seconds_max: float = DETACHED_SECONDS_MAX,
        heartbeats: Heartbeats | None = None,
    ) -> None:
        """`hello` says who joins what; `loads` fills each heartbeat with what the member measured since the last.

        `detached_seconds_max` bounds how long leases that are not exclusive are worked on past the deadline;
        `heartbeats` are those of all members of this process that join through `assigner`.
        """
        self._host = host
        self._assigner = assigner
        self._hello = hello
        self._listener = listener
        self._loads = loads
        self._exclusive = exclusive
        self._detached_seconds_max = detached_seconds_max
        self._heartbeats = heartbeats
        self._turns = heartbeats.turns if heartbeats is not None else asyncio.Semaphore(1)
        self._held: dict[LeaseId, Held] = {}
        self._lease_seconds = (hello.spec.lease_ms or LEASE_MS_DEFAULT) / 1000
        self._heartbeat_seconds = HEARTBEAT_MS_MAX / 1000
        self._deadline = 0.0
        self._heard_at = 0.0  # when the last acknowledged heartbeat was sent
        self._answered_at = 0.0  # when the assigner said anything to this member, on any stream
        self._alive_at = assigner.hearing()  # when the one that is joined gave a sign of life to this process
        self._sent_at: dict[int, float] = {}
        self._call: DuplexCall | None = None
        self._seat: Seat | None = None  # among the heartbeats of this process's members, while welcomed with a ticket
        self._welcome_seconds = 0.0
        self._sought_seconds = 0.0  # a leader, in vain, when last tried: who waited for one need not pause as well
        self._joined = asyncio.Event()
        self._telling = asyncio.Lock()
        self._found: dict[LeaseId, wire.RestoreFindings] = {}
        self._leaving = False
        self._left = False
        self._gave_up = False
        self._lost_at: float | None = None  # since when work on lost exclusive leases may go on
        self._lost = asyncio.Event()  # they were just now

    @property
    def member_id(self) -> str:
        """Given by the assigner at the first welcome; empty before."""
        return self._hello.member_id

    @property
    def held(self) -> Sequence[Held]:
        """What this member owns, in the order it was granted."""
        return list(self._held.values())

    @property
    def attached(self) -> bool:
        """Whether the assigner acknowledged a heartbeat recently enough for the leases to be certain."""
        return self._host.clock.elapsed() < self._deadline

    async def joined(self) -> None:
        """Waits for the first welcome."""
        await self._joined.wait()

    async def run(self) -> None:
        """Keeps the membership until cancelled or refused."""
        backoff_seconds = RECONNECT_SECONDS_MIN
        while not self._left:
            try:
                if await self._session():
                    backoff_seconds = RECONNECT_SECONDS_MIN
            except TimeoutError:
                self._assigner.forget_leader()  # silent, hence perhaps frozen: another may lead by now
                if self._welcome_seconds > self._lease_seconds:  # again: were it a crowd, it is to come spread out
                    backoff_seconds = max(backoff_seconds, self._welcome_seconds / 2)
            except BraidError as error:
                if is_final(error):
                    self._lose(list(self._held))
                    self._listener.refused(error)
                    return
                if is_strange(error):
                    self._assigner.forget_leader()
            self._call = None
            least = 0.5 if backoff_seconds <= RECONNECT_SECONDS_MAX else 0.0
            pause_seconds = backoff_seconds * self._host.randomness.uniform(least, 1.0)
            await self._host.clock.sleep(max(pause_seconds - self._sought_seconds, RECONNECT_SECONDS_MIN / 2))
            backoff_seconds = min(backoff_seconds * 2, RECONNECT_SECONDS_MAX)

    async def guard(self) -> None:
        """Gives everything up in time: exclusive leases a margin before the deadline, others a while after it."""
        while self._exclusive:
            moment = min(self._margin_seconds, self._heartbeat_seconds) / 4
            left = self._deadline - self._margin_seconds - self._host.clock.elapsed()
            self._lost.clear()
            await happens(self._lost, moment if self._lost_at is not None else max(left, moment))
            self.may_start()
            self._check_ended()
        while not self._exclusive:
            until = self._deadline + self._detached_seconds_max
            await self._host.clock.sleep(max(until - self._host.clock.elapsed(), self._heartbeat_seconds))
            if self._held and self._host.clock.elapsed() - self._deadline > self._detached_seconds_max:
                _log.warning("no assigner was in reach for %g s: leases are given up", self._detached_seconds_max)
                self._give_up()

    def may_start(self) -> bool:
        """Whether a handler may start now. An exclusive member past its deadline less a margin gives everything up."""
        if not self._exclusive or self._host.clock.elapsed() < self._deadline - self._margin_seconds:
            return True
        if self._held:
            self._give_up()
        return False

    def _check_ended(self) -> None:
        """A process that still works on what may be another's by now ends: two live holders never overlap."""
        if self._lost_at is None:
            return
        if not self._listener.busy():
            self._lost_at = None
        elif self._host.clock.elapsed() - self._lost_at > self._margin_seconds:
            self._host.exit("records of an exclusive lease that ran out are still worked on, and cannot be cancelled")

    def _give_up(self) -> None:
        """Holds nothing any more; the next hello says so."""
        self._gave_up = True
        self._lose(list(self._held))

    @property
    def _margin_seconds(self) -> float:
        return self._lease_seconds * EXCLUSIVE_MARGIN

    async def release(self, lease: LeaseId, epoch: int, *, commit_waived: bool = False, reason: str = "") -> None:
        """Gives a lease back after its last commit; when the assigner is away, the next hello says so by silence."""
        held = self._held.get(lease)
        if held is None or held.epoch != epoch:
            return
        del self._held[lease]
        released = wire.ReleasedLease(lease=str(lease), epoch=epoch, commit_waived=commit_waived, reason=reason)
        await self._send(wire.JoinRequest(acknowledge=wire.Acknowledge(released=[released])))

    async def refused(self, cluster: str, generation: Generation) -> None:
        """Asks on the stream, never beside it: only with the leases does a generation come that may be used."""
        borrowed = wire.BorrowedGeneration(generation=generation.generation, member_id=generation.member_id)
        await self._send(wire.JoinRequest(commit_refused=wire.CommitRefused(cluster=cluster, generation=borrowed)))

    async def stopped(self, lanes: Mapping[str, str]) -> None:
        """Tells it now, and again with each hello."""
        async with self._telling:  # one after the other, in the order they came about
            self._hello.stopped.clear()
            self._hello.stopped.update(lanes)
            await self._send(wire.JoinRequest(stopped=wire.StoppedLanes(lanes=lanes)))

    async def divided(self, splits: Sequence[wire.SplitLease]) -> None:
        """Tells it now, and again with each hello, but for what was refused."""
        async with self._telling:
            del self._hello.splits[:]
            self._hello.splits.extend(each for each in splits if not each.refused)
            await self._send(wire.JoinRequest(splits=wire.SplitLeases(leases=splits)))

    async def found(self, findings: wire.RestoreFindings) -> None:
        """Tells it now, and again with each hello while the lease is held under that epoch."""
        self._found[LeaseId.parse(findings.lease)] = findings
        await self._send(wire.JoinRequest(found=findings))

    async def leaving(self) -> None:
        """Asks for nothing more, here and on every later stream."""
        self._leaving = True
        await self._send(wire.JoinRequest(leaving=wire.Leaving()))

    async def leave(self, reason: str) -> None:
        """Leaves the group; every lease was released before."""
        self._left = True
        await self._send(wire.JoinRequest(leave=wire.Leave(reason=reason)))
        if self._call is not None:
            await self._call.close()

    # --- one connection

    async def _session(self) -> bool:
        """Lives through one stream; returns whether it was welcomed."""
        while self._lost_at is not None:  # who says hello without leases says that nobody works on them
            await self._host.clock.sleep(self._margin_seconds / 4)
            self._check_ended()
        async with AsyncExitStack() as opened:
            async with self._turns:
                call = await self._open()
                await opened.enter_async_context(hanging_up(self._host.tasks, call))
                self._gave_up = False
                started_at = self._host.clock.elapsed()
                await call.send(greeting(self._hello, self._held.values(), self._found.values()))
                message = await self._welcome(call)
            if not isinstance(message, wire.JoinResponse) or message.WhichOneof("message") != "welcome":
                return False
            self._welcomed(message.welcome, started_at)
            self._call = call
            if self._leaving:
                await call.send(wire.JoinRequest(leaving=wire.Leaving()))
            stray = strays(message.welcome.kept, self._held.values())
            if stray and not self._gave_up:  # after giving up, the next hello says when all of it is free
                await call.send(wire.JoinRequest(acknowledge=wire.Acknowledge(released=stray)))
            await self._live(call, message.welcome.ticket)
        return True

    async def _open(self) -> DuplexCall:
        """A stream to whoever leads."""
        sought_at, self._sought_seconds = self._host.clock.elapsed(), 0.0
        try:
            call = await self._assigner.duplex("Join", wire.JoinResponse)
        except Unavailable:
            self._sought_seconds = self._host.clock.elapsed() - sought_at
            raise
        self._alive_at = self._assigner.hearing()
        return call

    async def _welcome(self, call: DuplexCall) -> object:
        """What the assigner says to hello. Each time that was in vain it is waited for twice as long."""
        patience = max(self._lease_seconds, JOIN_SILENCE_SECONDS_MIN)
        self._welcome_seconds = min(max(patience, 2 * self._welcome_seconds), WELCOME_SECONDS_MAX)
        return await welcome(self._host.clock, call, self._welcome_seconds, self._alive_at)

    async def _live(self, call: DuplexCall, ticket: int) -> None:
        """Receives and beats until the stream ends."""
        if self._heartbeats is not None and ticket:
            self._seat = self._heartbeats.seat(
                ticket, self._heartbeat_seconds, self._lease_seconds, self._loads, self._carried_heartbeat
            )
        try:
            await race(self._host.tasks, "join", partial(self._receive, call), partial(self._beat, call, self._seat))
        finally:
            if self._seat is not None:
                self._seat.leave()
                self._seat = None

    def _welcomed(self, welcome: wire.MemberWelcome, started_at: float) -> None:
        self._welcome_seconds = 0.0
        self._hello.member_id = welcome.member_id
        self._lease_seconds = welcome.lease_ms / 1000
        self._heartbeat_seconds = welcome.heartbeat_ms / 1000
        self._extend(started_at)
        self._sent_at.clear()
        kept = {(LeaseId.parse(held.lease), held.epoch) for held in welcome.kept}
        self._lose([lease for lease, held in self._held.items() if (lease, held.epoch) not in kept])
        self._joined.set()

    async def _beat(self, call: DuplexCall, seat: Seat | None) -> None:
        """Sends heartbeats on this stream, except while they are carried with those of others."""
        sequence = 0
        try:
            if seat is not None:  # where heartbeats are carried already, or soon are, all is told there
                await seat.carried(self._host.clock.elapsed() - self._heartbeat_seconds, self._heard_at, None)
            while True:
                sequence += 1
                heartbeat = self._loads()
                heartbeat.sequence = sequence
                self._sent_at[sequence] = sent_at = self._host.clock.elapsed()
                await call.send(wire.JoinRequest(heartbeat=heartbeat))
                if seat is not None:
                    await self._host.clock.sleep(self._heartbeat_seconds / 2)
                    told = None if self._sent_at else tuple(heartbeat.unreachable_clusters)  # heard, once answered
                    await seat.carried(sent_at, self._heard_at, told)
                due = max(sent_at, self._heard_at) + self._heartbeat_seconds
                await self._host.clock.sleep(max(0.0, due - self._host.clock.elapsed()))
        except Unavailable:
            await asyncio.Event().wait()  # the receiving side sees the same end, and why

    async def _next(self, call: DuplexCall) -> object | None:
        """The next message. Raises `TimeoutError` when nothing is heard, here or for a carried heartbeat, in time.

        A leader that answers others of this process is late, not frozen: it is given more time, but not for ever.
        """
        self._answered_at = self._host.clock.elapsed()  # moves when a carried heartbeat is answered
        patience = max(self._lease_seconds, JOIN_SILENCE_SECONDS_MIN)

        def deadline() -> float:
            alive_at = min(self._alive_at(), self._answered_at + WELCOME_ALIVE_SECONDS_MAX)
            return max(self._answered_at, alive_at) + patience

        return await within(self._host.clock, deadline, call.receive)

    async def _receive(self, call: DuplexCall) -> None:
        while (message := await self._next(call)) is not None:
            if self._gave_up:
                return  # the next hello holds nothing, which tells the assigner that it is all free
            assert isinstance(message, wire.JoinResponse)
            match message.WhichOneof("message"):
                case "heartbeat":
                    self._acknowledged(message.heartbeat.sequence)
                case "resume":
                    self._listener.resumed(message.resume.lane)
                case "split":
                    self._listener.split(message.split)
                case "delta":
                    stray = self._apply(message.delta)
                    acknowledge = wire.Acknowledge(delta_sequence=message.delta.sequence, released=stray)
                    await call.send(wire.JoinRequest(acknowledge=acknowledge))

    def _acknowledged(self, sequence: int) -> None:
        sent_at = self._sent_at.pop(sequence, None)
        for older in [number for number in self._sent_at if number < sequence]:
            del self._sent_at[older]
        if sent_at is not None:
            self._extend(sent_at)
            if self._seat is not None:
                self._seat.beaten(sent_at)

    def _carried_heartbeat(self, sent_at: float) -> None:
        """A heartbeat that was carried with those of others is acknowledged."""
        self._answered_at = self._host.clock.elapsed()
        self._extend(sent_at)

    def _extend(self, sent_at: float) -> None:
        self._heard_at = max(self._heard_at, sent_at)
        self._deadline = max(self._deadline, sent_at + self._lease_seconds * (1 - CLOCK_RATE_SLACK))

    def _apply(self, delta: wire.LeaseDelta) -> list[wire.ReleasedLease]:
        """Takes a change over, generations last; returns what is asked back and not held any more."""
        granted: list[Held] = []
        unknown: list[wire.RevokedLease] = []
        for cluster in delta.clusters:
            unknown += [revoked for revoked in cluster.revoked if not self._revoke(revoked)]
            for grant in cluster.granted:
                lease = LeaseId.parse(grant.lease)
                where = TopicPartition(grant.topic, grant.partition)
                self._held[lease] = held = Held(lease, grant.epoch, cluster.cluster, where)
                granted.append(held)
        if granted:
            self._listener.granted(granted)
        for cluster in delta.clusters:
            if cluster.HasField("generation"):
                borrowed = Generation(cluster.generation.generation, cluster.generation.member_id)
                self._listener.lent(cluster.cluster.name, borrowed)
        # What is asked back may have been granted by the same delta: a member that reconnects hears of both at once.
        return [
            wire.ReleasedLease(lease=revoked.lease, epoch=revoked.epoch, reason="not held")
            for revoked in unknown
            if not self._revoke(revoked) and revoked.deadline_ms > 0
        ]

    def _revoke(self, revoked: wire.RevokedLease) -> bool:
        """Whether what is asked back is held."""
        held = self._held.get(LeaseId.parse(revoked.lease))
        if held is None or held.epoch != revoked.epoch:
            return False
        if revoked.deadline_ms <= 0:
            self._lose([held.id], to_others=False)
        else:
            self._listener.revoked(held, revoked.deadline_ms / 1000)
        return True

    def _lose(self, leases: Sequence[LeaseId], *, to_others: bool = True) -> None:
        """Drops leases; exclusive ones that another may get are not to be worked on any more soon."""
        lost = [self._held.pop(lease) for lease in leases if lease in self._held]
        if not lost:
            return
        if self._exclusive and to_others and self._lost_at is None:
            self._lost_at = self._host.clock.elapsed()
            self._lost.set()
        self._listener.lost(lost)

    async def _send(self, message: wire.JoinRequest) -> None:
        if self._call is None:
            return
        try:
            await self._call.send(message)
        except Unavailable:
            self._call = None
