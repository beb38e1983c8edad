"""Deadlines on the leader's own clock; the leader's own stalls never count against a member. Pure.

The owner looks at its deadlines at a steady interval. A late look means that the process itself stood still, and moves
every deadline by as much. A deadline is missed only at the second look in a row that finds it passed, so that input
waiting in a queue is read first.
"""

from collections.abc import Collection, Iterator
from typing import Generic, TypeVar

K = TypeVar("K")


class Deadlines(Generic[K]):
    """Deadlines by key, in seconds on `Clock.elapsed`."""

    def __init__(self, beat_seconds: float, now: float) -> None:
        """Starts at `now`; `look` is to be called every `beat_seconds`."""
        self._beat_seconds = beat_seconds
        self._looked_at = now
        self._stalled = 0.0  # seconds by which all deadlines were moved so far
        self._deadlines: dict[K, float] = {}  # deadlines, less what they were moved by since
        self._suspects: dict[K, float] = {}
        self._soonest = float("inf")  # no deadline kept here is before this; looks until then need not look

    def __contains__(self, key: K) -> bool:
        return key in self._deadlines

    def __iter__(self) -> Iterator[K]:
        return iter(tuple(self._deadlines))

    def set(self, key: K, at: float) -> None:
        """Sets or moves a deadline."""
        at -= self._stalled
        self._deadlines[key] = at
        if at < self._soonest:
            self._soonest = at

    def forget(self, key: K) -> None:
        """Drops a deadline, if there is one."""
        self._deadlines.pop(key, None)

    def keep(self, keys: Collection[K]) -> None:
        """Drops all deadlines but these."""
        self._deadlines = {key: at for key, at in self._deadlines.items() if key in keys}

    def look(self, now: float) -> list[K]:
        """Returns the keys whose deadlines are missed, and forgets them."""
        stall = now - self._looked_at - self._beat_seconds
        self._looked_at = now
        if stall > self._beat_seconds:
            self._stalled += stall
            self._suspects = {}  # what came meanwhile may not have been read
        now -= self._stalled
        if now < self._soonest:
            self._suspects = {}
            return []
        passed = {key: at for key, at in self._deadlines.items() if at <= now}
        missed = [key for key, at in passed.items() if self._suspects.get(key) == at]
        self._suspects = passed
        for key in missed:
            del self._deadlines[key]
        self._soonest = min(self._deadlines.values(), default=float("inf"))
        return missed
