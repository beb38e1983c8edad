"""All live pages: each is read once for all viewers with the same rights, and ended when it has no viewer."""

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

from braid.kernel.errors import Exhausted, Unavailable
from braid.kernel.ports import Host
from console.server.limits import (
    CHUNK_BYTES,
    FEED_LINGER_SECONDS,
    FEEDS_MAX,
    FEEDS_PER_IDENTITY_MAX,
    FIRST_SECONDS,
    HEARTBEAT_SECONDS,
    WATCHERS_MAX,
    WATCHERS_PER_SESSION_MAX,
)
from console.server.live.feed import Feed
from console.server.live.sse import sse_event
from console.server.reads.view import Params, ViewKind
from console.server.signing.sessions import Session

_Key = tuple[str, str, tuple[tuple[str, str], ...]]


class Feeds:
    """The feeds of one console, and how many watch each."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._feeds: dict[_Key, Feed] = {}
        self._watchers: dict[str, int] = {}  # by session
        self._ending = False

    @property
    def count(self) -> int:
        """How many pages are read now."""
        return len(self._feeds)

    @property
    def watchers(self) -> int:
        """How many streams are open."""
        return sum(self._watchers.values())

    def start(self) -> None:
        """Starts the task that ends pages without viewers."""
        self._host.tasks.spawn(self._sweep(), "end feeds")

    def end(self) -> None:
        """Ends all feeds, and with them all streams."""
        self._ending = True
        for feed in self._feeds.values():
            feed.end()
        self._feeds.clear()

    def end_of(self, identity: str) -> None:
        """Ends the feeds of an identity: one that reads on would open its connections again."""
        for key in [each for each in self._feeds if each[0] == identity]:
            self._feeds.pop(key).end()

    async def feed(self, session: Session, kind: ViewKind, params: Params) -> Feed:
        """The feed of a page, once its reads were tried. Raises `Exhausted` where too many pages are shown."""
        key = (session.identity.key, kind.name, tuple(sorted(params.items())))
        feed = self._feeds.get(key)
        if feed is None:
            self._make_room(session.identity.key)
            feed = self._feeds[key] = Feed(self._host, kind.view(params), params, session.identity.reader)
            feed.start()
        feed.left_at = self._host.clock.elapsed()
        await feed.first(FIRST_SECONDS)
        return feed

    def check_room(self, session: Session) -> None:
        """Raises `Exhausted` where no further stream may be opened."""
        if self.watchers >= WATCHERS_MAX:
            raise Exhausted(f"{WATCHERS_MAX} pages are watched at once already", remedy="try again in a while")
        if self._watchers.get(session.id, 0) >= WATCHERS_PER_SESSION_MAX:
            message = f"this browser watches {WATCHERS_PER_SESSION_MAX} pages already"
            raise Exhausted(message, field="session", remedy="close some of its tabs")

    async def stream(self, session: Session, feed: Feed, last_id: str) -> AsyncIterator[bytes]:
        """Yields a snapshot or what a browser missed, then changes, until it leaves or its session ends."""
        try:
            self.check_room(session)  # others may have come since the request was let in
        except Exhausted:
            yield sse_event("end", {"reason": "busy"})
            return
        with self._watching(session, feed):
            at = ""
            if last_id and feed.after(last_id) is None:
                incarnation = feed.id.partition(".")[0]
                same = last_id.startswith(f"{incarnation}.")
                yield sse_event("gap", {"reason": "too_old" if same else "restarted"})
            elif last_id:
                at = last_id
            async for chunk in self._follow(session, feed, at):
                yield chunk

    async def _follow(self, session: Session, feed: Feed, at: str) -> AsyncIterator[bytes]:
        while not feed.ended:
            if session.ended(self._host.clock.now_ms()):
                yield sse_event("end", {"reason": "session"})
                return
            found = feed.after(at) if at else None
            if found is None:
                if at:  # the browser was so slow that events after its last one are gone
                    yield sse_event("gap", {"reason": "slow"})
                whole, at = feed.snapshot(), feed.id
                for chunk in _chunks(whole):
                    yield chunk
                continue
            events, at = found
            for event in events:
                for chunk in _chunks(event):
                    yield chunk
            if not events:
                before = feed.id
                await feed.changed(HEARTBEAT_SECONDS)
                if feed.id == before and not feed.ended:
                    yield sse_event("heartbeat", {"now_ms": self._host.clock.now_ms()})
        yield sse_event("end", {"reason": "shutdown"})

    @contextmanager
    def _watching(self, session: Session, feed: Feed) -> Iterator[None]:
        feed.watchers += 1
        self._watchers[session.id] = self._watchers.get(session.id, 0) + 1
        try:
            yield
        finally:
            feed.watchers -= 1
            feed.left_at = self._host.clock.elapsed()
            self._watchers[session.id] -= 1
            if not self._watchers[session.id]:
                del self._watchers[session.id]

    def _make_room(self, identity: str) -> None:
        if self._ending:
            raise Unavailable("the console is ending", remedy="try again in a while")
        mine = sum(key[0] == identity for key in self._feeds)
        if len(self._feeds) >= FEEDS_MAX or mine >= FEEDS_PER_IDENTITY_MAX:
            self._end_idle(2 * FIRST_SECONDS)  # long enough to keep pages that still wait for their first answers
            mine = sum(key[0] == identity for key in self._feeds)
        if len(self._feeds) >= FEEDS_MAX or mine >= FEEDS_PER_IDENTITY_MAX:
            raise Exhausted("too many different pages are shown at once", remedy="close some, or try again in a while")

    def _end_idle(self, seconds: float) -> None:
        now = self._host.clock.elapsed()
        for key, feed in list(self._feeds.items()):
            feed.forget_snapshot()
            if not feed.watchers and now - feed.left_at >= seconds:
                feed.end()
                del self._feeds[key]

    async def _sweep(self) -> None:
        while True:
            await self._host.clock.sleep(HEARTBEAT_SECONDS)
            self._end_idle(FEED_LINGER_SECONDS)


def _chunks(event: bytes) -> Iterator[bytes]:
    for start in range(0, len(event), CHUNK_BYTES):
        yield event[start : start + CHUNK_BYTES]
