"""I19, of tenants: a tenant never has more groups than its quota."""

from collections.abc import Iterator

from testbed.checkers.checking import Instant
from testbed.checkers.facts import Fact
from testbed.checkers.facts.approvals import GroupDeleted
from testbed.checkers.facts.tenants import GroupMade


class WithinQuota(Instant):
    """I19: the groups that a tenant has at once are no more than its quota, however many callers ask at once.

    Attributes:
        made: How many were made: none would prove nothing.
    """

    invariant = "I19 tenants"
    heeds = (GroupMade, GroupDeleted)

    def __init__(self, tenant: str, groups_max: int) -> None:
        self.made = 0
        self._tenant = tenant
        self._groups_max = groups_max
        self._groups: set[str] = set()

    def see(self, fact: Fact) -> Iterator[str]:
        """See `Checker`."""
        if isinstance(fact, GroupDeleted):
            self._groups.discard(fact.group)
        elif isinstance(fact, GroupMade) and fact.tenant == self._tenant:
            self.made += 1
            self._groups.add(fact.group)
            if len(self._groups) > self._groups_max:
                yield f"{self._tenant} has {len(self._groups)} groups: {', '.join(sorted(self._groups))}"
