"""The Beat stream of one connection: heartbeats of its members, many in one message, each answered for all of them.

It adds nothing to what a heartbeat means on the member's own Join stream, which stays open beside it. One message is
answered before the next is read: who floods it, or does not read, waits for himself.
"""

import asyncio
from collections import Counter
from collections.abc import Callable

from braid.api.assigner.v1 import beat_pb2
from braid.kernel.errors import Exhausted, Invalid, NotLeader
from braid.kernel.limits.assigner.leases import BEAT_ANSWER_SECONDS, BEAT_MEMBERS_MAX, BEAT_STREAMS_MAX
from braid.kernel.ports import DuplexServing
from braid.runtime.replica import Replica
from services.assigner.liveness.message_allowance import Allowance
from services.assigner.liveness.tickets import Origin, Tickets, origin_of
from services.assigner.reconciler.term import Term
from services.assigner.servicer.member_session import MemberSession


class Beats:
    """Serves the Beat streams of connections."""

    def __init__(self, replica: Replica, tickets: Tickets[MemberSession], term: Callable[[], Term]) -> None:
        """`term` returns the present term, or raises `NotLeader`."""
        self._replica = replica
        self._tickets = tickets
        self._term = term
        self._open: Counter[str] = Counter()  # by connection

    async def serve(self, stream: DuplexServing) -> None:
        """Serves one stream until the client ends it, or this replica's term is over.

        Raises:
            BraidError: why it was ended from here.
        """
        term, origin = self._term(), origin_of(stream.caller)
        connection = stream.caller.peer
        if self._open[connection] >= BEAT_STREAMS_MAX:
            raise Exhausted(f"{BEAT_STREAMS_MAX} Beat streams are open on this connection", remedy="end one first")
        self._open[connection] += 1
        try:
            await self._answer(term, origin, stream)
        finally:
            self._open[connection] -= 1
            if not self._open[connection]:
                del self._open[connection]

    async def _answer(self, term: Term, origin: Origin, stream: DuplexServing) -> None:
        clock, number = self._replica.host.clock, 0
        allowance = Allowance(clock.elapsed())
        while isinstance(request := await stream.receive(), beat_pb2.BeatRequest):
            allowance.take(clock.elapsed())
            number += 1
            _check(request, number)
            unheard = self._heard(term, origin, request)
            if not term.valid():
                raise NotLeader(f"{self._replica.instance} no longer leads", remedy="ask the leader")
            try:
                async with asyncio.timeout(BEAT_ANSWER_SECONDS):
                    await stream.send(beat_pb2.BeatResponse(sequence=request.sequence, unheard=unheard))
            except TimeoutError:
                raise Exhausted("answers are not read", remedy="open the stream again") from None

    def _heard(self, term: Term, origin: Origin, request: beat_pb2.BeatRequest) -> list[int]:
        """Counts the heartbeats; returns the tickets that count no more."""
        sessions = self._tickets.of(origin)
        unheard = term.heard_together((ticket, sessions.get(ticket)) for ticket in request.tickets)
        if request.news:
            heard = set(request.tickets).difference(unheard)
            for news in request.news:
                if news.ticket in heard:
                    sessions[news.ticket].news(news)
        return unheard


def _check(request: beat_pb2.BeatRequest, number: int) -> None:
    """Raises `Invalid` for a message that no client of ours sends."""
    if request.sequence != number:
        raise Invalid(f"message {number} has sequence {request.sequence}", field="sequence")
    if len(request.tickets) > BEAT_MEMBERS_MAX:
        raise Invalid(
            f"{len(request.tickets)} heartbeats", field="tickets", remedy=f"send {BEAT_MEMBERS_MAX} in one message"
        )
