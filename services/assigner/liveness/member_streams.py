"""The open streams of members in one term, by group. Pure."""

from bisect import bisect_left, insort
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple, Protocol

from braid.kernel.errors import BraidError
from services.assigner.model.events import LeaseGrant
from services.assigner.model.group import Split
from services.assigner.model.lag.responses import MemberHandlers, WorkDivision


class MemberKey(NamedTuple):
    """A member of a group."""

    group: str
    member: str


class MemberStream(Protocol):
    """A member's open stream, as the term drives it. Nothing here waits."""

    @property
    def key(self) -> MemberKey:
        """The member of this stream."""
        ...

    @property
    def lease_seconds(self) -> float:
        """The lease time this stream was welcomed with."""
        ...

    def granted(self, grants: Sequence[LeaseGrant]) -> None:
        """Queues a grant of leases to the member."""
        ...

    def revoked(self, leases: Sequence[LeaseGrant], deadline_seconds: float, reason: str) -> None:
        """Queues a revoke with its deadline; 0 when the leases are lost already."""
        ...

    def lent(self, cluster: str) -> None:
        """Queues the group's newer generation on a cluster."""
        ...

    def traced(self, traceparent: str) -> None:
        """Notes the trace that what is queued now belongs to."""
        ...

    def resume(self, lane: str) -> None:
        """Asks the member to resume a stopped lane; pushed at once."""
        ...

    def split(self, split: Split) -> None:
        """Asks the member to split a lease, so that its head is worked on too; pushed at once."""
        ...

    @property
    def handlers(self) -> MemberHandlers | None:
        """The handlers that it divides as it is told; None where it does not."""
        ...

    def divide(self, work: WorkDivision) -> None:
        """Tells the member how to divide its work from now on, if it does as it is told; pushed at once."""
        ...

    def reaches(self, cluster: str) -> bool:
        """Whether the member holds leases on the cluster and does not report it as unreachable."""
        ...

    def flush(self) -> None:
        """Pushes everything that was queued."""
        ...

    def end(self, error: BraidError) -> None:
        """Ends the stream with an error."""
        ...


class MemberStreams:
    """The newest stream of each member."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[str, MemberStream]] = {}
        self._ids: dict[str, list[str]] = {}  # sorted, of each group's streams
        self._leaving: dict[str, set[str]] = {}

    def __contains__(self, key: MemberKey) -> bool:
        return self.get(key) is not None

    def __iter__(self) -> Iterator[MemberStream]:
        return iter([stream for group in self._groups.values() for stream in group.values()])

    def get(self, key: MemberKey) -> MemberStream | None:
        """Returns a member's stream, if it has one."""
        group = self._groups.get(key.group)
        return None if group is None else group.get(key.member)

    def set(self, key: MemberKey, stream: MemberStream) -> None:
        """Makes this the member's stream."""
        group = self._groups.setdefault(key.group, {})
        if key.member not in group:
            insort(self._ids.setdefault(key.group, []), key.member)
        group[key.member] = stream
        self._leaving.get(key.group, set()).discard(key.member)

    def pop(self, key: MemberKey) -> MemberStream | None:
        """Removes a member's stream, and returns it."""
        group = self._groups.get(key.group)
        stream = None if group is None else group.pop(key.member, None)
        if group is None or stream is None:
            return None
        ids = self._ids[key.group]
        del ids[bisect_left(ids, key.member)]
        self._leaving.get(key.group, set()).discard(key.member)
        if not group:
            del self._groups[key.group], self._ids[key.group]
            self._leaving.pop(key.group, None)
        return stream

    @property
    def groups(self) -> Collection[str]:
        """The groups with streams."""
        return self._groups.keys()

    def of(self, group: str) -> Sequence[MemberStream]:
        """Returns the streams of a group."""
        return list(self._groups.get(group, {}).values())

    def leave(self, key: MemberKey) -> None:
        """Notes that the member asked for no more grants on its stream: it drains, then leaves."""
        if key in self:
            self._leaving.setdefault(key.group, set()).add(key.member)

    def staying(self, group: str) -> tuple[str, ...]:
        """The members of a group that have streams and do not leave, sorted."""
        leaving = self._leaving.get(group)
        ids = self._ids.get(group, ())
        return tuple(ids) if not leaving else tuple(id for id in ids if id not in leaving)

    def clear(self) -> None:
        """Forgets all streams."""
        self._groups.clear()
        self._ids.clear()
        self._leaving.clear()
