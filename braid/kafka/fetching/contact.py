"""Since when a fetcher has owed its caller an answer, and when it got the newest. No I/O, no clock.

Instants are seconds on the event loop's clock.
"""

from collections.abc import Iterable
from math import inf

from braid.kernel.ports import Contact


class Owing:
    """What became of one fetcher's requests."""

    def __init__(self) -> None:
        self._answered_at = -inf
        self._vain_since = inf  # the first request without an answer since then
        self._wanted_since = inf
        self._denied = ""

    def wants(self, now: float, *, anything: bool) -> None:
        """Whether the caller wants anything at all, from now on."""
        self._wanted_since = min(self._wanted_since, now) if anything else inf

    def answered(self, now: float) -> None:
        """A fetch was answered, by whichever broker."""
        self._answered_at = now
        self._vain_since = inf
        self._denied = ""

    def excused(self) -> None:
        """The cluster answers, and has no leader for what is wanted: it owes nothing."""
        self._vain_since = inf

    def in_vain(self, since: float) -> None:
        """A request failed whose answer was due then."""
        self._vain_since = min(self._vain_since, since)
        self._denied = ""

    def refused(self, why: str) -> None:
        """The cluster answered that this client may not ask: it owes nothing."""
        self._vain_since = inf
        self._denied = why

    def contact(self, due: Iterable[float], now: float) -> Contact:
        """How things stand, where requests under way have answers due at these instants, some of them not yet."""
        if self._denied:
            return Contact(0.0, now - self._answered_at, self._denied)
        since = max(self._wanted_since, min((self._vain_since, *due)))
        return Contact(max(0.0, now - since), now - self._answered_at)
