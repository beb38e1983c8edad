"""A drained topic is kept for its stream's retention, by the run's clock. For plans that discard nothing."""

from collections.abc import Callable, Iterator
from typing import Final

from testbed.checkers.checking import Instant
from testbed.checkers.facts import DrainRecorded, Fact, Topic, TopicDeleted

RETENTION_SECONDS: Final = 168 * 3_600.0  # of a stream that does not say otherwise


class KeptTopics(Instant):
    """No drained topic is deleted before its retention has passed."""

    invariant = "I11 retention"
    heeds = (DrainRecorded, TopicDeleted)

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._drained: dict[Topic, float] = {}

    def see(self, fact: Fact) -> Iterator[str]:
        """See `Checker`."""
        match fact:
            case DrainRecorded(topic=topic):
                self._drained.setdefault(topic, self._now())
            case TopicDeleted(topic=topic) if topic in self._drained:
                kept = self._now() - self._drained[topic]
                if kept < RETENTION_SECONDS:
                    yield f"{topic} was deleted {kept:.1f} s after it was drained"
            case _:
                pass
