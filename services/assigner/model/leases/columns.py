"""The leases of a group in columns, for decisions about all of them: NumPy, one row for each partition. Pure.

The columns are derived from `Leases` and hold no other state. They follow from one version of a group to the next, or
back, by comparing pages that the versions do not share. So a step costs only what differs. Made anew from any version
they are the same (a property test checks this). What is returned is a copy, or must be read before the next version is
asked for.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from services.assigner.model.leases.lease import Lease, LeaseState

T = TypeVar("T", bound=np.generic)

PAGE: Final = 128  # leases that are copied together when one of them changes

Page = tuple[Lease | None, ...]
Pages = Mapping[str, tuple[Page, ...]]
Blocks = Sequence[tuple[str, int]]  # channels, and how many of their partitions
Indices = NDArray[np.int64]

EMPTY: Final[Page] = (None,) * PAGE
Codes = NDArray[np.int8]
Numbers = NDArray[np.int32]

NEVER: Final = 0  # granted; other codes are those of `LeaseState`
FREE: Final = LeaseState.FREE.value
HELD: Final = LeaseState.HELD.value


class Interned:
    """Numbers for names, from 0 in the order they were first seen."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._numbers: dict[str, int] = {}

    def number(self, name: str) -> int:
        """Returns a name's number, a new one if necessary; -1 for the empty name."""
        if not name:
            return -1
        known = self._numbers.get(name)
        if known is None:
            known = self._numbers[name] = len(self.names)
            self.names.append(name)
        return known

    def known(self, names: Iterable[str]) -> Iterator[int]:
        """Returns the numbers of names; -1 for a name that was never seen."""
        return map(self._numbers.get, names, repeat(-1))


