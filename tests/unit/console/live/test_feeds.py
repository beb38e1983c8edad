"""Live pages: read once for all, told as what changed, resumed, and bounded whatever browsers do."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import cast

import pytest

from braid.kernel.errors import Exhausted
from braid.rpc.documents import Document
from console.server.limits import FEED_LINGER_SECONDS, WATCHERS_MAX, WATCHERS_PER_SESSION_MAX
from console.server.live.feed import Feed
from console.server.live.feeds import Feeds
from console.server.live.parts import Content, Table
from console.server.reads.reader import Reader
from console.server.reads.view import Params, Read, View, ViewKind
from console.server.signing.sessions import Identity, Session, Sessions
from tests.support.virtual_time import VirtualProcess, running_loop
from tests.unit.cli.mesh import virtual


class Rows:
    """A page of one table, whose rows a test sets."""

    def __init__(self, seconds: float = 1.0) -> None:
        self.rows: dict[str, Document] = {"a": {"n": 1}}
        self.reads = 0
        self._seconds = seconds
        self.kind = ViewKind("rows", "Rows.", (), ("of",), self._make)

    def _make(self) -> View:
        return View("rows", {"rows": True}, (Read(("rows",), self._take, self._seconds),))

    async def _take(self, reader: Reader, params: Params) -> Mapping[str, Content]:
        self.reads += 1
        return {"rows": Table(dict(self.rows))}


class Watching:
    """Feeds, and somebody who is signed in."""

    def __init__(self) -> None:
        self.host = VirtualProcess(running_loop(), "console", 1).host
        self.feeds = Feeds(self.host)
        self.feeds.start()
        self.sessions = Sessions(self.host)
        self.identity = Identity("one", "link", cast("Reader", None))

    def session(self) -> Session:
        """A session of the one person there is."""
        return self.sessions.open(self.identity)

    async def open(self, rows: Rows, session: Session, last: str = "") -> tuple[Feed, AsyncIterator[bytes]]:
        """A page's feed, and a stream of it."""
        feed = await self.feeds.feed(session, rows.kind, {})
        return feed, self.feeds.stream(session, feed, last)


async def named(stream: AsyncIterator[bytes], name: str) -> bytes:
    """The next event of a name."""
    async for event in stream:
        if event.startswith(f"event: {name}\n".encode()):
            return event
    raise AssertionError(f"the stream ended without {name}")


@virtual
async def test_a_change_names_the_rows_that_changed_alone() -> None:
    watching, rows = Watching(), Rows()
    rows.rows["b"] = {"n": 2}
    _, stream = await watching.open(rows, watching.session())
    assert b'"key":"a"' in await named(stream, "snapshot")
    rows.rows = {"b": {"n": 3}}
    change = await named(stream, "delta")
    assert b'"set":[{"key":"b","n":3}],"removed":["a"]' in change
    quiet = await named(stream, "delta")
    assert b'"set"' not in quiet and b'"removed"' not in quiet


@virtual
async def test_a_page_is_read_once_for_all_who_look() -> None:
    watching, rows = Watching(), Rows()
    streams = [(await watching.open(rows, watching.session()))[1] for _ in range(50)]
    for each in streams:
        await named(each, "snapshot")
    before = rows.reads
    await asyncio.sleep(10.0)
    assert rows.reads - before in range(9, 12)
    assert watching.feeds.count == 1


@virtual
async def test_persons_with_other_rights_share_no_page() -> None:
    watching, rows = Watching(), Rows()
    await watching.open(rows, watching.session())
    other = watching.sessions.open(Identity("two", "token", cast("Reader", None)))
    await watching.open(rows, other)
    assert watching.feeds.count == 2


@virtual
async def test_a_stream_that_broke_resumes_without_a_snapshot() -> None:
    watching, rows = Watching(), Rows()
    session = watching.session()
    feed, stream = await watching.open(rows, session)
    await named(stream, "snapshot")
    seen = feed.id
    rows.rows["c"] = {"n": 9}
    await asyncio.sleep(3.0)
    _, resumed = await watching.open(rows, session, seen)
    first = await anext(resumed)
    assert first.startswith(b"event: delta") and b'"key":"c"' in first


