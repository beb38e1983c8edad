"""Measures how late this process is, so that no cluster is blamed for it: a clock that stands while the process does.
Pure.

A tick comes at a steady interval. A tick that comes late (the event loop was busy, the process was stopped, the machine
asleep) shows time in which nothing was received and nobody was asked. That time does not count: a probe may take that
much longer, and no evidence ages meanwhile.
"""

from braid.kernel.limits.registry.health import LATENESS_PULSE_SECONDS, LATENESS_SLACK_SECONDS


class Lateness:
    """A clock that excludes the time its process was late."""

    def __init__(self, now: float) -> None:
        """Starts the clock; `now` is `Clock.elapsed`, as everywhere here."""
        self._due = now + LATENESS_PULSE_SECONDS
        self._total = 0.0

    def tick(self, now: float) -> None:
        """Takes a tick; the next is due one interval later."""
        self._total = self.seconds(now)
        self._due = now + LATENESS_PULSE_SECONDS

    def seconds(self, now: float) -> float:
        """Total lateness so far in seconds, the present delay included."""
        return self._total + max(0.0, now - self._due - LATENESS_SLACK_SECONDS)

    def attentive(self, now: float) -> float:
        """The time on the clock that stands while the process is late. Never goes back."""
        return now - self.seconds(now)
