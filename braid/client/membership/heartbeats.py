"""Sends the heartbeats of all members of one process in one stream, `Beat`, beside their Join streams.

A member sends heartbeats on its own Join stream until it is carried here. It does so again at once when its ticket no
longer counts or this stream breaks. So no member depends on this stream, nor on another member. A single member stays
on its Join stream: there is nothing to share.

If no answer came for half a lease time, either this stream is stuck or the assigner is late as a whole. Then at every
beat one member, each time another, sends a heartbeat on its Join stream. If that is answered before those missing here,
this stream is stuck, and all go back to their Join streams. If it is not, more questions would not help: heartbeats one
by one cost a late assigner twenty times as much.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from braid.api.assigner.v1 import beat_pb2, join_pb2
from braid.client.tasks import happens, race
from braid.kernel.access.quotas import retry_seconds
from braid.kernel.errors import BraidError, Unavailable
from braid.kernel.limits.assigner.leases import (
    BEAT_MEMBERS_MAX,
    BEAT_NEWS_BYTES,
    BEAT_PATIENCE,
    BEAT_SILENCE_SECONDS,
    BEAT_TELL_AGAIN,
    HELLOS_AT_ONCE,
)
from braid.kernel.limits.client import RECONNECT_SECONDS
from braid.kernel.ports import DuplexCall, Host, Task
from braid.kernel.timing.backoff import Backoff
from braid.rpc.mesh_client import ServiceClient


class BeatMessage(NamedTuple):
    """Heartbeats sent in one message that was not answered yet."""

    sent_at: float
    seats: "Sequence[Seat]"


class Heartbeats:
    """Carries the heartbeats of members whose Join streams share a connection to the assigner's leader.

    Attributes:
        turns: So many of them may say hello at once, and wait for their welcome.
    """

    def __init__(self, host: Host, assigner: ServiceClient) -> None:
        """`assigner` is the client with which the members join."""
        self.turns = asyncio.Semaphore(HELLOS_AT_ONCE)
        self._host = host
        self._assigner = assigner
        self._seats: set[Seat] = set()
        self._carried: dict[Seat, None] = {}  # in the order in which they came
        self._unanswered: dict[int, BeatMessage] = {}
        self._stuck = asyncio.Event()
        self._opened = asyncio.Event()
        self._running: Task | None = None
        self._told_seconds = 0.0  # when the refusal of the last stream said to come again

    def seat(
        self,
        ticket: int,
        every_seconds: float,
        lease_seconds: float,
        loads: Callable[[], join_pb2.Heartbeat],
        heard: Callable[[float], None],
    ) -> "Seat":
        """Returns a seat for a member that was welcomed with a ticket; the member leaves it when its Join stream ends.

        Args:
            ticket: The welcome's.
            every_seconds: How often its heartbeat is due.
            lease_seconds: When no answer came for half of it, a member asks on its Join stream why.
            loads: What it has to tell with a heartbeat.
            heard: Called with the time at which a heartbeat was sent, once that is acknowledged.
        """
        seat = Seat(self, ticket, every_seconds, lease_seconds, loads, heard)
        self._seats.add(seat)
        if len(self._seats) > 1 and self._running is None:
            self._running = self._host.tasks.spawn(self._run(), "heartbeats")
        return seat

    # --- for seats

    async def open(self, until: float) -> bool:
        """Whether there is a stream that was answered; waits while one is being opened."""
        left = until - self._host.clock.elapsed()
        if self._running is not None and not self._opened.is_set() and left > 0:
            await happens(self._opened, left)
        return self._opened.is_set()

    def __contains__(self, seat: object) -> bool:
        return seat in self._carried

    def carry(self, seat: "Seat") -> None:
        """Sends the seat's heartbeats when they are due, from now on."""
        self._carried[seat] = None

    def drop(self, seat: "Seat") -> None:
        """Stops sending the seat's heartbeats."""
        self._carried.pop(seat, None)

    def beaten(self, sent_at: float) -> None:
        """Notes that a heartbeat sent then on a Join stream is acknowledged: earlier ones without answer are stuck."""
        if self._late(sent_at):
            self._stuck.set()

    def leave(self, seat: "Seat") -> None:
        """Removes a seat whose Join stream is over."""
        self.drop(seat)
        self._seats.discard(seat)

    async def close(self) -> None:
        """Ends the stream; members go back to their Join streams."""
        if self._running is not None:
            self._running.cancel()
            await self._running.ended()

    # --- the stream

    async def _run(self) -> None:
        """Keeps a stream open while there is something to share."""
        backoff = Backoff(self._host, RECONNECT_SECONDS)
        try:
            while len(self._seats) > 1:
                self._told_seconds = 0.0
                if await self._stream():
                    backoff.reset()
                await backoff.wait(self._told_seconds)
        finally:
            self._running = None

    async def _stream(self) -> bool:
        """Serves one stream until it ends; returns whether it was answered."""
        answered = False
        with contextlib.suppress(TimeoutError), self._heeding():
            call = await self._assigner.duplex("Beat", beat_pb2.BeatResponse)
            try:
                await call.send(beat_pb2.BeatRequest(sequence=1))
                async with asyncio.timeout(BEAT_SILENCE_SECONDS):
                    answered = await call.receive() is not None
                if answered:
                    self._opened.set()
                    self._stuck.clear()
                    runs = (partial(self._send, call), partial(self._receive, call), self._stuck.wait)
                    await race(self._host.tasks, "beat", *runs)
            finally:
                self._close()
                await call.close()
        return answered

    @contextlib.contextmanager
    def _heeding(self) -> Iterator[None]:
        """Passes errors over: members hear on their Join streams what matters. Keeps when to come again."""
        try:
            yield
        except BraidError as error:
            self._told_seconds = retry_seconds(error)

    def _close(self) -> None:
        """Sends all members back to their Join streams."""
        self._opened.clear()
        self._unanswered.clear()
        carried, self._carried = self._carried, {}
        for seat in carried:
            seat.release()

    async def _send(self, call: DuplexCall) -> None:
        """Sends the heartbeats that are due, beat by beat, until no member is left."""
        sequence = 1
        with contextlib.suppress(Unavailable):
            while self._seats:
                beat_seconds = min(seat.every_seconds for seat in self._carried or self._seats)
                sent_at = self._host.clock.elapsed()
                if self._late(sent_at):
                    self._ask()
                due = [seat for seat in self._carried if seat.due <= sent_at + beat_seconds / 2]
                for seats, request in requests(due):
                    sequence += 1
                    request.sequence = sequence
                    for seat in seats:
                        seat.due = sent_at + seat.every_seconds
                    self._unanswered[sequence] = BeatMessage(sent_at, seats)
                    async with asyncio.timeout(BEAT_SILENCE_SECONDS):
                        await call.send(request)
                await self._host.clock.sleep(beat_seconds)
            return
        await asyncio.Event().wait()  # the receiving side sees the same end

    def _late(self, now: float) -> bool:
        """Whether an answer has been missing for so long that some member needs it."""
        waiting = next(iter(self._unanswered.values()), None)
        return waiting is not None and any(now - seat.heard_at >= seat.patience_seconds for seat in waiting.seats)

    def _ask(self) -> None:
        """Lets one member send a heartbeat on its Join stream, each time another member."""
        if self._carried:
            seat = next(iter(self._carried))
            self._carried[seat] = self._carried.pop(seat)
            seat.release()

    async def _receive(self, call: DuplexCall) -> None:
        while isinstance(response := await call.receive(), beat_pb2.BeatResponse):
            batch = self._unanswered.pop(response.sequence, None)
            if batch is not None:
                self._answered(batch, frozenset(response.unheard))

    def _answered(self, batch: BeatMessage, unheard: frozenset[int]) -> None:
        """Moves each member's deadline to when the message was sent, except those the answer names as not heard."""
        for seat in batch.seats:
            if seat.ticket in unheard:
                seat.void()
            else:
                seat.heard(batch.sent_at)


