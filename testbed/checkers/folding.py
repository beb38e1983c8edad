"""I9: folding all events, folding the tail onto a snapshot, and every replica's live state give the same result."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from braid.kernel.ports import HistoryId
from braid.runtime.histories.kinds import AnyKind, Kind
from testbed.checkers.facts import BatchAppended, Fact, Folded, StoreBackedUp, StoreRestored


@dataclass
class _Fold:
    kind: Kind[object, object, object]
    whole: object
    tail: object
    sequence: int
    states: list[bytes]


class OneFold:
    """I9, at every prefix that ends with a batch; at the end, byte for byte.

    `kinds` are the services' kinds, by (service, name of the kind).
    """

    invariant = "I9 folds"
    heeds = (BatchAppended, Folded, StoreBackedUp, StoreRestored)

    def __init__(self, kinds: Mapping[tuple[str, str], AnyKind]) -> None:
        self._kinds = kinds
        self._folds: dict[HistoryId, _Fold] = {}
        self._backup: dict[HistoryId, _Fold] = {}

    def see(self, fact: Fact) -> Iterator[str]:
        """See `Checker`."""
        match fact:
            case BatchAppended():
                yield from self._appended(fact)
            case Folded():
                yield from self._folded(fact)
            case StoreBackedUp():
                self._backup = _copied(self._folds)
            case StoreRestored():
                self._folds = _copied(self._backup)
            case _:
                pass

    def _appended(self, fact: BatchAppended) -> Iterator[str]:
        fold = self._folds.get(fact.history) or self._new(fact.history)
        if fact.first != fold.sequence + 1:
            yield f"{fact.history} has no event {fold.sequence + 1}: {fact.first} follows"
        for data in fact.events:
            event, context = fold.kind.codec.decode(data)
            fold.whole = fold.kind.decider.evolve(fold.whole, event, context)
            fold.tail = fold.kind.decider.evolve(fold.tail, event, context)
            fold.sequence += 1
            fold.states.append(b"")
        if fold.whole != fold.tail:
            yield f"{fact.history}@{fold.sequence}: the fold of all differs from the fold after a snapshot"
        fold.states[-1] = whole = fold.kind.codec.encode_state(fold.whole)
        fold.tail = fold.kind.codec.decode_state(whole)  # a snapshot is taken here, and used from here on
        if fold.tail != fold.whole:
            yield f"{fact.history}@{fold.sequence}: the state does not survive its snapshot"

    def _folded(self, fact: Folded) -> Iterator[str]:
        fold = self._folds.get(fact.history)
        if fold is None or not 0 < fact.sequence <= fold.sequence:
            yield f"{fact.instance} folded {fact.history}@{fact.sequence}, which was never appended"
        elif fold.states[fact.sequence - 1] not in (b"", fact.state):
            yield f"{fact.instance} has another state of {fact.history}@{fact.sequence} than its events say"

    def finish(self) -> Iterator[str]:
        """See `Checker`."""
        for history, fold in self._folds.items():
            if fold.kind.codec.encode_state(fold.tail) != fold.states[-1]:
                yield f"{history}@{fold.sequence}: a state after snapshots has other bytes than the fold of all"

    def _new(self, history: HistoryId) -> _Fold:
        kind = self._kinds[history.service, history.kind].erased()
        made = _Fold(kind, kind.decider.initial(history.id), kind.decider.initial(history.id), 0, [])
        self._folds[history] = made
        return made


def _copied(folds: Mapping[HistoryId, _Fold]) -> dict[HistoryId, _Fold]:
    return {history: replace(fold, states=list(fold.states)) for history, fold in folds.items()}
