"""The state of an event store in memory, as a server has it: synchronous, shared by the clients of `memory`.

Every method is one atomic request. Faults between a client and this server belong to the client.
"""

import copy
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from braid.kernel.errors import Compacted, Conflict, CorruptHistory, Fenced, Invalid
from braid.kernel.limits.registry.resources import RESTORE_REVISION_GAP
from braid.kernel.limits.store import WATCH_KEEP_REVISIONS, WATCH_PAGE_BATCHES
from braid.kernel.ports import Appended, Clock, Endpoint, EventBatch, Fence, HistoryId, Leader, Loaded, Snapshot
from braid.stores.batches import check_append, whole_tail
from braid.stores.session import session_over
from braid.stores.signal import Signal

MEMORY_MESH: Final = "00000000000000000000MEMORY"


@dataclass
class _History:
    sequence: int = 0
    snapshot: Snapshot | None = None
    batches: list[EventBatch] = field(default_factory=list)


@dataclass
class _Session:
    ttl_seconds: float
    expires: float


@dataclass
class _State:
    """The durable state, which a backup copies. `compacted`: watches from before this revision cannot be served."""

    mesh: str
    incarnation: int = 1
    revision: int = 0
    compacted: int = 0
    histories: dict[HistoryId, _History] = field(default_factory=dict)
    logs: dict[str, list[EventBatch]] = field(default_factory=dict)


@dataclass(frozen=True)
class MemoryBackup:
    """A copy of the store, to restore from."""

    state: _State


