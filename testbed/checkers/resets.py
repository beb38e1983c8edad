"""I11, for progress that was set back: a channel is drained only after the records of a reset were handled again."""

from collections.abc import Callable, Iterator
from typing import Final

from testbed.checkers.checking import Instant
from testbed.checkers.done import HEEDS, DoneOffsets
from testbed.checkers.facts import DrainRecorded, Fact, HandlerStarted, LogId, ResetAsked, Topic

AFTERWARDS_SECONDS: Final = 0.25  # a reset recorded so shortly before the drain's end counts as one after it


class KeptResets(Instant):
    """Every record that a recorded reset makes undone reaches a handler again before its channel is drained."""

    invariant = "I11 resets"
    heeds = (*HEEDS, HandlerStarted, DrainRecorded, ResetAsked)

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._logs = DoneOffsets()
        self._owed: dict[tuple[str, LogId], tuple[float, set[int]]] = {}

    def see(self, fact: Fact) -> Iterator[str]:
        """See `Checker`."""
        self._logs.see(fact)
        match fact:
            case ResetAsked():
                self._asked(fact)
            case HandlerStarted(group=group, log=log, offset=offset):
                if (owed := self._owed.get((group, log))) is not None:
                    owed[1].discard(offset)
            case DrainRecorded(topic=topic):
                yield from self._drained(topic)
            case _:
                pass

    def _asked(self, fact: ResetAsked) -> None:
        for partition, wanted in enumerate(fact.offsets):
            log = LogId(*fact.topic, partition)
            if wanted < 0:
                continue
            back = range(wanted, self._logs.tails.get(log, 0))
            self._owed[fact.group, log] = self._now(), {each for each in back if self._logs.deliverable(log, each)}

    def _drained(self, topic: Topic) -> Iterator[str]:
        for (group, log), (asked_at, owed) in self._owed.items():
            if Topic(log.cluster, log.topic) == topic and owed and self._now() - asked_at > AFTERWARDS_SECONDS:
                lost = f"{sorted(owed)[:5]} of partition {log.partition}"
                yield f"{topic} was drained; a reset of {group} gave {lost} back, which no handler has seen since"
