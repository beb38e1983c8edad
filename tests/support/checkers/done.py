"""What is really done, by group and log: the common ground of the checkers of commits and drains."""

from typing import Final

from tests.support.checkers.facts import (
    Appended,
    DeadLettered,
    Destroyed,
    Fact,
    Indexed,
    LogId,
    Place,
    Processed,
    Rejected,
)

HEEDS: Final = (Processed, DeadLettered, Indexed, Rejected, Appended, Destroyed)


class DoneOffsets:
    """Offsets of each group and log that are processed, dead-lettered, indexed or rejected, and those nobody can be
    given.

    It wants to see facts of the kinds `HEEDS`.

    Attributes:
        ends: Where each log has ended at most, lost or not.
        tails: Where it ends now.
    """

    def __init__(self) -> None:
        self._done: dict[tuple[str, LogId], set[int]] = {}
        self._rejected: dict[tuple[str, LogId], set[int]] = {}
        self._undeliverable: dict[LogId, set[int]] = {}
        self.ends: dict[LogId, int] = {}
        self.tails: dict[LogId, int] = {}

    def see(self, fact: Fact) -> None:
        """Takes the next fact."""
        match fact:
            case (
                Processed(group=group, place=place)
                | DeadLettered(group=group, place=place)
                | Indexed(group=group, place=place)
            ):
                self._done.setdefault((group, place.log), set()).add(place.offset)
            case Rejected(group=group, place=place):
                self._rejected.setdefault((group, place.log), set()).add(place.offset)
            case Appended(place=place, deliverable=deliverable):
                self._append(place, deliverable)
            case Destroyed(log=log, first=first):
                self.tails[log] = min(first, self.tails.get(log, 0))
            case _:
                pass

    def _append(self, place: Place, deliverable: bool) -> None:
        for known in (self.ends, self.tails):
            known[place.log] = max(known.get(place.log, 0), place.offset + 1)
        if not deliverable:
            self._undeliverable.setdefault(place.log, set()).add(place.offset)

    def done(self, group: str, log: LogId, offset: int) -> bool:
        """Whether the sink or the dlq lane holds the record, or nobody could be given it."""
        return offset in self._done.get((group, log), ()) or offset in self._undeliverable.get(log, ())

    def deliverable(self, log: LogId, offset: int) -> bool:
        """Whether an application's record lies or lay there."""
        return offset < self.ends.get(log, 0) and offset not in self._undeliverable.get(log, ())

    def rejected(self, group: str, log: LogId, offset: int) -> bool:
        """Whether a handler of the group rejected the record."""
        return offset in self._rejected.get((group, log), ())