class MemoryStoreServer:
    """State shared by all clients of one store.

    Args:
        clock: Judges when sessions expire; the server's own, so that a killed process does not stop it.
        mesh: The id of the mesh. One for all by default: tests that share a Kafka cluster are one mesh after the other.
    """

    def __init__(self, clock: Clock, mesh: str = MEMORY_MESH) -> None:
        self.changed = Signal()
        self._clock = clock
        self._state = _State(mesh)
        self._sessions: dict[str, _Session] = {}
        self._leaders: dict[str, tuple[Leader, str]] = {}
        self._endpoints: dict[tuple[str, str], tuple[Endpoint, str]] = {}
        self._session_count = 0

    # --- histories

    def incarnation(self) -> int:
        """The store's incarnation."""
        return self._state.incarnation

    def mesh(self) -> str:
        """The id of the mesh whose store this is."""
        return self._state.mesh

    def load(self, history: HistoryId) -> Loaded:
        """Newest snapshot and tail. Raises `CorruptHistory`."""
        kept = self._state.histories.get(history, _History())
        batches = [(batch.first, batch.events) for batch in kept.batches]
        events = whole_tail(history, kept.snapshot, batches, kept.sequence)
        first = kept.snapshot.sequence + 1 if kept.snapshot else 1
        return Loaded(kept.snapshot, first, events, kept.sequence, self._state.revision)

    def histories(self, service: str) -> tuple[Sequence[HistoryId], int]:
        """All histories of a service, and the revision."""
        return sorted(h for h in self._state.histories if h.service == service), self._state.revision

    def append(self, history: HistoryId, events: Sequence[bytes], expected: int, fence: Fence) -> Appended:
        """Appends one batch. Raises `Exhausted`, `Fenced`, `Conflict`."""
        check_append(history, events)
        self._check_fence(fence)
        kept = self._state.histories.get(history, _History())
        if kept.sequence != expected:
            raise Conflict(f"history {history} ends at {kept.sequence}, not at {expected}", remedy="load it again")
        self._state.histories[history] = kept
        batch = EventBatch(history, expected + 1, tuple(events), self._bump())
        kept.batches.append(batch)
        kept.sequence += len(events)
        self._state.logs.setdefault(history.service, []).append(batch)
        return Appended(kept.sequence, batch.revision)

    def save_snapshot(self, history: HistoryId, snapshot: Snapshot, fence: Fence) -> None:
        """Keeps a snapshot; an older one than is kept changes nothing. Raises `Fenced`, `Invalid`."""
        self._check_fence(fence)
        kept = self._state.histories.get(history, _History())
        if not 0 < snapshot.sequence <= kept.sequence:
            raise Invalid(f"history {history} has no event {snapshot.sequence}", field="snapshot.sequence")
        if kept.snapshot and kept.snapshot.sequence >= snapshot.sequence:
            return
        kept.snapshot = snapshot
        kept.batches = [batch for batch in kept.batches if not self._replaced(batch)]
        self._bump()
        self._forget(history.service, self._state.revision - WATCH_KEEP_REVISIONS)

    def _replaced(self, batch: EventBatch) -> bool:
        snapshot = self._state.histories[batch.history].snapshot
        return snapshot is not None and batch.first + len(batch.events) - 1 <= snapshot.sequence

    def _forget(self, service: str, until: int) -> None:
        """Drops batches up to a revision that a snapshot replaced."""
        log = self._state.logs.get(service, [])
        gone = [batch.revision for batch in log if batch.revision <= until and self._replaced(batch)]
        if gone:
            self._state.logs[service] = [batch for batch in log if batch.revision > until or not self._replaced(batch)]
            self._state.compacted = max(self._state.compacted, gone[-1])

    def batches_after(self, service: str, revision: int) -> tuple[Sequence[EventBatch], int]:
        """Returns the next batches of a service after a revision, and the revision up to which they are complete.

        Raises:
            Compacted: some of them are gone.
        """
        state = self._state
        if revision < state.compacted:
            raise Compacted(f"revision {revision + 1} of the store is gone", remedy="load the histories again")
        log = state.logs.get(service, [])
        start = bisect_right(log, revision, key=lambda batch: batch.revision)
        page = log[start : start + WATCH_PAGE_BATCHES]
        return page, page[-1].revision if len(page) == WATCH_PAGE_BATCHES else state.revision

    def _check_fence(self, fence: Fence) -> None:
        leader = self.leader(fence.service)
        if leader is None or leader.fence != fence:
            raise Fenced(f"leadership {fence.revision} of {fence.service} is over", remedy="campaign again")

    def _bump(self) -> int:
        self._state.revision += 1
        self.changed.notify()
        return self._state.revision

    # --- sessions, election, directory

    def open_session(self, ttl_seconds: float) -> str:
        """Grants a session."""
        self._session_count += 1
        session = f"memory-{self._session_count}"
        self._sessions[session] = _Session(ttl_seconds, self._clock.elapsed() + ttl_seconds)
        return session

    def renew(self, session: str) -> bool:
        """Extends a session; False when it has ended."""
        self._expire()
        kept = self._sessions.get(session)
        if kept is not None:
            kept.expires = self._clock.elapsed() + kept.ttl_seconds
        return kept is not None

    def end_session(self, session: str) -> None:
        """Ends a session and everything that depends on it."""
        self._sessions.pop(session, None)
        self._leaders = {name: held for name, held in self._leaders.items() if held[1] != session}
        self._endpoints = {name: held for name, held in self._endpoints.items() if held[1] != session}
        self._bump()

    def _expire(self) -> None:
        now = self._clock.elapsed()
        for session in [name for name, kept in self._sessions.items() if kept.expires <= now]:
            self.end_session(session)

    def _check_session(self, session: str) -> None:
        self._expire()
        if session not in self._sessions:
            raise session_over(session)

    def try_lead(self, endpoint: Endpoint, session: str) -> Leader | float:
        """Returns this session's leadership, won now or held already; else the seconds until the holder may lose it.

        Raises:
            Fenced: the session has ended.
        """
        self._check_session(session)
        held = self._leaders.get(endpoint.service)
        if held is None:
            held = Leader(endpoint, Fence(endpoint.service, self._bump())), session
            self._leaders[endpoint.service] = held
        leader, owner = held
        return leader if owner == session else self._sessions[owner].expires - self._clock.elapsed()

    def resign(self, leader: Leader) -> None:
        """Ends a leadership if it is held still."""
        if self.leader(leader.fence.service) == leader:
            del self._leaders[leader.fence.service]
            self._bump()

    def leader(self, service: str) -> Leader | None:
        """The present leader of a service."""
        self._expire()
        held = self._leaders.get(service)
        return held[0] if held else None

    def publish(self, endpoint: Endpoint, session: str) -> None:
        """Puts an address in the directory. Raises `Fenced` when the session has ended."""
        self._check_session(session)
        self._endpoints[endpoint.service, endpoint.instance] = endpoint, session
        self._bump()

    def directory(self) -> Sequence[Endpoint]:
        """All live replicas."""
        self._expire()
        return [self._endpoints[name][0] for name in sorted(self._endpoints)]

    # --- what operators and faults do

    def compact(self) -> None:
        """Forgets everything that watches from before now would need; histories stay whole."""
        self._state.compacted = self._state.revision
        self._state.logs.clear()
        self.changed.notify()

    def backup(self) -> MemoryBackup:
        """A copy of everything durable."""
        return MemoryBackup(copy.deepcopy(self._state))

    def restore(self, backup: MemoryBackup) -> None:
        """Goes back to a backup under a new incarnation; sessions and what hangs on them are gone."""
        state = copy.deepcopy(backup.state)
        state.incarnation += 1
        state.revision += RESTORE_REVISION_GAP
        state.compacted = state.revision
        state.logs.clear()
        self._state = state
        for session in list(self._sessions):
            self.end_session(session)
        self.changed.notify()

    def lose_batch(self, history: HistoryId, sequence: int) -> None:
        """Damages a history: the batch that holds an event vanishes. Raises `CorruptHistory` when there is none."""
        kept = self._state.histories.get(history, _History())
        found = [b for b in kept.batches if b.first <= sequence < b.first + len(b.events)]
        if not found:
            raise CorruptHistory(f"history {history} has no batch with event {sequence}")
        kept.batches.remove(found[0])
