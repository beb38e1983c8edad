"""The fate of numbered records, as seen by their sender, their handler, and the logs. Pure.

Nothing here asks Braid: numbers and times are the test's own, the logs are read by a plain Kafka client.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

NAMED_MAX: Final = 8  # of the records that a violation names
SLOWEST_SHOWN: Final = 3
CALM_SECONDS: Final = 0.2  # a record may be on its way for so long when nothing is wrong


class Place(NamedTuple):
    """The place of a record in a log."""

    cluster: str
    topic: str
    partition: int
    offset: int


class Span(NamedTuple):
    """A stretch of time, both ends in seconds of the monotonic clock."""

    begin: float
    end: float


@dataclass
class Entry:
    """One record: when it was sent, acknowledged and handled, in seconds of the monotonic clock."""

    sent: float
    acknowledged: float | None = None
    place: Place | None = None
    handled: list[float] = field(default_factory=list)

    def in_flight(self, span: Span) -> bool:
        """Whether its sender waited for its acknowledgement at any moment of a stretch of time."""
        return self.sent <= span.end and (self.acknowledged is None or self.acknowledged >= span.begin)

    def lies_in(self, topic: str, partition: int, first: int, last: int) -> bool:
        """Whether its receipt names an offset of a range, both ends included."""
        at = self.place
        return at is not None and (at.topic, at.partition) == (topic, partition) and first <= at.offset <= last


class Ledger:
    """Every record of one load, by its number."""

    def __init__(self) -> None:
        self.entries: dict[int, Entry] = {}
        self._strange: list[int] = []

    def note_sent(self, number: int, at: float) -> None:
        """A record is about to be sent."""
        self.entries[number] = Entry(at)

    def note_acknowledged(self, number: int, at: float, place: Place) -> None:
        """Its sender got a receipt."""
        entry = self.entries[number]
        entry.acknowledged, entry.place = at, place

    def note_handled(self, number: int, at: float) -> None:
        """A handler had it."""
        if (entry := self.entries.get(number)) is None:
            self._strange.append(number)
        else:
            entry.handled.append(at)

    @property
    def acknowledged(self) -> int:
        """How many were acknowledged."""
        return sum(entry.acknowledged is not None for entry in self.entries.values())

    @property
    def unhandled(self) -> list[int]:
        """Records that were acknowledged and never handled."""
        return [number for number, each in self.entries.items() if each.acknowledged is not None and not each.handled]

    @property
    def repeated(self) -> list[int]:
        """Records that were handled more than once."""
        return [number for number, entry in self.entries.items() if len(entry.handled) > 1]

    def waiting(self, now: float) -> list[int]:
        """Records that waited for their acknowledgement longer than `CALM_SECONDS`."""
        entries = self.entries.items()
        return [number for number, each in entries if each.acknowledged is None and now - each.sent > CALM_SECONDS]

    def longest_wait(self, span: Span) -> float:
        """Seconds for which one record waited at most, of those in flight in a stretch of time."""
        waits = [(each.acknowledged or span.end) - each.sent for each in self.entries.values() if each.in_flight(span)]
        return max(waits, default=0.0)

    def slowest(self, span: Span) -> str:
        """The records that waited longest: partition, when it was sent after the begin, and its wait, in seconds."""
        found = [each for each in self.entries.values() if each.in_flight(span) and each.acknowledged is not None]
        found.sort(key=lambda each: each.sent - (each.acknowledged or 0.0))
        return "; ".join(
            f"{each.place.partition if each.place else '?'} at {each.sent - span.begin:.2f} for "
            f"{(each.acknowledged or 0.0) - each.sent:.2f}"
            for each in found[:SLOWEST_SHOWN]
        )

    def resumed(self, since: float) -> dict[tuple[str, int], float]:
        """When each partition first acknowledged a record sent after an instant, in seconds after it."""
        first: dict[tuple[str, int], float] = {}
        for each in self.entries.values():
            if each.sent >= since and each.acknowledged is not None and each.place is not None:
                log = (each.place.cluster, each.place.partition)
                first[log] = min(first.get(log, each.acknowledged - since), each.acknowledged - since)
        return first

    def violations(self, faults: Sequence[Span], lost: Iterable[int] = ()) -> list[str]:
        """Violations of "nothing is lost, and at most what was in flight comes again".

        Args:
            faults: When something was broken.
            lost: Numbers that Braid told as lost, which need not be handled.
        """
        repeated = [each for each in self.repeated if not self._excused(each, faults)]
        unacknowledged = [number for number, entry in self.entries.items() if entry.acknowledged is None]
        return [
            *_named("acknowledged and never handled", sorted(set(self.unhandled) - set(lost))),
            *_named("handled again though not in flight during a fault", repeated),
            *_named("never acknowledged", unacknowledged),
            *_named("handled and never sent", self._strange),
        ]

    def log_violations(self, logs: Mapping[Place, int], faults: Sequence[Span], lost: Iterable[int] = ()) -> list[str]:
        """Violations in the logs: each receipt must name its record's place, and only records in flight may be there
        twice.

        Args:
            logs: The number at each place.
            faults: When something was broken.
            lost: Numbers that Braid told as lost, which need not lie anywhere.
        """
        copies = Counter(logs.values())
        absent = [
            number
            for number, entry in self.entries.items()
            if entry.place is not None and logs.get(entry.place) != number
        ]
        again = [number for number, count in copies.items() if count > 1 and not self._excused(number, faults)]
        return [
            *_named("not where its receipt says", sorted(set(absent) - set(lost))),
            *_named("written again though not in flight during a fault", again),
        ]

    def told_lost(self, ranges: Iterable[tuple[str, int, int, int]], before: float) -> set[int]:
        """The numbers whose receipts are older than an instant and lie in ranges: topic, partition, both offsets.

        What was written there after the loss is not excused by it.
        """
        found: set[int] = set()
        for topic, partition, first, last in ranges:
            found.update(
                number
                for number, each in self.entries.items()
                if each.lies_in(topic, partition, first, last) and (each.acknowledged or before) < before
            )
        return found

    def _excused(self, number: int, faults: Sequence[Span]) -> bool:
        return any(self.entries[number].in_flight(span) for span in faults if number in self.entries)


def _named(what: str, numbers: Sequence[int]) -> list[str]:
    more = f" and {len(numbers) - NAMED_MAX} more" if len(numbers) > NAMED_MAX else ""
    return [f"{what}: {', '.join(map(str, numbers[:NAMED_MAX]))}{more}"] if numbers else []
