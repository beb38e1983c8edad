"""The port to the event store: histories, snapshots, sessions, election, directory."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol


class HistoryId(NamedTuple):
    """The name of a history: `registry/stream/logs`."""

    service: str
    kind: str
    id: str

    def __str__(self) -> str:
        return f"{self.service}/{self.kind}/{self.id}"


@dataclass(frozen=True, slots=True)
class Fence:
    """Proof of leadership that is checked inside every append: the leader key was created at this revision."""

    service: str
    revision: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A folded prefix: the state after the event `sequence`, as bytes only its service understands."""

    sequence: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Loaded:
    """A history read at one revision. Sequences count from 1; `events[i]` has sequence `first + i`.

    Attributes:
        snapshot: The newest snapshot, or None.
        first: Sequence of `events[0]`: `snapshot.sequence + 1`, or 1.
        events: The tail after the snapshot, contiguous.
        sequence: Sequence of the last event; 0 when nothing was ever appended.
        revision: The store's revision at which all of this was true.
    """

    snapshot: Snapshot | None
    first: int
    events: Sequence[bytes]
    sequence: int
    revision: int


@dataclass(frozen=True, slots=True)
class Appended:
    """The place of an append: its sequences and revision."""

    sequence: int
    revision: int


@dataclass(frozen=True, slots=True)
class EventBatch:
    """The events of one append, as a watch delivers them: with sequences `first`, `first + 1`, …"""

    history: HistoryId
    first: int
    events: Sequence[bytes]
    revision: int


class Session(Protocol):
    """A kept-alive claim on the store, owned by a process; what depends on it ends with it."""

    @property
    def id(self) -> str:
        """The session's identity in the store."""
        ...

    def deadline(self) -> float:
        """On `Clock.elapsed`: send time of the last acknowledged keep-alive plus the TTL, less 1 % for clock rates."""
        ...

    async def lost(self) -> None:
        """Returns once the session is known to have ended in the store, or its deadline has passed."""
        ...

    async def close(self) -> None:
        """Ends the session now, and with it everything that depends on it."""
        ...


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A service replica in the directory.

    Attributes:
        service: The service's name.
        instance: Its own (`registry-0`).
        address: Where it is reached, `host:port`.
        tls_address: Where it is reached over mutual TLS; empty when it serves none. It tells no replica from another.
    """

    service: str
    instance: str
    address: str
    tls_address: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Leader:
    """The leader of a service: its replica, and the fence that its appends carry."""

    endpoint: Endpoint
    fence: Fence


class EventStore(Protocol):
    """Histories, snapshots, sessions, election and directory. Every method may raise `StoreUnavailable`."""

    async def incarnation(self) -> int:
        """The store's incarnation, 1 at creation, one higher after each restore from a backup."""
        ...

    async def mesh(self) -> str:
        """The id of the mesh whose store this is.

        It is made when first asked for and never changes, also not in backups.
        """
        ...

    async def load(self, history: HistoryId) -> Loaded:
        """Reads newest snapshot and tail at one revision (linearizable).

        Raises:
            CorruptHistory: the tail has a hole that a second read shows too.
        """
        ...

    async def load_many(self, histories: Sequence[HistoryId]) -> Sequence[Loaded]:
        """Reads several histories as `load` does, each at a revision of its own, with few questions to the store.

        The caller bounds their number: all that is read is in memory at once. Raises as `load` does.
        """
        ...

    async def heads(self, histories: Sequence[HistoryId]) -> Sequence[int]:
        """Reads the last sequence of each history (linearizable); 0 where nothing was ever appended."""
        ...

    async def histories(self, service: str) -> tuple[Sequence[HistoryId], int]:
        """Lists all histories of a service, sorted, and the revision at which the list was complete."""
        ...

    async def append(self, history: HistoryId, events: Sequence[bytes], expected: int, fence: Fence) -> Appended:
        """Appends events after sequence `expected` in one transaction. Never retried inside.

        Raises:
            Conflict: the last sequence is not `expected`.
            Fenced: the fence's leadership is over.
            OutcomeUnknown: no answer came, and reading back could not settle it.
            Exhausted: the batch exceeds the store's request limit (nothing was written).
        """
        ...

    def watch(self, service: str, after_revision: int) -> AsyncIterator[EventBatch]:
        """Yields every batch of the service appended after a revision, in order, once each, without gaps, forever.

        Interrupted connections are resumed inside. Raises (while iterating):
            Compacted: some of what was asked for is gone, or the store's incarnation changed: load again.
        """
        ...

    async def save_snapshot(self, history: HistoryId, snapshot: Snapshot, fence: Fence) -> None:
        """Keeps a snapshot, then forgets the batches and snapshots before it. Raises `Fenced`."""
        ...

    async def open_session(self, ttl_seconds: float) -> Session:
        """Opens a session and keeps it alive until closed or lost."""
        ...

    async def campaign(self, endpoint: Endpoint, session: Session) -> Leader:
        """Waits until this replica leads; leadership ends with the session. Raises when the session ends first."""
        ...

    async def resign(self, leader: Leader) -> None:
        """Gives up leadership if this replica still has it."""
        ...

    async def leader(self, service: str) -> Leader | None:
        """Returns the present leader, or None."""
        ...

    async def publish(self, endpoint: Endpoint, session: Session) -> None:
        """Puts a replica's address in the directory for as long as the session lives."""
        ...

    async def directory(self) -> Sequence[Endpoint]:
        """Returns all live replicas of all services, sorted."""
        ...

    async def close(self) -> None:
        """Frees the store's connections."""
        ...
