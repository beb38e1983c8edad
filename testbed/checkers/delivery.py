"""I1, zero loss, and I2, no phantom: acknowledged records against their fate."""

from collections.abc import Iterator, Sequence

from braid.kernel.offset_ranges import OPEN, OffsetRange, OffsetRanges, united
from testbed.checkers.checking import Instant
from testbed.checkers.facts import (
    Acknowledged,
    Appended,
    DeadLettered,
    Destroyed,
    Fact,
    GivenUp,
    LogId,
    LossRecorded,
    Place,
    Processed,
    Rejected,
    Sent,
    StoreBackedUp,
    StoreRestored,
    Topic,
)

NAMED_MAX = 5  # of what is missing


def within(ranges: OffsetRanges, place: Place) -> bool:
    """Whether ranges include a place, under its topic's name."""
    named = [each for each in ranges if each.partition == place.partition and each.first <= place.offset]
    return any(each.last == OPEN or place.offset <= each.last for each in named)


class ZeroLoss:
    """I1: at the end, every group has processed, dead-lettered or rejected every acknowledged record.

    Two kinds of records are excepted: those in ranges that an operator gave up by name (but not records at those
    offsets written after a loss), and those that were lost and reported as lost, if traffic continues. A restore of the
    event store cancels reports and give-ups since its backup.
    """

    invariant = "I1 zero loss"
    heeds = (
        *(Acknowledged, Processed, Rejected, DeadLettered, GivenUp, Destroyed, LossRecorded),
        *(StoreBackedUp, StoreRestored),
    )

    def __init__(self, groups: Sequence[str]) -> None:
        self._acknowledged: dict[bytes, Place] = {}
        self._settled: dict[str, set[bytes]] = {group: set() for group in groups}
        self._unsettled: dict[str, dict[bytes, Place]] = {group: {} for group in groups}
        self._given_up: dict[Topic, OffsetRanges] = {}
        self._destroyed: dict[LogId, OffsetRanges] = {}
        self._newer: set[bytes] = set()
        self._gone: set[bytes] = set()
        self._told: dict[Topic, OffsetRanges] = {}
        self._backup: tuple[dict[Topic, OffsetRanges], dict[Topic, OffsetRanges]] = {}, {}

    def see(self, fact: Fact) -> Iterator[str]:
        """See `Checker`."""
        match fact:
            case Acknowledged(value=value, place=place):
                self._acknowledge(value, place)
                if within(self._destroyed.get(place.log, ()), place):
                    self._newer.add(value)
            case Destroyed(log=log, first=first, stop=stop):
                before = self._destroyed.get(log, ())
                self._destroyed[log] = united((*before, OffsetRange(log.partition, first, stop - 1)))
                places = self._acknowledged.items()
                self._gone |= {each for each, at in places if at.log == log and first <= at.offset < stop}
                self._newer -= self._gone
            case LossRecorded(topic=topic, ranges=ranges):
                self._told[topic] = ranges
            case Processed(value=value, group=group) | Rejected(value=value, group=group):
                self._settle(value, group)
            case DeadLettered(value=value, group=group):
                self._settle(value, group)
            case GivenUp(topic=topic, ranges=ranges):
                self._given_up[topic] = ranges
            case StoreBackedUp():
                self._backup = {**self._told}, {**self._given_up}
            case StoreRestored():
                self._told, self._given_up = {**self._backup[0]}, {**self._backup[1]}
            case _:
                pass
        yield from ()

    def _acknowledge(self, value: bytes, place: Place) -> None:
        if value not in self._acknowledged:
            self._acknowledged[value] = place
            for group, settled in self._settled.items():
                if value not in settled:
                    self._unsettled[group][value] = place

    def _settle(self, value: bytes, group: str) -> None:
        self._settled[group].add(value)
        self._unsettled[group].pop(value, None)

    def lost(self) -> dict[str, list[bytes]]:
        """Acknowledged records that are not settled yet, by group."""
        return {
            group: [value for value, place in unsettled.items() if not self._is_excepted(value, place)]
            for group, unsettled in self._unsettled.items()
        }

    def _is_excepted(self, value: bytes, place: Place) -> bool:
        topic = Topic(*place[:2])
        if value in self._gone and within(self._told.get(topic, ()), place):
            return True
        return value not in self._newer and within(self._given_up.get(topic, ()), place)

    def finish(self) -> Iterator[str]:
        """See `Checker`."""
        for group, lost in self.lost().items():
            if lost:
                named = ", ".join(f"{value!r} at {self._acknowledged[value]}" for value in lost[:NAMED_MAX])
                yield f"{len(lost)} acknowledged records never reached group {group}: {named}"


class HonestReceipts(Instant):
    """I1: an acknowledged record is where its receipt says."""

    invariant = "I1 receipts"
    heeds = (Appended, Acknowledged)

    def __init__(self) -> None:
        self._written: dict[Place, bytes] = {}

    def see(self, fact: Fact) -> Iterator[str]:
        """See `Checker`."""
        match fact:
            case Appended(place=place, value=value):
                self._written[place] = value
            case Acknowledged(value=value, place=place) if self._written.get(place) != value:
                yield f"{value!r} was acknowledged at {place}, where lies {self._written.get(place)!r}"
            case _:
                pass


class NoPhantom(Instant):
    """I2: every processed record was sent."""

    invariant = "I2 no phantom"
    heeds = (Sent, Processed, Acknowledged)

    def __init__(self) -> None:
        self._sent: set[bytes] = set()

    def see(self, fact: Fact) -> Iterator[str]:
        """See `Checker`."""
        match fact:
            case Sent(value=value):
                self._sent.add(value)
            case Processed(value=value, place=place) | Acknowledged(value=value, place=place):
                if value not in self._sent:
                    yield f"{value!r} at {place} was never sent"
            case _:
                pass
