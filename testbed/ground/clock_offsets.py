"""Wall clocks that a run sets wrong, and the machine's true time when one of them dated an event. Pure.

An event does not record which leader decided it, and how far its clock was off. But it was written between two readings
of its history, at most a minute apart. Offsets are an hour or more, so only one of them fits.
"""

import time
from typing import Final

DOUBT_MS: Final = 2_000  # between a date and its reading, clocks of one machine aside


class ClockOffsets:
    """Offsets that any clock had in this run; none is forgotten."""

    def __init__(self) -> None:
        self._known_ms = [0]

    def note(self, offset_ms: int) -> None:
        """Notes that a clock is about to be set off by this much."""
        if offset_ms not in self._known_ms:
            self._known_ms.append(offset_ms)

    def true_ms(self, time_ms: int, since_ms: int, until_ms: int) -> int:
        """The machine's time when a clock that may be off showed `time_ms`.

        Args:
            time_ms: The time that the clock showed.
            since_ms: The earliest possible time, by the machine's clock.
            until_ms: The latest possible time.
        """
        first_ms, last_ms = since_ms - DOUBT_MS, until_ms + DOUBT_MS
        fits = [time_ms - each for each in self._known_ms if first_ms <= time_ms - each <= last_ms]
        return fits[0] if fits else min(max(time_ms, since_ms), until_ms)


def now_ms() -> int:
    """The wall clock all processes of a run share."""
    return int(time.time() * 1000)
