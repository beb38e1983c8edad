"""What one member knows of handlers that failed over records of a lease, whosever fault it was. Pure.

It ends with the lease: a commit says how many attempts failed, not when. So a dead letter's `braid-dl-first-failure` is
the first failure that the member saw which gave the record up.
"""

from collections.abc import Iterable

from braid.client.records.delivery import Failed


class FailedAttempts:
    """By offset, of records that are not done; `bool` says whether there are any."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        """None."""
        self._known: dict[int, Failed] = {}

    def __len__(self) -> int:
        return len(self._known)

    def note(self, offset: int, now_ms: int) -> Failed:
        """One more; returns what is known with it."""
        known = self._known.get(offset)
        self._known[offset] = found = Failed(now_ms, 1) if known is None else Failed(known.first_ms, known.times + 1)
        return found

    def forget(self, offsets: Iterable[int]) -> None:
        """These records are done."""
        if self._known:
            for offset in self._known.keys() & offsets:
                del self._known[offset]
