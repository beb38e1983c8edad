"""Joins under way in one term, and new members, which are placed together. Pure."""

from collections import Counter

from braid.kernel.limits.assigner.leases import JOINS_GATHER_SECONDS
from services.assigner.liveness.member_streams import MemberKey


class Newcomers:
    """Joining members, and groups with new members, which are placed once all have joined or after a moment."""

    def __init__(self) -> None:
        self._joining: Counter[MemberKey] = Counter()
        self._groups: Counter[str] = Counter()  # joins under way of each member
        self._waiting: dict[str, tuple[float, str]] = {}  # since when the group waits, and the first reason

    def begin(self, key: MemberKey) -> None:
        """Notes that a member said hello; it may do so on several streams at once."""
        self._joining[key] += 1
        self._groups[key.group] += 1

    def end(self, key: MemberKey) -> bool:
        """Ends one of the member's joins. Returns whether it was the last one of its group."""
        self._joining[key] -= 1
        self._groups[key.group] -= 1
        if not self._joining[key]:
            del self._joining[key]
        if self._groups[key.group]:
            return False
        del self._groups[key.group]
        return True

    def joining(self, key: MemberKey) -> bool:
        """Whether a join of the member is under way."""
        return key in self._joining

    def any(self, group: str) -> bool:
        """Whether a join to the group is under way, or its newcomers wait to be placed."""
        return group in self._groups or group in self._waiting

    def wait(self, group: str, now: float, cause: str) -> None:
        """Starts a group's wait, because one of its members is to be placed soon."""
        self._waiting.setdefault(group, (now, cause))

    def overdue(self, now: float) -> list[str]:
        """Returns groups that have waited long enough."""
        return [group for group, (since, _) in self._waiting.items() if now - since >= JOINS_GATHER_SECONDS]

    def take(self, group: str) -> str | None:
        """Ends a group's wait; returns its reason, if the group waited."""
        waited = self._waiting.pop(group, None)
        return None if waited is None else waited[1]
