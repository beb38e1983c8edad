"""What is really done, by group and record: the common ground of the checkers of commits and drains.

A record is known by its place in a log's life: where a log loses its end, other records come to lie at the offsets of
the lost ones, and what was done with those says nothing about these.
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
    """The records of a log's end between two losses: which of them are done, by group, and who took them.

    Attributes:
        first: The lowest offset that is this life's.
        values: By offset.
        done: By group.
        rejected: By group.
        undeliverable: What nobody can be given.
        epochs: Each leader epoch that wrote, and where it began.
    """

    first: int = 0
    values: dict[int, bytes] = field(default_factory=dict)
    done: dict[str, set[int]] = field(default_factory=dict)
    rejected: dict[str, set[int]] = field(default_factory=dict)
    undeliverable: set[int] = field(default_factory=set)
    epochs: list[tuple[int, int]] = field(default_factory=list)

    def split(self, first: int) -> "Life":
        """The end of this life from an offset on, which is lost; what lies before it stays here."""
        lost = Life(first, _taken(self.values, first))
        lost.done = {group: _cut_off(done, first) for group, done in self.done.items()}
        lost.rejected = {group: _cut_off(rejected, first) for group, rejected in self.rejected.items()}
        lost.undeliverable = _cut_off(self.undeliverable, first)
        lost.epochs = list(self.epochs)
        self.epochs = [each for each in self.epochs if each[1] < first]
        return lost


class DoneOffsets:
    """Records of each log that are processed, dead-lettered, indexed or rejected by a group, or that nobody can get.

    It wants to see facts of the kinds `HEEDS`.

    Attributes:
        ends: Where each log has ended at most, lost or not.
        tails: Where it ends now.
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
        """That of the record with a value; what lies there now, unless a lost one is meant."""
        lives = self._of(place.log)
        known = (life for life in reversed(lives) if value is not None and life.values.get(place.offset) == value)
        return next(known, lives[-1])

    def later_start(self, log: LogId, epoch: int) -> int | None:
        """Where leaders later than an epoch began to write in what lies there now; None: nobody later did."""
        return next((start for later, start in self._of(log)[-1].epochs if later > epoch), None)

    def done(self, group: str, log: LogId, offset: int) -> bool:
        """Whether the sink or the dlq lane holds the record that lies there now, or nobody could be given it."""
        return _is_done(self._of(log)[-1], group, offset)

    def deliverable(self, log: LogId, offset: int) -> bool:
        """Whether an application's record lies or lay there."""
        return offset < self.ends.get(log, 0) and offset not in self._of(log)[-1].undeliverable

    def rejected(self, group: str, log: LogId, offset: int) -> bool:
        """Whether a handler of the group rejected the record that lies there now."""
        return offset in self._of(log)[-1].rejected.get(group, ())

    def was_done(self, group: str, log: LogId, offset: int) -> bool:
        """Whether a record that lay there and was lost was done, or rejected."""
        return self.was_rejected(group, log, offset) or any(
            _is_done(life, group, offset) for life in self._lost(log, offset)
        )

    def was_rejected(self, group: str, log: LogId, offset: int) -> bool:
        """Whether a handler of the group rejected a record that lay there and was lost."""
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
