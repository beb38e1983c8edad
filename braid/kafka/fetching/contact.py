"""Tracks since when a fetcher has owed its caller an answer, and when it got the newest one. No I/O, no clock.

Instants are seconds on the event loop's clock.
"""

from collections.abc import Iterable
from math import inf

from braid.kernel.ports import Contact


class Owing:
    """The contact of one fetcher with its cluster, from the fate of its requests."""

    def __init__(self) -> None:
        self._answered_at = -inf
        self._vain_since = inf  # the first request without an answer since the newest answer
        self._wanted_since = inf
        self._denied = ""

    def wants(self, now: float, *, anything: bool) -> None:
        """Sets whether the caller wants any data, from now on."""
        self._wanted_since = min(self._wanted_since, now) if anything else inf

    def answered(self, now: float) -> None:
        """Notes that a broker answered a fetch."""
        self._answered_at = now
        self._vain_since = inf
        self._denied = ""

    def excused(self) -> None:
        """Notes that the cluster answers but has no leader for the wanted partitions: it owes nothing."""
        self._vain_since = inf

    def in_vain(self, since: float) -> None:
        """Notes that a request failed whose answer was due then."""
        self._vain_since = min(self._vain_since, since)
        self._denied = ""

    def refused(self, why: str) -> None:
        """Notes that the cluster refuses this client: it owes nothing."""
        self._vain_since = inf
        self._denied = why

    def contact(self, due: Iterable[float], now: float) -> Contact:
        """Returns the contact, given when the answers of requests under way are due."""
        if self._denied:
            return Contact(0.0, now - self._answered_at, self._denied)
        since = max(self._wanted_since, min((self._vain_since, *due)))
        return Contact(max(0.0, now - since), now - self._answered_at)
