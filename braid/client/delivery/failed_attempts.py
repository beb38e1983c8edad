"""Failures of handlers over records of a lease that one member has seen, whatever their cause. Pure.

They end with the lease: a commit says how many attempts failed, not when. So `braid-dl-first-failure` in a dead letter
is the first failure seen by the member that gave the record up.
"""

from collections.abc import Iterable

from braid.client.records.delivery import Failed


class FailedAttempts:
    """Failures by offset, of records that are not done; `bool` says whether there are any."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        """Begins without failures."""
        self._known: dict[int, Failed] = {}

    def __len__(self) -> int:
        return len(self._known)

    def note(self, offset: int, now_ms: int) -> Failed:
        """Adds a failure; returns all that is known of the record's failures."""
        known = self._known.get(offset)
        self._known[offset] = found = Failed(now_ms, 1) if known is None else Failed(known.first_ms, known.times + 1)
        return found

    def forget(self, offsets: Iterable[int]) -> None:
        """Forgets records that are done."""
        if self._known:
            for offset in self._known.keys() & offsets:
                del self._known[offset]
