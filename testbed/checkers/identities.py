"""I18, of identities: a caller that says it is another than it can prove is answered by nobody."""

from collections.abc import Iterator

from testbed.checkers.checking import Instant
from testbed.checkers.facts import Fact, FalselyCalled


class ProvedCallers(Instant):
    """I18: no call of a false claim succeeds.

    Attributes:
        refused: How many were refused: none would prove nothing.
    """

    invariant = "I18 identities"
    heeds = (FalselyCalled,)

    def __init__(self) -> None:
        self.refused = 0

    def see(self, fact: Fact) -> Iterator[str]:
        """See `Checker`."""
        if isinstance(fact, FalselyCalled):
            self.refused += not fact.answered
            if fact.answered:
                yield f"{fact.proved or 'nobody'} was answered as {fact.claimed}"
