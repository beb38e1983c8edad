"""A member's side of the lease protocol: one `Join` stream, kept over reconnects and leader changes."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack

from braid.api.assigner.v1 import join_pb2 as wire
from braid.client.membership.heartbeats import Heartbeats
from braid.client.membership.held_leases import HeldLeases
from braid.client.membership.join_stream import JoinStream
from braid.client.membership.lease_protocol import LeaseListener
from braid.client.membership.namesakes import NamesakeWarnings
from braid.client.records.delivery import OwnedLease
from braid.client.session_errors import is_final, is_strange
from braid.client.tasks import hanging_up
from braid.kernel.access.quotas import retry_seconds
from braid.kernel.errors import BraidError, Unavailable
from braid.kernel.ids import LeaseId
from braid.kernel.limits.assigner.leases import WELCOME_SECONDS_MAX
from braid.kernel.limits.client import (
    DETACHED_SECONDS_MAX,
    JOIN_SILENCE_SECONDS_MIN,
    RECONNECT_SECONDS,
)
from braid.kernel.ports import DuplexCall, Generation, Host
from braid.rpc.mesh_client import ServiceClient

PROTOCOL_VERSION = 1
# Commits with what it is lent, and asks when that is refused; shares a stream for heartbeats by the ticket it is given;
# waits for its welcome as long as it is told to.
CAPABILITIES = ("generations", "beats", "queued", "secret")


class LeaseSession:
    """Joins a group, keeps its leases alive, and tells the listener which ones it holds."""

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
        self._heartbeats = heartbeats
        self._turns = heartbeats.turns if heartbeats is not None else asyncio.Semaphore(1)
        self._held = HeldLeases(
            host,
            hello.group,
            listener,
            lease_ms=hello.spec.lease_ms,
            exclusive=exclusive,
            detached_seconds_max=detached_seconds_max,
        )
        self._namesakes = NamesakeWarnings(hello.group, hello.client_id)
        self._call: DuplexCall | None = None
        self._welcome_seconds = 0.0
        self._sought_seconds = 0.0  # how long the last try sought a leader in vain; that replaces the pause
        self._joined = asyncio.Event()
        self._telling = asyncio.Lock()
        self._found: dict[LeaseId, wire.RestoreFindings] = {}
        self._leaving = False
        self._left = False

    @property
    def member_id(self) -> str:
        """Given by the assigner at the first welcome; empty before."""
        return self._hello.member_id

    @property
    def held(self) -> Sequence[OwnedLease]:
        """The leases of this member, in the order they were granted."""
        return list(self._held)

    @property
    def attached(self) -> bool:
        """Whether the assigner acknowledged a heartbeat recently enough for the leases to be certain."""
        return self._held.certain

    async def joined(self) -> None:
        """Waits for the first welcome."""
        await self._joined.wait()

    async def run(self) -> None:
        """Keeps the membership until cancelled or refused."""
        first_seconds, longest_seconds = RECONNECT_SECONDS
        backoff_seconds = first_seconds
        while not self._left:
            told_seconds = 0.0
            try:
                if await self._session():
                    backoff_seconds = first_seconds
            except TimeoutError:
                self._assigner.forget_leader()  # silent, hence perhaps frozen: another may lead by now
                if self._welcome_seconds > self._held.lease_seconds:  # again: many members must come back spread out
                    backoff_seconds = max(backoff_seconds, self._welcome_seconds / 2)
            except BraidError as error:
                if is_final(error):
                    self._held.lose_all()
                    self._listener.refused(error)
                    return
                if is_strange(error):
                    self._assigner.forget_leader()
                told_seconds = retry_seconds(error)
            self._call = None
            least = 0.5 if backoff_seconds <= longest_seconds else 0.0
            pause_seconds = backoff_seconds * self._host.randomness.uniform(least, 1.0)
            await self._host.clock.sleep(told_seconds + max(pause_seconds - self._sought_seconds, first_seconds / 2))
            backoff_seconds = min(backoff_seconds * 2, longest_seconds)

    async def guard(self) -> None:
        """Gives everything up in time: see `HeldLeases.guard`."""
        await self._held.guard()

    def may_start(self) -> bool:
        """Whether a handler may start now: see `HeldLeases.may_start`."""
        return self._held.may_start()

    async def release(self, lease: LeaseId, epoch: int, *, commit_waived: bool = False, reason: str = "") -> None:
        """Gives a lease back after its last commit; when the assigner is away, the next hello leaves the lease out."""
        if not self._held.release(lease, epoch):
            return
        released = wire.ReleasedLease(lease=str(lease), epoch=epoch, commit_waived=commit_waived, reason=reason)
        await self._send(wire.JoinRequest(acknowledge=wire.Acknowledge(released=[released])))

    async def refused(self, cluster: str, generation: Generation) -> None:
        """Asks for a newer generation on the stream only, because a usable generation comes only with the leases."""
        borrowed = wire.BorrowedGeneration(generation=generation.generation, member_id=generation.member_id)
        await self._send(wire.JoinRequest(commit_refused=wire.CommitRefused(cluster=cluster, generation=borrowed)))

    async def stopped(self, lanes: Mapping[str, str]) -> None:
        """Reports the stopped lanes now, and again with each hello."""
        async with self._telling:  # reports are sent one after another, in order
            self._hello.stopped.clear()
            self._hello.stopped.update(lanes)
            await self._send(wire.JoinRequest(stopped=wire.StoppedLanes(lanes=lanes)))

    async def divided(self, splits: Sequence[wire.SplitLease]) -> None:
        """Reports the split leases now, and again with each hello; a refused split only now."""
        async with self._telling:
            del self._hello.splits[:]
            self._hello.splits.extend(each for each in splits if not each.refused)
            await self._send(wire.JoinRequest(splits=wire.SplitLeases(leases=splits)))

    async def found(self, findings: wire.RestoreFindings) -> None:
        """Reports the findings now, and again with each hello while the lease is held under that epoch."""
        self._found[LeaseId.parse(findings.lease)] = findings
        await self._send(wire.JoinRequest(found=findings))

    async def leaving(self) -> None:
        """Asks for no more grants, on this stream and every later one."""
        self._leaving = True
        await self._send(wire.JoinRequest(leaving=wire.Leaving()))

    async def leave(self, reason: str) -> None:
        """Leaves the group; every lease must have been released before."""
        self._left = True
        await self._send(wire.JoinRequest(leave=wire.Leave(reason=reason)))
        if self._call is not None:
            await self._call.close()

    # --- one connection

    async def _session(self) -> bool:
        """Serves one stream; returns whether it was welcomed."""
        await self._held.work_ended()
        async with AsyncExitStack() as opened:
            async with self._turns:
                call = await self._open()
                await opened.enter_async_context(hanging_up(self._host.tasks, call))
                stream = JoinStream(
                    self._host,
                    call,
                    self._held,
                    self._listener,
                    namesakes=self._namesakes,
                    loads=self._loads,
                    alive_at=self._assigner.hearing(),
                )
                started_at = self._host.clock.elapsed()
                # Each time that was in vain a welcome is waited for twice as long.
                patience = max(self._held.lease_seconds, JOIN_SILENCE_SECONDS_MIN)
                self._welcome_seconds = min(max(patience, 2 * self._welcome_seconds), WELCOME_SECONDS_MAX)
                welcome = await stream.hello(self._hello, self._found.values(), self._welcome_seconds)
            if welcome is None:
                return False
            stray = self._welcomed(welcome, started_at)
            self._call = call
            if self._leaving:
                await call.send(wire.JoinRequest(leaving=wire.Leaving()))
            if stray and not stream.gave_up:  # after giving up, the next hello says when all of it is free
                await call.send(wire.JoinRequest(acknowledge=wire.Acknowledge(released=stray)))
            await stream.live(self._heartbeats, welcome.ticket)
        return True

    async def _open(self) -> DuplexCall:
        """Opens a stream to the assigner's leader."""
        sought_at, self._sought_seconds = self._host.clock.elapsed(), 0.0
        try:
            return await self._assigner.duplex("Join", wire.JoinResponse)
        except Unavailable:
            self._sought_seconds = self._host.clock.elapsed() - sought_at
            raise

    def _welcomed(self, welcome: wire.MemberWelcome, started_at: float) -> list[wire.ReleasedLease]:
        self._welcome_seconds = 0.0
        self._hello.member_id = welcome.member_id
        self._hello.resume_secret = welcome.resume_secret or self._hello.resume_secret
        stray = self._held.welcomed(welcome, started_at)
        self._namesakes.warn(welcome.namesakes)
        self._joined.set()
        return stray

    async def _send(self, message: wire.JoinRequest) -> None:
        if self._call is None:
            return
        try:
            await self._call.send(message)
        except Unavailable:
            self._call = None