@pytest.mark.parametrize(
    ("last", "reason"), [("gone.7", b"restarted"), ("SAME.999999", b"too_old"), ("?", b"restarted")]
)
def test_an_id_that_is_not_kept_is_told_as_a_gap(last: str, reason: bytes) -> None:
    @virtual
    async def run() -> None:
        watching, rows = Watching(), Rows()
        session = watching.session()
        feed, _ = await watching.open(rows, session)
        _, stream = await watching.open(rows, session, last.replace("SAME", feed.id.partition(".")[0]))
        gap = await anext(stream)
        assert gap.startswith(b"event: gap") and reason in gap
        assert (await anext(stream)).startswith(b"event: snapshot")

    run()


@virtual
async def test_a_slow_watcher_gets_a_gap_and_a_snapshot() -> None:
    watching, rows = Watching(), Rows(0.001)
    feed, stream = await watching.open(rows, watching.session())
    await named(stream, "snapshot")
    for number in range(1_200):
        rows.rows["a"] = {"n": number, "text": "x" * 10_000}
        await feed.changed(1.0)
    gap = await anext(stream)
    assert gap.startswith(b"event: gap") and b"slow" in gap
    assert (await anext(stream)).startswith(b"event: snapshot")


@virtual
async def test_a_stream_ends_with_its_session() -> None:
    watching, rows = Watching(), Rows()
    session = watching.session()
    _, stream = await watching.open(rows, session)
    await named(stream, "snapshot")
    watching.sessions.close(session)
    assert b'"session"' in await named(stream, "end")


@virtual
async def test_streams_end_when_the_console_does() -> None:
    watching, rows = Watching(), Rows()
    _, stream = await watching.open(rows, watching.session())
    await named(stream, "snapshot")
    watching.feeds.end()
    assert b'"shutdown"' in await named(stream, "end")


@virtual
async def test_a_page_that_nobody_looks_at_is_read_no_more() -> None:
    watching, rows = Watching(), Rows()
    await watching.open(rows, watching.session())
    await asyncio.sleep(FEED_LINGER_SECONDS + 10.0)
    assert watching.feeds.count == 0
    before = rows.reads
    await asyncio.sleep(10.0)
    assert rows.reads == before


@virtual
async def test_a_quiet_stream_has_heartbeats() -> None:
    watching, rows = Watching(), Rows(60.0)
    _, stream = await watching.open(rows, watching.session())
    await named(stream, "snapshot")
    assert b"now_ms" in await named(stream, "heartbeat")


@virtual
async def test_watchers_of_a_browser_and_of_all_are_bounded() -> None:
    watching, rows = Watching(), Rows(60.0)
    session = watching.session()
    open_streams: list[AsyncIterator[bytes]] = []
    for _ in range(WATCHERS_MAX):
        if len(open_streams) % WATCHERS_PER_SESSION_MAX == 0:
            session = watching.session()
        watching.feeds.check_room(session)
        _, stream = await watching.open(rows, session)
        await anext(stream)
        open_streams.append(stream)
    assert watching.feeds.watchers == WATCHERS_MAX
    with pytest.raises(Exhausted, match="watched at once"):
        watching.feeds.check_room(watching.session())


@virtual
async def test_one_browser_opens_a_bounded_number_of_streams() -> None:
    watching, rows = Watching(), Rows(60.0)
    session = watching.session()
    open_streams: list[AsyncIterator[bytes]] = []
    for _ in range(WATCHERS_PER_SESSION_MAX):
        watching.feeds.check_room(session)
        open_streams.append((await watching.open(rows, session))[1])
        await anext(open_streams[-1])
    with pytest.raises(Exhausted, match="this browser"):
        watching.feeds.check_room(session)
    watching.feeds.check_room(watching.session())


@virtual
async def test_one_person_cannot_take_every_page() -> None:
    watching, rows = Watching(), Rows(60.0)
    session = watching.session()
    with pytest.raises(Exhausted, match="different pages"):
        for number in range(200):
            await watching.feeds.feed(session, rows.kind, {"of": str(number)})
    other = watching.sessions.open(Identity("two", "token", cast("Reader", None)))
    await watching.feeds.feed(other, rows.kind, {})