class LeaseColumns:
    """The columns of one version of `Leases` after another.

    Attributes:
        members: Whoever held a lease since these columns were begun.
        clients: Client ids of former holders.
    """

    def __init__(self) -> None:
        self.members = Interned()
        self.clients = Interned()
        self._pages: Pages = {}
        self._starts: dict[str, int] = {}
        self._states: Codes = np.zeros(0, np.int8)
        self._holders: Numbers = np.zeros(0, np.int32)
        self._homes: Numbers = np.zeros(0, np.int32)
        self._homes_since_ms: Indices = np.zeros(0, np.int64)
        self._asked: tuple[object, int, Indices] = (None, 0, np.zeros(0, np.int64))

    def follow(self, pages: Pages) -> "LeaseColumns":
        """Moves to the version with these pages; costs what differs, and a look at each page."""
        if self._pages is pages:
            return self
        if {name: len(each) for name, each in pages.items()} != {n: len(each) for n, each in self._pages.items()}:
            self._lay_out(pages)
        for name, each in pages.items():
            before = self._pages[name]
            if before is not each:
                for number, (old, new) in enumerate(zip(before, each, strict=True)):
                    if old is not new:
                        self._write(self._starts[name] + number * PAGE, old, new)
        self._pages = pages
        return self

    @property
    def crowded(self) -> bool:
        """Whether most names belong to members that are long gone, so that the columns should be made anew."""
        rows = len(self._states)
        return len(self.members.names) > 2 * rows + PAGE or len(self.clients.names) > 2 * rows + PAGE

    # --- what they tell

    def states(self, blocks: Blocks) -> Codes:
        """`LeaseState`'s numbers, or `NEVER`, of the first so many partitions of channels, one after the other."""
        return self._gathered(self._states, blocks, NEVER)

    def holders(self, blocks: Blocks) -> Numbers:
        """Returns the holders in the same order: numbers of `members`, or -1."""
        return self._gathered(self._holders, blocks, -1)

    def homes(self, blocks: Blocks, since_ms: int) -> tuple[Indices, Numbers]:
        """Returns which partitions remember a former holder later than a time, and whom: numbers of `clients`."""
        homes = self._gathered(self._homes, blocks, -1)
        found = np.flatnonzero(homes >= 0)
        if len(found):
            found = found[self._gathered(self._homes_since_ms, blocks, 0)[found] > since_ms]
        return found, homes[found]

    def _gathered(self, column: NDArray[T], blocks: Blocks, nothing: int) -> NDArray[T]:
        parts = [column[:0]]
        for name, size in blocks:
            start, known = self._starts.get(name, 0), min(size, self.extent(name))
            parts.append(column[start : start + known])
            if known < size:
                parts.append(np.full(size - known, nothing, column.dtype))
        return np.concatenate(parts)

    def extent(self, channel: str) -> int:
        """Returns the rows of a channel: a whole number of pages."""
        return len(self._pages.get(channel, ())) * PAGE

    @property
    def held_in_all(self) -> int:
        """Counts leases that are held and not asked back."""
        return int(np.count_nonzero(self._states == HELD))

    def held(self, channel: str, from_partition: int) -> Sequence[int]:
        """Returns partitions of a channel, from one on, that are held and not asked back."""
        start = self._starts.get(channel, 0)
        end = start + self.extent(channel)
        found = np.flatnonzero(self._states[min(start + from_partition, end) : end] == HELD)
        partitions: list[int] = (found + from_partition).tolist()
        return partitions

    def of(self, member: str) -> Sequence[tuple[str, Lease]]:
        """Returns the leases of a member, sorted by name."""
        (number,) = self.members.known([member])
        rows = np.flatnonzero(self._holders == number) if number >= 0 else np.zeros(0, np.int64)
        return sorted(self._leases(rows), key=lambda pair: pair[0])

    def orphans(self, members: Sequence[str]) -> Sequence[tuple[str, Lease]]:
        """Returns the leases held by anybody but these members, sorted by name."""
        strange = np.ones(len(self.members.names) + 1, np.bool_)
        strange[self.numbers(members)] = False
        strange[-1] = False  # nobody
        return sorted(self._leases(np.flatnonzero(strange[self._holders])), key=lambda pair: pair[0])

    def counts(self, numbers: Indices) -> Indices:
        """Counts the leases of members with these numbers; 0 for -1."""
        held = self._holders[self._holders >= 0]
        counts = np.append(np.bincount(held, minlength=len(self.members.names)), 0)
        result: Indices = counts[numbers]
        return result

    def numbers(self, members: Sequence[str]) -> Indices:
        """Returns members' numbers; -1 for a member that never held a lease.

        Asked for the same sequence again it costs nothing.
        """
        asked, met, known = self._asked
        if asked is not members or met != len(self.members.names):
            met = len(self.members.names)
            known = np.fromiter(self.members.known(members), np.int64, len(members))
            self._asked = (members, met, known)
        return known

    def _leases(self, rows: Indices) -> Iterable[tuple[str, Lease]]:
        names, starts = list(self._starts), np.array(list(self._starts.values()), np.int64)
        channels = (np.searchsorted(starts, rows, "right") - 1).tolist()
        for row, at in zip(rows.tolist(), channels, strict=True):
            partition = row - self._starts[names[at]]
            lease = self._pages[names[at]][partition // PAGE][partition % PAGE]
            if lease is not None:
                yield f"{names[at]}/{partition}", lease

    # --- how they follow

    def _lay_out(self, pages: Pages) -> None:
        """Lays out other channels, or longer ones, and moves what was known to its new rows."""
        sizes = {name: len(each) * PAGE for name, each in pages.items()}
        total = sum(sizes.values())
        states, since = np.full(total, NEVER, np.int8), np.zeros(total, np.int64)
        holders, homes = np.full(total, -1, np.int32), np.full(total, -1, np.int32)
        starts: dict[str, int] = {}
        known: dict[str, tuple[Page, ...]] = {}
        at = 0
        for name, size in sizes.items():
            kept = min(size, self.extent(name))
            if kept:
                old = self._starts[name]
                states[at : at + kept] = self._states[old : old + kept]
                holders[at : at + kept] = self._holders[old : old + kept]
                homes[at : at + kept] = self._homes[old : old + kept]
                since[at : at + kept] = self._homes_since_ms[old : old + kept]
            starts[name] = at
            known[name] = self._pages.get(name, ())[: kept // PAGE] + (EMPTY,) * ((size - kept) // PAGE)
            at += size
        self._states, self._holders, self._homes, self._homes_since_ms = states, holders, homes, since
        self._starts, self._pages = starts, known

    def _write(self, at: int, old: Page, new: Page) -> None:
        changed = [number for number, lease in enumerate(new) if lease is not old[number]]
        some = [new[number] for number in changed]
        rows = np.array(changed, np.int64) + at
        self._states[rows] = [NEVER if lease is None else lease.state.value for lease in some]
        self._holders[rows] = [-1 if lease is None else self.members.number(lease.holder) for lease in some]
        self._homes[rows] = [-1 if lease is None else self.clients.number(lease.home) for lease in some]
        self._homes_since_ms[rows] = [0 if lease is None else lease.home_since_ms for lease in some]
