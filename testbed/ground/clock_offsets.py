"""Wall clocks that a run sets off, and what the machine's clock was when one of them dated an event. Pure.

Which leader decided an event, and how far its clock was off just then, is not in the event. But it was written between
two readings of its history, a minute apart at most; offsets are an hour or more, so only one of them fits.
"""

import time
from typing import Final

DOUBT_MS: Final = 2_000  # between a date and its reading, clocks of one machine aside


class ClockOffsets:
    """Offsets that any clock had in this run; none of them is forgotten."""

    def __init__(self) -> None:
        self._known_ms = [0]

    def note(self, offset_ms: int) -> None:
        """A clock is going to be set off by so much."""
        if offset_ms not in self._known_ms:
            self._known_ms.append(offset_ms)

    def true_ms(self, time_ms: int, since_ms: int, until_ms: int) -> int:
        """What the machine's clock was when a clock that may be off showed `time_ms`.

        Args:
            time_ms: What it showed.
            since_ms: It was not earlier, by the machine's clock.
            until_ms: It was not later.
        """
        first_ms, last_ms = since_ms - DOUBT_MS, until_ms + DOUBT_MS
        fits = [time_ms - each for each in self._known_ms if first_ms <= time_ms - each <= last_ms]
        return fits[0] if fits else min(max(time_ms, since_ms), until_ms)


def now_ms() -> int:
    """The wall clock all processes of a run share."""
    return int(time.time() * 1000)
