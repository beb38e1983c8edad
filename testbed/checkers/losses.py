"""I11, for clusters that return without records: losses are reported exactly, and nothing else is given up."""

from collections.abc import Iterator

from braid.kernel.offset_ranges import OPEN, OffsetRange, OffsetRanges, ranges_text, united
from testbed.checkers.delivery import NAMED_MAX, within
from testbed.checkers.facts import (
    Acknowledged,
    Destroyed,
    DrainRecorded,
    EventDecided,
    Fact,
    GivenUp,
    LogId,
    LossRecorded,
    Place,
    StoreBackedUp,
    StoreRestored,
    Topic,
)


class ExactLosses:
    """I11: ranges reported as lost hold all destroyed acknowledged records and nothing intact; only they are given up.

    - A channel that was drained or given up before its cluster lost it reports nothing: everything in it was done.
    - A restore of the event store cancels reports since its backup: the same ranges must be reported again. If it
      cancels a drain, everything was done; a later loss of that log may be reported, or not.
    - After a change of the leading registry, nobody may know which producers died before: a loss without an end is then
      correct.
    """

    invariant = "I11 losses"
    heeds = (Acknowledged, Destroyed, DrainRecorded, EventDecided, GivenUp, LossRecorded, StoreBackedUp, StoreRestored)

    def __init__(self, *, producers_die: bool = False) -> None:
        """Starts a run. With `producers_die`, receipts may die with them: then a loss without a known end is
        correct."""
        self._producers_die = producers_die
        self._acknowledged: dict[LogId, set[int]] = {}
        self._gone: dict[LogId, set[int]] = {}
        self._destroyed: dict[LogId, OffsetRanges] = {}
        self._after_drain: dict[LogId, OffsetRanges] = {}  # what was destroyed while nothing was left to do there
        self._drained: set[Topic] = set()
        self._told: dict[Topic, OffsetRanges] = {}
        self._leaders: set[int] = set()
        self._backup: tuple[set[Topic], dict[Topic, OffsetRanges]] = set(), {}

    def see(self, fact: Fact) -> Iterator[str]:
        """See `Checker`."""
        match fact:
            case Acknowledged(place=place):
                self._acknowledged.setdefault(place.log, set()).add(place.offset)
            case Destroyed(log=log, first=first, stop=stop):
                self._lose(log, first, stop)
            case EventDecided(service="registry", leader_epoch=epoch):
                self._leaders.add(epoch)
            case DrainRecorded(topic=topic):
                self._drained.add(topic)
            case LossRecorded(topic=topic, ranges=ranges):
                self._told[topic] = ranges
            case GivenUp(topic=topic, ranges=ranges):
                if ranges != self._told.get(topic, ()):
                    yield f"{topic} was given up by {ranges}, its loss is told as {self._told.get(topic)}"
                self._drained.add(topic)
            case StoreBackedUp():
                self._backup = {*self._drained}, {**self._told}
            case StoreRestored():
                self._drained, self._told = {*self._backup[0]}, {**self._backup[1]}
                self._reopen()
            case _:
                pass

    def _lose(self, log: LogId, first: int, stop: int) -> None:
        acknowledged, drained = self._acknowledged.setdefault(log, set()), Topic(*log[:2]) in self._drained
        destroyed = self._after_drain if drained else self._destroyed
        destroyed[log] = united((*destroyed.get(log, ()), OffsetRange(log.partition, first, stop - 1)))
        gone = {each for each in acknowledged if first <= each < stop}
        acknowledged -= gone  # others may come to lie there
        if not drained:
            self._gone.setdefault(log, set()).update(gone)

    def _reopen(self) -> None:
        """Lets channels that are no longer drained report what they lost since they were."""
        for log in [each for each in self._after_drain if Topic(*each[:2]) not in self._drained]:
            self._destroyed[log] = united((*self._destroyed.get(log, ()), *self._after_drain.pop(log)))

    def finish(self) -> Iterator[str]:
        """See `Checker`."""
        if wrong := list(self._wrong()):
            yield "; ".join(wrong)

    def _wrong(self) -> Iterator[str]:
        for topic, ranges in self._told.items():
            for each in ranges:
                yield from self._invented(topic, each)
        yield from self.untold()

    def untold(self) -> Iterator[str]:
        """Losses not reported yet; a registry that has just begun to lead, or judges a cluster, needs time."""
        for log, gone in self._gone.items():
            ranges = self._told.get(Topic(log.cluster, log.topic), ())
            silent = sorted(offset for offset in gone if not within(ranges, Place(*log, offset)))
            if silent:
                yield f"{len(silent)} acknowledged records of {log} are gone without a word: {silent[:NAMED_MAX]}"

    def _invented(self, topic: Topic, told: OffsetRange) -> Iterator[str]:
        log = LogId(*topic, told.partition)
        destroyed = self._destroyed.get(log, ())
        unsure = bool(destroyed) and (self._producers_die or len(self._leaders) > 1)
        unknown = unsure or not (self._gone.get(log) or self._acknowledged.get(log))
        if told.last == OPEN and unknown and all(told.first >= each.first for each in destroyed[:1]):
            return  # nobody has a receipt: nobody knows its end
        if told.last == OPEN or not any(each.first <= told.first and told.last <= each.last for each in destroyed):
            yield f"{topic} is told to have lost {told}; what it lost is {ranges_text(destroyed) or 'nothing'}"
