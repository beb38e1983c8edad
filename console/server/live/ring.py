"""The last events of a page, bounded in number and bytes, so that a stream that broke goes on where it was. Pure."""

from collections import deque
from collections.abc import Sequence

from console.server.limits import RING_BYTES_MAX, RING_EVENTS_MAX


class Ring:
    """Events in order, each with a number one above the event before it."""

    def __init__(self, events_max: int = RING_EVENTS_MAX, bytes_max: int = RING_BYTES_MAX) -> None:
        self._events: deque[bytes] = deque()
        self._events_max = events_max
        self._bytes_max = bytes_max
        self._bytes = 0
        self._newest = 0

    @property
    def newest(self) -> int:
        """The number of the newest event; 0 before the first."""
        return self._newest

    def append(self, event: bytes) -> None:
        """Adds the event of the next number. What exceeds the bounds is dropped, the oldest first."""
        self._events.append(event)
        self._bytes += len(event)
        self._newest += 1
        while len(self._events) > self._events_max or self._bytes > self._bytes_max:
            self._bytes -= len(self._events.popleft())

    def after(self, number: int) -> Sequence[bytes] | None:
        """The events after one of a number; None where some of them are not kept, or there never was such a one."""
        wanted = self._newest - number
        if not 0 <= wanted <= len(self._events):
            return None
        return [self._events[place] for place in range(len(self._events) - wanted, len(self._events))]
