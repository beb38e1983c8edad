"""How long a partition keeps its member busy: handlers at work, summed over time. Pure; who calls knows the time."""


class BusyTime:
    """The area under the number of handlers that run: two handlers for one second each are two busy seconds.

    What runs for long counts while it runs, so a handler that takes a minute shows within a heartbeat.
    """

    def __init__(self) -> None:
        """Nothing runs."""
        self._running = 0
        self._since = 0.0
        self._seconds = 0.0

    def began(self, now: float) -> None:
        """A handler starts; `now` in seconds, never falling."""
        if self._running:
            self._seconds += self._running * (now - self._since)
        self._running += 1
        self._since = now

    def ended(self, now: float) -> None:
        """A handler is over, however."""
        self._seconds += self._running * (now - self._since)
        self._running -= 1
        self._since = now

    def take_micros(self, now: float) -> int:
        """Busy microseconds since the last call."""
        self._seconds += self._running * (now - self._since)
        self._since = now
        micros = int(self._seconds * 1e6)
        self._seconds -= micros / 1e6
        return micros