class Seat:
    """The place of one Join stream among the heartbeats that are carried."""

    def __init__(
        self,
        heartbeats: Heartbeats,
        ticket: int,
        every_seconds: float,
        lease_seconds: float,
        loads: Callable[[], join_pb2.Heartbeat],
        heard: Callable[[float], None],
    ) -> None:
        self.ticket = ticket
        self.every_seconds = every_seconds
        self.due = 0.0
        self.heard_at = 0.0
        self.told: tuple[str, ...] | None = None
        self._work_told = (0.0, 0)
        self.patience_seconds = lease_seconds * BEAT_PATIENCE
        self._heartbeats = heartbeats
        self._loads = loads
        self._heard = heard
        self._released = asyncio.Event()
        self._over = False
        self._silent_beats = 0

    @property
    def taken(self) -> bool:
        """Whether the seat's heartbeats are sent on the shared stream."""
        return self in self._heartbeats

    async def carried(self, sent_at: float, heard_at: float, told: tuple[str, ...] | None) -> None:
        """Waits for as long as its heartbeats are carried; returns when they are not: then it has to beat itself.

        While the stream is being opened nobody has to until half its lease time has passed: a crowd that comes back
        to an assigner, each with heartbeats of its own, keeps it from answering any. It may return while it is carried:
        then the member shall beat once, and come back.

        Args:
            sent_at: When the last one was sent.
            heard_at: When the last acknowledged one was.
            told: The clusters that the last one said are out of reach, which the assigner has heard; None before it.
        """
        if self._over or not await self._heartbeats.open(max(sent_at, heard_at) + self.patience_seconds):
            return
        if not self.taken:
            self.due, self.heard_at, self.told = sent_at + self.every_seconds, heard_at, told
            self._heartbeats.carry(self)
        self._released.clear()
        await self._released.wait()

    def news(self) -> beat_pb2.MemberNews | None:
        """Returns what the next heartbeat must carry, if anything."""
        heartbeat = self._loads()
        unreachable = tuple(heartbeat.unreachable_clusters)
        self._silent_beats += 1
        again = self._silent_beats >= BEAT_TELL_AGAIN  # of two streams, either may have been read first
        tell = unreachable != self.told or (again and unreachable)
        work = heartbeat.work.cores, heartbeat.work.handlers
        if not heartbeat.loads and not tell and work == self._work_told:
            return None
        news = beat_pb2.MemberNews(ticket=self.ticket, loads=heartbeat.loads)
        if heartbeat.HasField("work"):
            news.work.CopyFrom(heartbeat.work)
        self._work_told = work
        if tell:
            news.unreachable.clusters.extend(unreachable)
            news.unreachable.SetInParent()
            self.told, self._silent_beats = unreachable, 0
        return news

    def heard(self, sent_at: float) -> None:
        """Notes that a heartbeat sent then on the shared stream is acknowledged."""
        if not self._over:
            self.heard_at = sent_at
            self._heard(sent_at)

    def beaten(self, sent_at: float) -> None:
        """Notes that the member's own heartbeat, sent then, is acknowledged."""
        if self.taken:
            self._heartbeats.beaten(sent_at)

    def void(self) -> None:
        """Leaves the shared stream because the ticket no longer counts; the Join stream will say why."""
        self._over = True
        self._heartbeats.drop(self)
        self.release()

    def release(self) -> None:
        """Lets the member send on its Join stream again; only once, if it is still carried."""
        self._released.set()

    def leave(self) -> None:
        """Ends the seat: the Join stream is over."""
        self.void()
        self._heartbeats.leave(self)


def requests(due: Sequence[Seat]) -> Iterator[tuple[Sequence[Seat], beat_pb2.BeatRequest]]:
    """Packs these members' heartbeats into as few messages as their bounds allow."""
    request, seats, size = beat_pb2.BeatRequest(), list[Seat](), 0
    for seat in due:
        news = seat.news()
        more = news.ByteSize() if news is not None else 0
        if seats and (len(seats) == BEAT_MEMBERS_MAX or size + more > BEAT_NEWS_BYTES):
            yield seats, request
            request, seats, size = beat_pb2.BeatRequest(), [], 0
        request.tickets.append(seat.ticket)
        seats.append(seat)
        size += more
        if news is not None:
            request.news.append(news)
    if seats:
        yield seats, request
