"""I6, rising epochs: of leases within a group, and of the leaders that write a service's events."""

from collections.abc import Iterator

from testbed.checkers.checking import Instant
from testbed.checkers.facts import EventDecided, Fact, LeaseGranted


class RisingEpochs(Instant):
    """I6: every grant of a group has an epoch above all earlier ones, across leaders and restarts."""

    invariant = "I6 epochs"
    heeds = (LeaseGranted,)

    def __init__(self) -> None:
        self._highest: dict[str, tuple[int, LeaseGranted]] = {}

    def see(self, fact: Fact) -> Iterator[str]:
        """See `Checker`."""
        if isinstance(fact, LeaseGranted):
            highest = self._highest.get(fact.group)
            if highest is not None and fact.epoch <= highest[0]:
                yield f"{fact} does not rise above {highest[1]}"
            else:
                self._highest[fact.group] = fact.epoch, fact


class OneLeaderAtATime(Instant):
    """I6: only the present leader of a service writes to its histories, and no earlier leader's events follow."""

    invariant = "I6 leader epochs"
    heeds = (EventDecided,)

    def __init__(self) -> None:
        self._highest: dict[str, int] = {}

    def see(self, fact: Fact) -> Iterator[str]:
        """See `Checker`."""
        if isinstance(fact, EventDecided):
            if fact.leader_epoch != fact.leading:
                yield f"leader {fact.leader_epoch} of {fact.service} wrote while {fact.leading} led"
            highest = self._highest.get(fact.service, 0)
            if fact.leader_epoch < highest:
                yield f"leader {fact.leader_epoch} of {fact.service} wrote after leader {highest} did"
            self._highest[fact.service] = max(highest, fact.leader_epoch)
