"""One `Join` stream: hello and welcome, then heartbeats and what the assigner pushes, until the stream ends."""

import asyncio
from collections.abc import Callable, Iterable
from functools import partial

from braid.api.assigner.v1 import join_pb2 as wire
from braid.client.membership.heartbeats import Heartbeats, Seat
from braid.client.membership.held_leases import HeldLeases
from braid.client.membership.lease_protocol import LeaseListener
from braid.client.membership.namesakes import NamesakeWarnings
from braid.client.tasks import race, within
from braid.kernel.errors import Unavailable
from braid.kernel.limits.assigner.leases import WELCOME_ALIVE_SECONDS_MAX, WELCOME_SECONDS_MAX
from braid.kernel.limits.client import JOIN_SILENCE_SECONDS_MIN
from braid.kernel.ports import DuplexCall, Host
from braid.telemetry.applied_spans import AppliedSpans


class JoinStream:
    """Says hello, beats and receives on one connection to the assigner's leader."""

    def __init__(
        self,
        host: Host,
        call: DuplexCall,
        held: HeldLeases,
        listener: LeaseListener,
        *,
        namesakes: NamesakeWarnings,
        loads: Callable[[], wire.Heartbeat],
        alive_at: Callable[[], float],
    ) -> None:
        """`loads` fills each heartbeat with what the member measured since the last one.

        `alive_at` tells when the leader gave a sign of life to this process (`Clock.elapsed`).
        """
        self._host = host
        self._call = call
        self._held = held
        self._listener = listener
        self._namesakes = namesakes
        self._loads = loads
        self._alive_at = alive_at
        self._given_up_before = held.times_given_up
        self._answered_at = 0.0  # when the assigner said anything to this member, on any stream
        self._sent_at: dict[int, float] = {}
        self._applied = AppliedSpans("apply leases")
        self._work_revision = 0  # of the newest division of work on this stream
        self._seat: Seat | None = None  # among the heartbeats of this process's members, while welcomed with a ticket

    @property
    def gave_up(self) -> bool:
        """Whether leases were given up since the hello; the next hello then holds none, which tells the assigner."""
        return self._held.times_given_up != self._given_up_before

    async def hello(
        self, hello: wire.MemberHello, found: Iterable[wire.RestoreFindings], patience_seconds: float
    ) -> wire.MemberWelcome | None:
        """Says hello, with what is held and was found where work on that began; None when no welcome came.

        The welcome is waited for `patience_seconds`, as long again after each sign of life of the assigner, and for as
        long as it says that the queue is.

        Raises:
            TimeoutError: nothing came in time.
        """
        own = {(str(each.id), each.epoch) for each in self._held}
        said = wire.MemberHello()
        said.CopyFrom(hello)
        said.found.extend(each for each in found if (each.lease, each.epoch) in own)
        said.held.extend(wire.HeldLease(lease=str(each.id), epoch=each.epoch) for each in self._held)
        self._given_up_before = self._held.times_given_up
        await self._call.send(wire.JoinRequest(hello=said))
        seconds, asked_at = patience_seconds, self._host.clock.elapsed()
        began = asked_at

        def deadline() -> float:
            alive_at = min(self._alive_at(), began + WELCOME_ALIVE_SECONDS_MAX)
            return max(asked_at + seconds, alive_at + patience_seconds)

        while isinstance(message := await within(self._host.clock, deadline, self._call.receive), wire.JoinResponse):
            if message.WhichOneof("message") != "queued":
                return self._welcomed(message)
            asked_at, seconds = self._host.clock.elapsed(), min(message.queued.wait_ms / 1000, WELCOME_SECONDS_MAX)
        return None

    def _welcomed(self, message: wire.JoinResponse) -> wire.MemberWelcome | None:
        if not message.HasField("welcome"):
            return None
        self._work_revision = message.welcome.work.revision
        self._listener.work_divided(message.welcome.work)  # an older assigner says nothing: the member's own
        return message.welcome

    async def live(self, heartbeats: Heartbeats | None, ticket: int) -> None:
        """Receives and sends heartbeats until the stream ends; with a welcome's ticket, on the process's shared stream.

        Raises:
            TimeoutError: the assigner is silent.
        """
        if heartbeats is not None and ticket:
            self._seat = heartbeats.seat(
                ticket, self._held.heartbeat_seconds, self._held.lease_seconds, self._loads, self._carried
            )
        try:
            await race(self._host.tasks, "join", self._receive, partial(self._beat, self._seat))
        finally:
            self._applied.close()
            if self._seat is not None:
                self._seat.leave()
                self._seat = None

    async def _beat(self, seat: Seat | None) -> None:
        """Sends heartbeats on this stream, except while they are carried with those of other members."""
        clock, every_seconds, sequence = self._host.clock, self._held.heartbeat_seconds, 0
        try:
            if seat is not None:  # carried heartbeats report everything
                await seat.carried(clock.elapsed() - every_seconds, self._held.heard_at, None)
            while True:
                sequence += 1
                heartbeat = self._loads()
                heartbeat.sequence = sequence
                self._sent_at[sequence] = sent_at = clock.elapsed()
                await self._call.send(wire.JoinRequest(heartbeat=heartbeat))
                if seat is not None:
                    await clock.sleep(every_seconds / 2)
                    told = None if self._sent_at else tuple(heartbeat.unreachable_clusters)  # heard, once answered
                    await seat.carried(sent_at, self._held.heard_at, told)
                due = max(sent_at, self._held.heard_at) + every_seconds
                await clock.sleep(max(0.0, due - clock.elapsed()))
        except Unavailable:
            await asyncio.Event().wait()  # the receiving side sees the same end, and why

    async def _receive(self) -> None:
        while (message := await self._next()) is not None:
            if self.gave_up:
                return
            assert isinstance(message, wire.JoinResponse)
            match message.WhichOneof("message"):
                case "heartbeat":
                    self._acknowledged(message.heartbeat.sequence)
                case "resume":
                    self._listener.resumed(message.resume.lane)
                case "namesake":
                    self._namesakes.warn([message.namesake])
                case "split":
                    self._listener.split(message.split)
                case "work":
                    self._divide_work(message.work)
                case "delta":
                    self._applied.began(message.delta.sequence, message.traceparent, {})
                    stray = self._held.apply(message.delta)
                    acknowledge = wire.Acknowledge(delta_sequence=message.delta.sequence, released=stray)
                    await self._call.send(wire.JoinRequest(acknowledge=acknowledge))
                    self._applied.ended(message.delta.sequence)

    def _divide_work(self, told: wire.WorkDivision) -> None:
        """Hands a division of work to the listener, unless a newer one came before."""
        if told.revision > self._work_revision:
            self._work_revision = told.revision
            self._listener.work_divided(told)

    async def _next(self) -> object | None:
        """The next message. Raises `TimeoutError` when nothing is heard, here or for a carried heartbeat, in time.

        A leader that answers others of this process is late, not frozen: it is given more time, but not for ever.
        """
        self._answered_at = self._host.clock.elapsed()  # moves when a carried heartbeat is answered
        patience = max(self._held.lease_seconds, JOIN_SILENCE_SECONDS_MIN)

        def deadline() -> float:
            alive_at = min(self._alive_at(), self._answered_at + WELCOME_ALIVE_SECONDS_MAX)
            return max(self._answered_at, alive_at) + patience

        return await within(self._host.clock, deadline, self._call.receive)

    def _acknowledged(self, sequence: int) -> None:
        sent_at = self._sent_at.pop(sequence, None)
        for older in [number for number in self._sent_at if number < sequence]:
            del self._sent_at[older]
        if sent_at is not None:
            self._held.extend(sent_at)
            if self._seat is not None:
                self._seat.beaten(sent_at)

    def _carried(self, sent_at: float) -> None:
        """Notes that a carried heartbeat was acknowledged."""
        self._answered_at = self._host.clock.elapsed()
        self._held.extend(sent_at)
