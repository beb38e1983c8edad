"""The histories of each kind in order of their ids. Pure.

With 45,000 histories, sorting them for each page of a list costs more than the page.
"""

from collections.abc import Iterable, Sequence, Sized
from operator import attrgetter
from typing import Protocol

from braid.kernel.ports import HistoryId


class _Folds(Sized, Iterable[HistoryId], Protocol):
    """Histories that are added, and never taken away."""


class OrderedHistories:
    """Sorts the histories of a kind at the first request, and again after histories were added."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[_Folds, int, Sequence[HistoryId]]] = {}

    def of(self, histories: _Folds, kind: str) -> Sequence[HistoryId]:
        """Returns a kind's histories, sorted by id. `histories` only grow; after a reload they are another object."""
        known = self._found.get(kind)
        if known is None or known[0] is not histories or known[1] != len(histories):
            found = sorted((each for each in histories if each.kind == kind), key=attrgetter("id"))
            known = self._found[kind] = (histories, len(histories), found)
        return known[2]
