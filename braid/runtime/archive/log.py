"""A service's notes about its archive: the history `archive/<service>/log` in the event store, written by its leader.

It has a service name of its own, so that replicas of releases without an archive never load it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from google.protobuf.message import DecodeError

from braid.api.mesh.v1.archive_pb2 import ArchiveEvent, ArchivingFailed, ArchivingResumed, EventsNotArchived
from braid.kernel.decider import Context
from braid.kernel.errors import Conflict, CorruptHistory
from braid.kernel.limits.archive import ARCHIVE_LOG_EVENTS_MAX
from braid.kernel.ports import Clock, EventStore, HistoryId
from braid.runtime.archive.line import Gap, Hole
from braid.runtime.histories.event_metadata import metadata_message
from braid.runtime.histories.kinds import Leadership

SERVICE: Final = "archive"
_Fact = ArchivingFailed | ArchivingResumed | EventsNotArchived


@dataclass(frozen=True, slots=True)
class ArchiveState:
    """The state folded from the notes.

    Attributes:
        failing_reason: Why the leader's archive accepts nothing; empty if it does.
        failing_since_ms: When that began.
        holes: Events that were compacted without a copy, oldest note first.
        sequence: Sequence of the last note.
    """

    failing_reason: str = ""
    failing_since_ms: int = 0
    holes: tuple[Hole, ...] = ()
    sequence: int = 0


class ArchiveLog:
    """Reads the notes of one service, and adds to them while its replica leads."""

    def __init__(self, store: EventStore, service: str, clock: Clock) -> None:
        self.history = HistoryId(SERVICE, service, "log")
        self._store = store
        self._clock = clock

    async def read(self) -> ArchiveState:
        """Folds the notes. Raises `CorruptHistory`, `StoreUnavailable`."""
        state = ArchiveState()
        for data in (await self._store.load(self.history)).events:
            state = _evolve(state, parse(data))
        return state

    async def events(self) -> Sequence[tuple[ArchiveEvent, bytes]]:
        """All notes, with their bytes at rest. Raises `CorruptHistory`."""
        return [(parse(data), data) for data in (await self._store.load(self.history)).events]

    async def failed(self, history: HistoryId, reason: str, leadership: Leadership) -> None:
        """Notes that the archive rejects events, unless that is noted already."""
        await self._note(
            leadership,
            lambda state: None if state.failing_reason else ArchivingFailed(history=str(history), reason=reason),
        )

    async def resumed(self, leadership: Leadership) -> None:
        """Notes that the archive accepts events again, if a failure was noted."""
        await self._note(leadership, lambda state: ArchivingResumed() if state.failing_reason else None)

    async def not_archived(self, hole: Hole, leadership: Leadership) -> None:
        """Notes a hole, unless it is noted already."""
        gap = hole.gap
        fact = EventsNotArchived(
            history=str(gap.history),
            first=gap.first,
            last=gap.last,
            reason=gap.reason,
            link_before=hole.before,
            link_after=hole.after,
        )
        await self._note(leadership, lambda state: None if hole in state.holes else fact)

    async def _note(self, leadership: Leadership, decide: Callable[[ArchiveState], _Fact | None]) -> None:
        """Appends the note that the newest state calls for; of two leaders, the fenced one notes nothing.

        Raises:
            Fenced: the leadership is over.
            Unavailable: the store does not answer.
        """
        for _ in range(3):
            state = await self.read()
            fact = decide(state)
            if fact is None or (state.sequence >= ARCHIVE_LOG_EVENTS_MAX and not isinstance(fact, EventsNotArchived)):
                return
            actor = leadership.leader.endpoint.instance
            context = Context(self._clock.now_ms(), actor, leader_epoch=leadership.epoch)
            event = ArchiveEvent(metadata=metadata_message(context))
            match fact:
                case ArchivingFailed():
                    event.archiving_failed.CopyFrom(fact)
                case ArchivingResumed():
                    event.archiving_resumed.CopyFrom(fact)
                case EventsNotArchived():
                    event.events_not_archived.CopyFrom(fact)
            try:
                await self._store.append(
                    self.history, [event.SerializeToString()], state.sequence, leadership.leader.fence
                )
            except Conflict:
                continue
            return
        raise Conflict("notes about the archive changed under every attempt", remedy="try again")


def parse(data: bytes) -> ArchiveEvent:
    """Reads a note. Raises `CorruptHistory`."""
    try:
        return ArchiveEvent.FromString(data)
    except DecodeError as error:
        raise CorruptHistory("not a note about the archive") from error


def type_name(event: ArchiveEvent) -> str:
    """The name of a note's message; empty for a note of a later release."""
    name = event.WhichOneof("event")
    return type(getattr(event, name)).__name__ if name else ""


def _evolve(state: ArchiveState, event: ArchiveEvent) -> ArchiveState:
    """The state after a note; a note of a later release changes nothing."""
    holes, reason, since = state.holes, state.failing_reason, state.failing_since_ms
    match event.WhichOneof("event"):
        case "archiving_failed":
            reason, since = event.archiving_failed.reason, event.metadata.time_ms
        case "archiving_resumed":
            reason, since = "", 0
        case "events_not_archived":
            holes = (*holes, _hole(event.events_not_archived))
    return ArchiveState(reason, since, holes, state.sequence + 1)


def _hole(told: EventsNotArchived) -> Hole:
    history = HistoryId(*told.history.split("/", 2))
    return Hole(Gap(history, told.first, told.last, told.reason), told.link_before, told.link_after)
