"""The partitions that each member holds, beside a column of holders, which alone is the truth. Pure."""

from typing import Final

import numpy as np

from services.assigner.policy.arrays import Indices

_LATER_MIN: Final = 1_024  # hand-overs there is room for, however few partitions there are


class Holdings:
    """Partitions sorted by holder, as they were once, and every hand-over since, in order.

    Whoever changes the column of holders says what was given to whom by `add`; what was taken needs no word. A member's
    partitions are looked for among those it had and those it was given: a look at as many hand-overs as there were.

    Attributes:
        outgrown: There were as many hand-overs as there are partitions: time to begin anew.
    """

    def __init__(self, holders: Indices, members: int) -> None:
        """Begins with the present holders; -1 means none."""
        order = np.argsort(holders, kind="stable")
        self._sorted = order[np.searchsorted(holders[order], 0) :]
        self._ends = np.cumsum(np.bincount(holders[self._sorted], minlength=members)).tolist()
        self._later = 0
        self._room = max(len(holders), _LATER_MIN)
        self._partitions, self._takers = np.empty(0, np.int64), np.empty(0, np.int64)

    @property
    def outgrown(self) -> bool:
        return self._later > self._room

    def add(self, partitions: Indices, takers: Indices) -> None:
        """Adds partitions that were given to members."""
        start, self._later = self._later, self._later + len(partitions)
        if self._later > len(self._takers):
            size = max(2 * self._later, _LATER_MIN)
            self._partitions, self._takers = (np.resize(each, size) for each in (self._partitions, self._takers))
        self._partitions[start : self._later] = partitions
        self._takers[start : self._later] = takers

    def of(self, member: int, holders: Indices) -> Indices:
        """Returns what a member holds now, in order of partitions."""
        had = self._sorted[self._ends[member - 1] if member else 0 : self._ends[member]]
        given = self._partitions[: self._later][self._takers[: self._later] == member]
        if len(given):
            had = np.unique(np.concatenate([had, given]))
        result: Indices = had[holders[had] == member]
        return result
