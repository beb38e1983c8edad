"""Retention by time of a cluster in memory: when a broker's cleaner runs, and what it deletes.

The cleaner looks a while after the broker has started, then at intervals; one that was due while the broker was stopped
by a signal looks as soon as it goes on. No timer runs: what it would have deleted by now is deleted before anybody sees
the logs. A batch counts as a segment, so nothing outlives its retention by more than an interval.
"""

from collections.abc import Callable, Mapping
from typing import Final

from braid.kafka.memory.log import Log

FIRST_LOOK_MS: Final = 30_000  # log.initial.task.delay.ms
LOOK_INTERVAL_MS: Final = 300_000  # log.retention.check.interval.ms


class Cleaner:
    """The schedule of a broker's cleaner. Milliseconds on the clock of the records' times."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._next_ms = 0
        self.begin()

    def begin(self) -> None:
        """Notes that the broker has started."""
        self._next_ms = self._now_ms() + FIRST_LOOK_MS

    def go_on(self) -> None:
        """Runs an overdue look now, because the broker resumed after a signal had stopped it."""
        self._next_ms = max(self._next_ms, self._now_ms())

    def looked_ms(self) -> int | None:
        """Returns when the cleaner ran last; None if it has not since this was asked."""
        now = self._now_ms()
        if now < self._next_ms:
            return None
        looked = now - (now - self._next_ms) % LOOK_INTERVAL_MS
        self._next_ms = looked + LOOK_INTERVAL_MS
        return looked


def kept_from(log: Log, config: Mapping[str, str], looked_ms: int) -> int:
    """Returns the first offset of a log that a cleaner kept when it ran."""
    retention_ms = int(config["retention.ms"])
    if retention_ms < 0 or "delete" not in config["cleanup.policy"]:
        return log.start
    return log.first_since(looked_ms - retention_ms)
