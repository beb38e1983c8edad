"""I7 and I8, the event store: an append is reported as it happened, a watch neither misses nor repeats anything."""

from bisect import bisect_right
from collections.abc import Iterator

from braid.kernel.ports import HistoryId
from testbed.checkers.checking import Instant
from testbed.checkers.facts import AppendAnswered, BatchAppended, BatchWatched, Fact

_ALLOWED = {"appended": (1,), "refused": (0,), "unknown": (0, 1)}


class HonestAppends(Instant):
    """I7, appends: one reported as done happened once, a refused one did not happen, an unknown one at most once."""

    invariant = "I7 appends"
    heeds = (AppendAnswered,)

    def see(self, fact: Fact) -> Iterator[str]:
        """See `Checker`."""
        if isinstance(fact, AppendAnswered) and fact.carried_out not in _ALLOWED[fact.reported]:
            yield f"an append to {fact.history} was done {fact.carried_out} times and reported as {fact.reported}"


class GapFreeWatches(Instant):
    """I8: a watch delivers every batch of its service after its revision, in order, once."""

    invariant = "I8 watches"
    heeds = (BatchAppended, BatchWatched)

    def __init__(self) -> None:
        self._appended: dict[str, list[tuple[int, HistoryId, int]]] = {}
        self._next: dict[int, int] = {}

    def see(self, fact: Fact) -> Iterator[str]:
        """See `Checker`."""
        match fact:
            case BatchAppended(history=history, first=first, revision=revision):
                self._appended.setdefault(history.service, []).append((revision, history, first))
            case BatchWatched():
                yield from self._watched(fact)
            case _:
                pass

    def _watched(self, fact: BatchWatched) -> Iterator[str]:
        log = self._appended.get(fact.service, [])
        begin = bisect_right(log, fact.after_revision, key=lambda each: each[0])
        index = self._next.get(fact.watch, begin)
        got = (fact.revision, fact.history, fact.first)
        if index >= len(log) or log[index] != got:
            due = log[index] if index < len(log) else "nothing"
            yield f"watch {fact.watch} of {fact.service} delivered {got}, due was {due}"
        self._next[fact.watch] = index + 1
