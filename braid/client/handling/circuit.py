"""When a lane fails as a whole: nearly every record, for a while, by errors that are not its records' fault. Pure."""

from braid.client.consumer_settings import Circuit


class LaneCircuit:
    """What was handled of one lane lately, at one consumer.

    A look begins with a failure. Once it has lasted long enough it says so, or ends: then the next failure begins
    another.
    """

    def __init__(self, settings: Circuit) -> None:
        self._settings = settings
        self._since: float | None = None
        self._done = 0  # in all, when the look began
        self._failures = 0  # not the records' fault
        self._others = 0

    def failed(self, now: float, done: int, *, retryable: bool) -> str:
        """A handler raised; returns why the lane is to stop, empty while it is not.

        Args:
            now: Seconds, never falling.
            done: How many of the lane's records are done in all.
            retryable: Whether by an error that is not the record's fault.
        """
        if self._since is None:
            if not retryable:
                return ""
            self._since, self._done, self._failures, self._others = now, done, 0, 0
        self._failures += retryable
        self._others += not retryable
        settings, handled = self._settings, self._failures + self._others + done - self._done
        lasted = now - self._since
        if self._failures < settings.failures or lasted < settings.seconds:
            return ""
        if self._failures >= settings.ratio * handled:
            return f"{self._failures} of the last {handled} handled failed in {lasted:.0f} s"
        self._since = None
        return ""

    def reset(self) -> None:
        """Looks anew."""
        self._since = None
