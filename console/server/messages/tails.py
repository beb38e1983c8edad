"""All live tails of one console: how many there may be, and the events that each sends until it ends."""

from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple

from braid.client.reading.channel_addresses import ChannelPlace
from braid.kernel.access.roles import Action
from braid.kernel.errors import AccessDenied, BraidError, Exhausted, NotFound, Unauthenticated
from braid.kernel.ports import Host
from braid.rpc.documents import Document, Value
from console.server.limits import (
    HEARTBEAT_SECONDS,
    TAIL_RIGHTS_SECONDS,
    TAIL_SEND_ROWS,
    TAIL_SEND_SECONDS,
    TAILS_MAX,
    TAILS_PER_SESSION_MAX,
)
from console.server.live.sse import sse_event
from console.server.messages.asked import Asked
from console.server.messages.places import places_of
from console.server.messages.rights import require
from console.server.messages.tail import Tail
from console.server.problems import problem_of
from console.server.signing.sessions import Session

_ENDING = (AccessDenied, Unauthenticated, NotFound)


class Following(NamedTuple):
    """A tail that begins: of which stream, what was asked, and the channels there are."""

    stream: str
    asked: Asked
    tail: Tail
    channels: Sequence[ChannelPlace]


class Tails:
    """The tails that are open, by session."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._open: dict[str, int] = {}

    @property
    def count(self) -> int:
        """How many are open."""
        return sum(self._open.values())

    def check_room(self, session: Session) -> None:
        """Raises `Exhausted` where no further tail may be opened."""
        if self.count >= TAILS_MAX:
            raise Exhausted(f"{TAILS_MAX} live tails are open already", remedy="try again in a while")
        if self._open.get(session.id, 0) >= TAILS_PER_SESSION_MAX:
            message = f"this browser follows {TAILS_PER_SESSION_MAX} tails already"
            raise Exhausted(message, field="session", remedy="close some of its tabs")

    async def stream(self, session: Session, following: Following, hello: Document) -> AsyncIterator[bytes]:
        """Yields events: `began`, then `rows`, with `heartbeat` between; `end` says why it ended."""
        try:
            self.check_room(session)  # others may have come since the request was let in
        except Exhausted as error:
            yield sse_event("end", {"error": problem_of(error).document()})
            return
        self._open[session.id] = self._open.get(session.id, 0) + 1
        try:
            yield sse_event("began", {**hello, "now_ms": self._host.clock.now_ms()})
            async for event in self._events(session, following):
                yield event
        finally:
            self._left(session)
            # A browser that leaves cancels all that is awaited here, so a task of its own frees the connections.
            self._host.tasks.spawn(following.tail.end(), "end tail")

    async def _events(self, session: Session, following: Following) -> AsyncIterator[bytes]:
        tail, clock = following.tail, self._host.clock
        tail.follow(following.channels)
        checked = sent = clock.elapsed()
        absent: list[Value] = []
        while not session.ended(clock.now_ms()):
            if clock.elapsed() - checked >= TAIL_RIGHTS_SECONDS:
                problem = await self._checked(session, following)
                checked = clock.elapsed()
                if problem is not None:
                    yield sse_event("end", {"error": problem})
                    return
            rows, skipped = tail.waiting.take()
            now_absent = list[Value](tail.waiting.absent.values())
            if rows or skipped or now_absent != absent:
                absent, sent = now_absent, clock.elapsed()
                found: Document = {"rows": list[Value](rows), "skipped": skipped, "absent": absent}
                yield sse_event("rows", {**found, "now_ms": clock.now_ms()})
            elif clock.elapsed() - sent >= HEARTBEAT_SECONDS:
                sent = clock.elapsed()
                yield sse_event("heartbeat", {"now_ms": clock.now_ms()})
            if len(rows) < TAIL_SEND_ROWS:
                await clock.sleep(TAIL_SEND_SECONDS)
        yield sse_event("end", {"error": problem_of(Unauthenticated("the session has ended")).document()})

    async def _checked(self, session: Session, following: Following) -> Document | None:
        """Why the tail must end, as JSON has it; None to go on, with the channels that are there now."""
        reader, asked = session.identity.reader, following.asked
        try:
            await require(reader, Action.CONSUME, following.stream)
            places = await places_of(reader, following.stream, asked.lane, asked.cluster)
        except _ENDING as error:
            return problem_of(error).document()
        except BraidError:  # a service is away: what was allowed seconds ago goes on until it answers
            return None
        following.tail.follow(places.channels)
        return None

    def _left(self, session: Session) -> None:
        self._open[session.id] -= 1
        if not self._open[session.id]:
            del self._open[session.id]
