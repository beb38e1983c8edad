"""How long a partition keeps its member busy: the time that its handlers run, summed.

Pure; who calls knows the time.
"""


class BusyTime:
    """Sums the time of all running handlers: two handlers that run for one second each are two busy seconds.

    What runs for long counts while it runs, so a handler that takes a minute shows within a heartbeat.
    """

    def __init__(self) -> None:
        """Begins without a running handler."""
        self._running = 0
        self._since = 0.0
        self._seconds = 0.0

    def began(self, now: float) -> None:
        """Notes that a handler starts; `now` is in seconds and never falls."""
        if self._running:
            self._seconds += self._running * (now - self._since)
        self._running += 1
        self._since = now

    def ended(self, now: float) -> None:
        """Notes that a handler has ended, with whatever result."""
        self._seconds += self._running * (now - self._since)
        self._running -= 1
        self._since = now

    def take_micros(self, now: float) -> int:
        """Returns the busy microseconds since the last call."""
        self._seconds += self._running * (now - self._since)
        self._since = now
        micros = int(self._seconds * 1e6)
        self._seconds -= micros / 1e6
        return micros
