"""I18, of evidence: what a client reports that it cannot know is refused, and changes nothing."""

from collections import Counter
from collections.abc import Iterator

from testbed.checkers.checking import Instant
from testbed.checkers.facts import Fact, FalselyReported


class RefusedReports(Instant):
    """I18: no false report is heeded.

    Attributes:
        refused: How many of each kind were refused: none would prove nothing.
    """

    invariant = "I18 evidence"
    heeds = (FalselyReported,)

    def __init__(self) -> None:
        self.refused: Counter[str] = Counter()

    def see(self, fact: Fact) -> Iterator[str]:
        """See `Checker`."""
        if isinstance(fact, FalselyReported):
            self.refused[fact.report] += not fact.heeded
            if fact.heeded:
                yield f"it was not refused: {fact.report}"
