"""The event store in memory, for unit tests and simulation: one client per process over one `MemoryStoreServer`.

A client can be cut off from its server, slowed down, and lose requests or answers, as a network would do it.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from enum import Enum
from typing import TypeVar

from braid.kernel.errors import OutcomeUnknown, StoreUnavailable
from braid.kernel.limits.store import STORE_CALL_SECONDS
from braid.kernel.ports import Appended, Endpoint, EventBatch, Fence, HistoryId, Host, Leader, Loaded, Session, Snapshot
from braid.stores.batches import check_append
from braid.stores.memory_server import MemoryStoreServer
from braid.stores.session import KeptSession, session_over
from braid.stores.signal import Signal

T = TypeVar("T")


class Fate(Enum):
    """The fate of a request: it arrives, or it or its answer is lost."""

    ANSWERED = "answered"
    REQUEST_LOST = "request lost"
    ANSWER_LOST = "answer lost"


def _no_latency(_: str) -> float:
    return 0.0


def _answered(_: str) -> Fate:
    return Fate.ANSWERED


class MemoryStore:
    """The `kernel.ports.EventStore` of one process.

    Args:
        host: Of the process.
        server: The store; None makes a new one on the host's clock.

    Attributes:
        server: The store.
        latency: Given the operation's name (`append`), the seconds its request and its answer take each.
        fate: Given the operation's name, what becomes of it.
    """

    def __init__(self, host: Host, server: MemoryStoreServer | None = None) -> None:
        self.server = server or MemoryStoreServer(host.clock)
        self.latency: Callable[[str], float] = _no_latency
        self.fate: Callable[[str], Fate] = _answered
        self._host = host
        self._connected = True
        self._closed = False
        self._sessions: list[KeptSession] = []
        self._link = Signal()

    # --- faults

    def disconnect(self) -> None:
        """Cuts this client off: requests fail, watches wait, keep-alives do not arrive."""
        self._connected = False

    def reconnect(self) -> None:
        """Ends `disconnect`; watches resume."""
        self._connected = True
        self._link.notify()

    # --- histories

    async def incarnation(self) -> int:
        """See `EventStore`."""
        return await self._call("incarnation", self.server.incarnation)

    async def mesh(self) -> str:
        """See `EventStore`."""
        return await self._call("mesh", self.server.mesh)

    async def load(self, history: HistoryId) -> Loaded:
        """See `EventStore`."""
        return await self._call("load", lambda: self.server.load(history))

    async def load_many(self, histories: Sequence[HistoryId]) -> Sequence[Loaded]:
        """See `EventStore`."""
        return await self._call("load", lambda: [self.server.load(each) for each in histories])

    async def heads(self, histories: Sequence[HistoryId]) -> Sequence[int]:
        """See `EventStore`."""
        return await self._call("heads", lambda: [self.server.load(each).sequence for each in histories])

    async def histories(self, service: str) -> tuple[Sequence[HistoryId], int]:
        """See `EventStore`."""
        return await self._call("histories", lambda: self.server.histories(service))

    async def append(self, history: HistoryId, events: Sequence[bytes], expected: int, fence: Fence) -> Appended:
        """See `EventStore`."""
        check_append(history, events)
        return await self._call("append", lambda: self.server.append(history, events, expected, fence))

    async def save_snapshot(self, history: HistoryId, snapshot: Snapshot, fence: Fence) -> None:
        """See `EventStore`."""
        await self._call("save_snapshot", lambda: self.server.save_snapshot(history, snapshot, fence))

    async def watch(self, service: str, after_revision: int) -> AsyncIterator[EventBatch]:
        """See `EventStore`."""
        revision = after_revision
        while True:
            await self._linked()
            batches, until = self.server.batches_after(service, revision)
            if batches:
                await self._host.clock.sleep(self.latency("watch"))
                await self._linked()
            for batch in batches:
                yield batch
            revision = until
            if not batches:
                await self.server.changed.wait()

    # --- sessions, election, directory

    async def open_session(self, ttl_seconds: float) -> Session:
        """See `EventStore`."""
        sent = self._host.clock.elapsed()
        name = await self._call("open_session", lambda: self.server.open_session(ttl_seconds))
        session = KeptSession(self._host, name, ttl_seconds, sent, self)
        self._sessions = [kept for kept in self._sessions if kept.live()] + [session]
        return session

    async def renew(self, session: str) -> bool:
        """Sends one keep-alive; see `stores.session.KeepAlive`."""
        return await self._call("renew", lambda: self.server.renew(session))

    async def end(self, session: str) -> None:
        """Ends a session; see `stores.session.KeepAlive`."""
        await self._call("end_session", lambda: self.server.end_session(session))

    async def campaign(self, endpoint: Endpoint, session: Session) -> Leader:
        """See `EventStore`. Raises `Fenced` when the session ends first."""
        return await self._own(session).while_live(self._campaign(endpoint, session.id))

    async def _campaign(self, endpoint: Endpoint, session: str) -> Leader:
        while True:
            try:
                outcome = await self._call("campaign", lambda: self.server.try_lead(endpoint, session))
            except StoreUnavailable:
                continue
            if isinstance(outcome, Leader):
                return outcome
            await self.server.changed.wait(outcome)

    async def resign(self, leader: Leader) -> None:
        """See `EventStore`."""
        await self._call("resign", lambda: self.server.resign(leader))

    async def leader(self, service: str) -> Leader | None:
        """See `EventStore`."""
        return await self._call("leader", lambda: self.server.leader(service))

    async def publish(self, endpoint: Endpoint, session: Session) -> None:
        """See `EventStore`. Raises `Fenced` when the session has ended."""
        await self._call("publish", lambda: self.server.publish(endpoint, session.id))

    async def directory(self) -> Sequence[Endpoint]:
        """See `EventStore`."""
        return await self._call("directory", self.server.directory)

    async def close(self) -> None:
        """See `EventStore`. Sessions are no longer kept alive; they expire."""
        self._closed = True
        for session in self._sessions:
            session.abandon()

    # --- the wire

    def _own(self, session: Session) -> KeptSession:
        for kept in self._sessions:
            if kept.id == session.id:
                return kept
        raise session_over(session.id)

    async def _linked(self) -> None:
        while not self._connected:
            await self._link.wait()

    async def _call(self, operation: str, request: Callable[[], T]) -> T:
        """Sends a request and returns its answer, unless the wire's state or fate is against it.

        Raises:
            StoreUnavailable: the request was not sent, or a request that only reads went unanswered.
            OutcomeUnknown: an append was sent and went unanswered.
        """
        if self._closed or not self._connected:
            await self._host.clock.sleep(STORE_CALL_SECONDS)
            raise StoreUnavailable(f"the store in memory cannot be reached for {operation}")
        fate = self.fate(operation)
        await self._host.clock.sleep(self.latency(operation))
        if fate is Fate.REQUEST_LOST or not self._connected:
            raise await self._unanswered(operation)
        answer = request()
        await self._host.clock.sleep(self.latency(operation))
        if fate is Fate.ANSWER_LOST or not self._connected:
            raise await self._unanswered(operation)
        return answer

    async def _unanswered(self, operation: str) -> StoreUnavailable | OutcomeUnknown:
        await self._host.clock.sleep(STORE_CALL_SECONDS)
        if operation == "append":
            return OutcomeUnknown("no answer came to an append", remedy="load the history and look")
        return StoreUnavailable(f"no answer came to {operation}")
