"""Decides which fetched records of a partition may be out at once, so that records of a key are handled in order. Pure.

A record is handed out once the one before it of the same key is settled, however often that one is retried; records of
other keys do not wait. Between channels (after a move) there is no order to keep.
"""

from collections import deque
from collections.abc import Iterable
from operator import attrgetter
from typing import Generic, Protocol, TypeVar

S = TypeVar("S")


class Keyed(Protocol):
    """The part of a record that an order reads."""

    @property
    def key(self) -> bytes | None: ...

    @property
    def offset(self) -> int: ...


R = TypeVar("R", bound=Keyed)


class KeyOrder(Generic[R, S]):
    """The order of one lease, for records `R` handed out one by one, or for slices `S`; never for both at once.

    Not for both at once.

    Attributes:
        slice_out: So many records of the slice that was admitted are not settled; 0 when there is none.
    """

    def __init__(self, *, by_key: bool) -> None:
        """`by_key`: only records of one key wait for each other; else all records of the partition do."""
        self._by_key = by_key
        self._behind: dict[bytes | None, deque[R] | None] = {}  # behind the record that is out; None: none wait
        self.slice_out = 0  # records of the slice that is out: handed out, or waiting for another attempt
        self._returned: list[R] = []  # records of that slice that may be handed out again
        self._aside: deque[S] = deque()

    def admit(self, raw: R) -> bool:
        """Whether the record may be handed out; if not, it waits here."""
        if self._by_key and raw.key is None:
            return True
        key, behind = raw.key if self._by_key else None, self._behind
        if key not in behind:
            behind[key] = None
            return True
        if (waiting := behind[key]) is None:
            waiting = behind[key] = deque()
        waiting.append(raw)
        return False

    def admit_many(self, raws: Iterable[R]) -> list[R]:
        """Returns those of these records that may be handed out; the others wait here."""
        if not self._by_key:
            return [raw for raw in raws if self.admit(raw)]
        behind, admitted = self._behind, list[R]()
        for raw in raws:  # as `admit`, without a call for each
            key = raw.key
            if key is None:
                admitted.append(raw)
            elif key not in behind:
                behind[key] = None
                admitted.append(raw)
            elif (waiting := behind[key]) is None:
                behind[key] = deque((raw,))
            else:
                waiting.append(raw)
        return admitted

    def settled(self, raw: R) -> R | None:
        """Settles a record that was admitted; returns the next record that may be handed out instead."""
        key = raw.key if self._by_key else None
        behind = self._behind.get(key)
        if behind:
            return behind.popleft()
        self._behind.pop(key, None)
        return None

    def admit_slice(self, count: int) -> bool:
        """Whether so many records of a slice may be handed out together: only if none are out."""
        if self.slice_out:
            return False
        self.slice_out = count
        return True

    def put_aside(self, waiting: S) -> None:
        """Keeps a slice that was not admitted."""
        self._aside.append(waiting)

    def settled_of_slice(self, count: int) -> list[S]:
        """Settles so many records of the slice; returns the slices that may be tried again."""
        self.slice_out -= count
        if self.slice_out > 0:
            return []
        again, self._aside = list(self._aside), deque()
        return again

    def returned(self, raw: R) -> None:
        """Notes that a record of the slice that is out shall be handed out again, together with others like it."""
        self._returned.append(raw)

    def all_returned(self) -> list[R]:
        """Returns the rest of the slice in order, once all of it may be handed out again; it is no longer out."""
        if len(self._returned) < self.slice_out:
            return []
        records, self._returned, self.slice_out = sorted(self._returned, key=attrgetter("offset")), [], 0
        return records

    def clear(self) -> tuple[list[R], list[S]]:
        """Drops and returns everything that waits here."""
        records = [each for behind in self._behind.values() for each in behind or ()]
        slices = list(self._aside)
        records += self._returned
        self._behind.clear()
        self._aside.clear()
        self._returned.clear()
        return records, slices
