"""The event store in one SQLite file: the embedded default, for any number of processes of one machine.

Transactions live in `sqlite_histories` and `sqlite_leadership`, files and threads in `sqlite_database`; here they
become the port.
"""

import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import TypeVar

from braid.kernel.errors import CorruptHistory, OutcomeUnknown, StoreUnavailable
from braid.kernel.limits.store import SQLITE_LOOK_SECONDS, SQLITE_RETRY_SECONDS
from braid.kernel.ports import Appended, Endpoint, EventBatch, Fence, HistoryId, Host, Leader, Loaded, Session, Snapshot
from braid.stores import sqlite_histories as tables
from braid.stores import sqlite_leadership as leadership
from braid.stores.batches import check_append
from braid.stores.session import KeptSession, session_over
from braid.stores.sqlite_database import Connect, SqliteDatabase, connect_file
from braid.stores.sqlite_news import News
from braid.stores.sqlite_process import this_process, told_of_end

T = TypeVar("T")


class SqliteStore:
    """The `kernel.ports.EventStore` over a file.

    Args:
        path: The file; made when it does not exist, with its directory.
        host: Of the process.
        connect: Opens a connection to the file.
    """

    def __init__(self, path: Path, host: Host, connect: Connect = connect_file) -> None:
        self._host = host
        self._process = this_process()
        self._database = SqliteDatabase(path, host.clock, connect, self._process)
        self._news = News(path, host, lambda: self._database.read(tables.read_position))
        self._sessions: list[KeptSession] = []

    # --- histories

    async def incarnation(self) -> int:
        """See `EventStore`."""
        return await self._database.read(tables.read_incarnation)

    async def mesh(self) -> str:
        """See `EventStore`. A file of an earlier release gets its id when it is first asked for."""
        known = await self._database.read(tables.read_mesh)
        return known or await self._write(lambda connection, _: tables.make_mesh(connection, self._host.ids.ulid()))

    async def load(self, history: HistoryId) -> Loaded:
        """See `EventStore`."""
        (loaded,) = await self.load_many((history,))
        return loaded

    async def load_many(self, histories: Sequence[HistoryId]) -> Sequence[Loaded]:
        """See `EventStore`."""
        try:
            return await self._database.read(lambda connection: tables.load_many(connection, histories))
        except CorruptHistory:
            return await self._database.read(lambda connection: tables.load_many(connection, histories))

    async def heads(self, histories: Sequence[HistoryId]) -> Sequence[int]:
        """See `EventStore`."""
        return await self._database.read(lambda connection: tables.read_heads(connection, histories))

    async def histories(self, service: str) -> tuple[Sequence[HistoryId], int]:
        """See `EventStore`."""
        return await self._database.read(lambda connection: tables.list_histories(connection, service))

    async def append(self, history: HistoryId, events: Sequence[bytes], expected: int, fence: Fence) -> Appended:
        """See `EventStore`."""
        check_append(history, events)
        taken: list[int] = []

        def transaction(connection: sqlite3.Connection) -> Appended:
            now = self._host.clock.elapsed()
            appended = tables.append(connection, history, events, expected, fence, now)
            taken.append(appended.revision)
            return appended

        try:
            return await self._database.write(transaction)
        except OutcomeUnknown as doubt:
            return await self._settle(history, events, expected, taken[0], doubt)

    async def _settle(
        self, history: HistoryId, events: Sequence[bytes], expected: int, revision: int, doubt: OutcomeUnknown
    ) -> Appended:
        """Reads an append back.

        Absence is not final, because a crash may still replay the log; only presence settles.
        """
        try:
            found = await self._database.read(
                lambda connection: tables.find_append(connection, history, events, expected, revision)
            )
        except StoreUnavailable:
            raise doubt from None
        if found is None:
            raise doubt
        return found

    async def save_snapshot(self, history: HistoryId, snapshot: Snapshot, fence: Fence) -> None:
        """See `EventStore`."""
        await self._write(lambda connection, now: tables.save_snapshot(connection, history, snapshot, fence, now))

    async def watch(self, service: str, after_revision: int) -> AsyncIterator[EventBatch]:
        """See `EventStore`. Reads what follows a revision whenever a process announces a commit."""
        revision = after_revision
        while True:
            news = self._news.count()
            try:
                batches, until = await self._batches_after(service, revision)
            except StoreUnavailable:
                await self._host.clock.sleep(SQLITE_RETRY_SECONDS)
                continue
            for batch in batches:
                yield batch
            revision = until
            if not batches:
                await self._news.after(news)

    async def _batches_after(self, service: str, revision: int) -> tuple[Sequence[EventBatch], int]:
        return await self._database.read(lambda connection: tables.batches_after(connection, service, revision))

    # --- sessions, election, directory

    async def open_session(self, ttl_seconds: float) -> Session:
        """See `EventStore`."""
        name, sent = self._host.ids.ulid(), self._host.clock.elapsed()
        await self._write(
            lambda connection, now: leadership.open_session(connection, name, ttl_seconds, self._process, now)
        )
        session = KeptSession(self._host, name, ttl_seconds, sent, self)
        self._sessions = [*(kept for kept in self._sessions if kept.live()), session]
        return session

    async def renew(self, session: str) -> bool:
        """One keep-alive; see `stores.session.KeepAlive`."""
        return await self._write(
            lambda connection, now: leadership.renew_session(connection, session, now), lasting=False
        )

    async def end(self, session: str) -> None:
        """Ends a session; see `stores.session.KeepAlive`."""
        await self._write(lambda connection, _: leadership.end_session(connection, session))

    async def campaign(self, endpoint: Endpoint, session: Session) -> Leader:
        """See `EventStore`. Raises `Fenced` when the session ends first."""
        for kept in self._sessions:
            if kept.id == session.id:
                return await kept.while_live(self._campaign(endpoint, session.id))
        raise session_over(session.id)

    async def _campaign(self, endpoint: Endpoint, session: str) -> Leader:
        """Tries whenever the leadership may be free: at each commit, at the end of the leader's session or process."""
        clock = self._host.clock
        while True:
            news = self._news.count()
            try:
                held = await self._held(endpoint.service)
                if held is None or held.leader.endpoint == endpoint:
                    won = await self._write(
                        lambda connection, now: leadership.try_lead(connection, endpoint, session, now)
                    )
                    if won is not None:
                        return won
            except StoreUnavailable:
                held = None
            if held is None:
                await clock.sleep(SQLITE_RETRY_SECONDS)
                continue
            with told_of_end(held.process, self._news.tell):
                await self._news.after(news, min(held.expires - clock.elapsed(), SQLITE_LOOK_SECONDS))

    async def resign(self, leader: Leader) -> None:
        """See `EventStore`."""
        await self._write(lambda connection, _: leadership.resign(connection, leader.fence))

    async def leader(self, service: str) -> Leader | None:
        """See `EventStore`."""
        held = await self._held(service)
        return held.leader if held else None

    async def _held(self, service: str) -> leadership.Held | None:
        now = self._host.clock.elapsed
        return await self._database.read(lambda connection: leadership.read_held(connection, service, now()))

    async def publish(self, endpoint: Endpoint, session: Session) -> None:
        """See `EventStore`. Raises `Fenced` when the session has ended."""
        await self._write(lambda connection, now: leadership.publish(connection, endpoint, session.id, now))

    async def directory(self) -> Sequence[Endpoint]:
        """See `EventStore`."""
        now = self._host.clock.elapsed
        return await self._database.read(lambda connection: leadership.read_directory(connection, now()))

    async def close(self) -> None:
        """See `EventStore`. Sessions are no longer kept alive; they expire."""
        for session in self._sessions:
            session.abandon()
        self._news.close()
        await self._database.close()

    # --- writing

    async def _write(self, transaction: Callable[[sqlite3.Connection, float], T], *, lasting: bool = True) -> T:
        """Runs a transaction that its caller may repeat: a doubtful commit counts as not done.

        Args:
            transaction: Gets the time on CLOCK_BOOTTIME.
            lasting: See `SqliteDatabase.write`.

        Raises:
            StoreUnavailable: it was not done, or nobody knows.
        """
        try:
            elapsed = self._host.clock.elapsed
            return await self._database.write(lambda connection: transaction(connection, elapsed()), lasting=lasting)
        except OutcomeUnknown as doubt:
            raise StoreUnavailable(doubt.message, remedy="try again") from doubt
