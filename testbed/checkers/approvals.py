"""I19, of approvals: what needs two persons is done once for each time that two have agreed."""

from collections.abc import Iterator

from testbed.checkers.checking import Instant
from testbed.checkers.facts import Fact
from testbed.checkers.facts.approvals import ApprovalAsked, ApprovalDecided, ApprovalUsed, GroupDeleted


class TwoPersons(Instant):
    """I19: each deletion of a group uses an approval of its own, which somebody else than its author gave.

    It knows nothing of policies: a plan with approvals guards deletions from its beginning on.

    Attributes:
        deleted: How many were: none would prove nothing.
    """

    invariant = "I19 approvals"
    heeds = (ApprovalAsked, ApprovalDecided, ApprovalUsed, GroupDeleted)

    def __init__(self) -> None:
        self.deleted = 0
        self._asked_by: dict[str, str] = {}
        self._approved: set[str] = set()
        self._used_by: dict[str, str] = {}  # approval → request id
        self._done: set[str] = set()

    def see(self, fact: Fact) -> Iterator[str]:
        """See `Checker`."""
        match fact:
            case ApprovalAsked(id, asked_by):
                self._asked_by[id] = asked_by
            case ApprovalDecided(id, by, refused):
                (self._approved.discard if refused else self._approved.add)(id)
                if by == self._asked_by.get(id) and not refused:
                    yield f"{by} approved its own request {id}"
            case ApprovalUsed(id, request_id):
                if id not in self._approved:
                    yield f"{request_id} used {id}, which nobody has approved"
                if id in self._used_by:
                    yield f"{request_id} used {id}, which {self._used_by[id]} has used"
                self._used_by[id] = request_id
            case GroupDeleted(group, request_id):
                self.deleted += 1
                if request_id not in self._used_by.values() or request_id in self._done:
                    yield f"{request_id} deleted group {group} without an approval of its own"
                self._done.add(request_id)
            case _:
                pass
