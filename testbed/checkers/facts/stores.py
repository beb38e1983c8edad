"""Facts about the event store: what it wrote, delivered and answered, and the state of replicas."""

from dataclasses import dataclass

from braid.kernel.ports import HistoryId


@dataclass(frozen=True, slots=True)
class BatchAppended:
    """The event store wrote events."""

    history: HistoryId
    first: int
    events: tuple[bytes, ...]
    revision: int


@dataclass(frozen=True, slots=True)
class Folded:
    """A replica's live state of a history after an event, as its codec writes it."""

    instance: str
    history: HistoryId
    sequence: int
    state: bytes


@dataclass(frozen=True, slots=True)
class BatchWatched:
    """A watch delivered a batch."""

    watch: int
    service: str
    after_revision: int
    revision: int
    history: HistoryId
    first: int


@dataclass(frozen=True, slots=True)
class AppendAnswered:
    """A client's append ended: its reported result (`appended`, `refused`, `unknown`), and how often it was carried
    out."""

    history: HistoryId
    reported: str
    carried_out: int


@dataclass(frozen=True, slots=True)
class StoreBackedUp:
    """A backup of the event store was taken."""


@dataclass(frozen=True, slots=True)
class StoreRestored:
    """The event store was restored from its newest backup: later writes are forgotten, which no cluster knows."""
