"""Tracks which records are really done, by group: the common base of the checkers of commits and drains.

A record is identified by its place in one life of a log. If a log loses its end, other records get the offsets of the
lost ones, and what was done with those says nothing about these.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from testbed.checkers.facts import (
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


@dataclass
class Life:
    """The records of a log's end between two losses: which are done, by group, and which leaders wrote them.

    Attributes:
        first: The lowest offset of this life.
        values: Values by offset.
        done: Done offsets by group.
        rejected: Rejected offsets by group.
        undeliverable: Offsets that nobody can receive.
        epochs: Each leader epoch that wrote, and where it began.
    """

    first: int = 0
    values: dict[int, bytes] = field(default_factory=dict)
    done: dict[str, set[int]] = field(default_factory=dict)
    rejected: dict[str, set[int]] = field(default_factory=dict)
    undeliverable: set[int] = field(default_factory=set)
    epochs: list[tuple[int, int]] = field(default_factory=list)

    def split(self, first: int) -> "Life":
        """Cuts off and returns the end of this life from an offset on, which is lost; the rest stays here."""
        lost = Life(first, _taken(self.values, first))
        lost.done = {group: _cut_off(done, first) for group, done in self.done.items()}
        lost.rejected = {group: _cut_off(rejected, first) for group, rejected in self.rejected.items()}
        lost.undeliverable = _cut_off(self.undeliverable, first)
        lost.epochs = list(self.epochs)
        self.epochs = [each for each in self.epochs if each[1] < first]
        return lost


class DoneOffsets:
    """Records of each log that a group has processed, dead-lettered, indexed or rejected, or that nobody can receive.

    It needs facts of the kinds `HEEDS`.

    Attributes:
        ends: The highest end of each log so far, lost or not.
        tails: The present end of each log.
    """

    def __init__(self) -> None:
        self._lives: dict[LogId, list[Life]] = {}  # the newest last: what lies there now
        self.ends: dict[LogId, int] = {}
        self.tails: dict[LogId, int] = {}

    def see(self, fact: Fact) -> None:
        """Takes the next fact."""
        match fact:
            case Processed(value=value, group=group, place=place) | DeadLettered(value=value, group=group, place=place):
                self._life(place, value).done.setdefault(group, set()).add(place.offset)
            case Indexed(group=group, place=place):
                self._life(place, None).done.setdefault(group, set()).add(place.offset)
            case Rejected(value=value, group=group, place=place):
                self._life(place, value).rejected.setdefault(group, set()).add(place.offset)
            case Appended():
                self._append(fact)
            case Destroyed(log=log, first=first):
                lives = self._of(log)
                lives.insert(len(lives) - 1, lives[-1].split(first))
                self.tails[log] = min(first, self.tails.get(log, 0))
            case _:
                pass

    def _append(self, fact: Appended) -> None:
        place, life = fact.place, self._of(fact.place.log)[-1]
        for known in (self.ends, self.tails):
            known[place.log] = max(known.get(place.log, 0), place.offset + 1)
        life.values[place.offset] = fact.value
        if not fact.deliverable:
            life.undeliverable.add(place.offset)
        if fact.leader_epoch >= 0 and (not life.epochs or life.epochs[-1][0] < fact.leader_epoch):
            life.epochs.append((fact.leader_epoch, place.offset))

    def _of(self, log: LogId) -> list[Life]:
        return self._lives.setdefault(log, [Life()])

    def _life(self, place: Place, value: bytes | None) -> Life:
        """The life of the record with this value; the present one, unless a lost record is meant."""
        lives = self._of(place.log)
        known = (life for life in reversed(lives) if value is not None and life.values.get(place.offset) == value)
        return next(known, lives[-1])

    def later_start(self, log: LogId, epoch: int) -> int | None:
        """Where leaders later than an epoch began to write the present records; None if no later leader did."""
        return next((start for later, start in self._of(log)[-1].epochs if later > epoch), None)

    def done(self, group: str, log: LogId, offset: int) -> bool:
        """Whether a sink or the dlq lane holds the present record, or nobody could receive it."""
        return _is_done(self._of(log)[-1], group, offset)

    def deliverable(self, log: LogId, offset: int) -> bool:
        """Whether an application's record is or was there."""
        return offset < self.ends.get(log, 0) and offset not in self._of(log)[-1].undeliverable

    def rejected(self, group: str, log: LogId, offset: int) -> bool:
        """Whether a handler of the group rejected the present record."""
        return offset in self._of(log)[-1].rejected.get(group, ())

    def was_done(self, group: str, log: LogId, offset: int) -> bool:
        """Whether a lost record at this place was done, or rejected."""
        return self.was_rejected(group, log, offset) or any(
            _is_done(life, group, offset) for life in self._lost(log, offset)
        )

    def was_rejected(self, group: str, log: LogId, offset: int) -> bool:
        """Whether a handler of the group rejected a lost record at this place."""
        return any(offset in life.rejected.get(group, ()) for life in self._lost(log, offset))

    def _lost(self, log: LogId, offset: int) -> Iterator[Life]:
        return (life for life in self._of(log)[:-1] if offset >= life.first)


def _is_done(life: Life, group: str, offset: int) -> bool:
    return offset in life.done.get(group, ()) or offset in life.undeliverable


def _taken(values: dict[int, bytes], first: int) -> dict[int, bytes]:
    return {offset: values.pop(offset) for offset in [each for each in values if each >= first]}


def _cut_off(offsets: set[int], first: int) -> set[int]:
    """Takes away what lies at or above an offset, and returns it."""
    lost = {each for each in offsets if each >= first}
    offsets -= lost
    return lost
