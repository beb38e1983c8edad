"""The dead-letter limit: stops a lane before a bad deploy empties the stream into its dlq lane. Pure."""

from collections import deque
from collections.abc import Callable
from functools import partial

from braid.client.consumer_settings import DeadLetterLimits


class LaneBrake:
    """Judges the dead letters of one lane at one consumer by the records settled lately.

    Attributes:
        done: Records that were done or rejected; whoever settles them counts them here.
        reason: Why no more may be dead-lettered; empty while they may.
    """

    __slots__ = ("_done_before", "_letters", "_limits", "_number", "_row", "_tell", "done", "reason")

    def __init__(self, limits: DeadLetterLimits | None = None, tell: Callable[[str], None] | None = None) -> None:
        """Without limits it never stops the lane. `tell` is called once with the reason when it does."""
        self.done = 0
        self.reason = ""
        self._limits = limits
        self._tell = tell
        self._row = 0
        self._number = 0  # dead letters in all
        self._done_before = 0
        self._letters: deque[int] = deque()  # records settled before each dead letter of the window

    def allows(self) -> bool:
        """Whether one more record of the lane may be dead-lettered; counts it when it may."""
        if self.reason or self._limits is None:
            return not self.reason
        limits = self._limits
        row = self._row + 1 if self.done == self._done_before else 1
        settled = self.done + self._number
        while self._letters and self._letters[0] < settled + 1 - limits.window:
            self._letters.popleft()
        if row > limits.in_a_row:
            return self._trip(f"{limits.in_a_row} records in a row would be dead-lettered")
        if len(self._letters) + 1 > limits.ratio * limits.window:
            return self._trip(f"{len(self._letters)} of the last {limits.window} records were dead-lettered")
        self._row, self._done_before = row, self.done
        self._number += 1
        self._letters.append(settled)
        return True

    def release(self) -> None:
        """Forgets everything counted and lets records be dead-lettered again."""
        self.reason = ""
        self._row = 0
        self._letters.clear()

    def _trip(self, reason: str) -> bool:
        self.reason = reason
        if self._tell is not None:
            self._tell(reason)
        return False


class Brakes:
    """The dead-letter limits of all lanes of a consumer."""

    def __init__(self, limits: DeadLetterLimits | None, tell: Callable[[str, str], None]) -> None:
        """`tell` is called with a lane that is stopped, and the reason."""
        self._limits = limits
        self._tell = tell
        self._lanes: dict[str, LaneBrake] = {}

    def lane(self, name: str) -> LaneBrake:
        """Returns the limit of one lane."""
        if name not in self._lanes:
            self._lanes[name] = LaneBrake(self._limits, partial(self._tell, name))
        return self._lanes[name]

    def release(self, name: str) -> None:
        """Lets a lane continue, and counts it anew."""
        self.lane(name).release()
