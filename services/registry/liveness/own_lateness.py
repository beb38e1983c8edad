"""How late this process is, so that it blames no cluster for it: a clock that stands while the process does. Pure.

Something ticks at a steady interval. A tick that comes later than it should (the event loop was busy, the process was
stopped, the machine asleep) tells of time in which nothing was heard and nobody was asked. That time does not count:
a look may take so much longer, and no evidence grows older meanwhile.
"""

from braid.kernel.limits.health import LATENESS_PULSE_SECONDS, LATENESS_SLACK_SECONDS


class Lateness:
    """A clock without the time its process was late."""

    def __init__(self, now: float) -> None:
        """`now` is on `Clock.elapsed`, as everywhere here."""
        self._due = now + LATENESS_PULSE_SECONDS
        self._total = 0.0

    def tick(self, now: float) -> None:
        """The pulse; the next is due an interval later."""
        self._total = self.seconds(now)
        self._due = now + LATENESS_PULSE_SECONDS

    def seconds(self, now: float) -> float:
        """How late it was in all so far, the present delay included."""
        return self._total + max(0.0, now - self._due - LATENESS_SLACK_SECONDS)

    def attentive(self, now: float) -> float:
        """The time on the clock that stands while the process is late. Never goes back."""
        return now - self.seconds(now)
