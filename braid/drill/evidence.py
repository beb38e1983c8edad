"""Evaluates the files of a drill: the producer's ledger against the members' sinks. Pure: no I/O, no clock.

Neither file passes through Braid. A line of the ledger is a record that a broker acknowledged. A line of a sink is a
record that a member handled, synced to disk before the record counts as done. Instants are monotonic nanoseconds of one
machine.
"""

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import NamedTuple


class Acknowledged(NamedTuple):
    """A record that a broker acknowledged, and when the producer learned of it."""

    cluster: str
    lane: str
    at_ns: int


class Handled(NamedTuple):
    """A record that a member handled: under which lease and epoch, and when."""

    id: str
    member: str
    lease: str
    epoch: int
    at_ns: int


def ledger_line(id: str, cluster: str, lane: str, at_ns: int) -> str:
    """A ledger line in the form that `Evidence.take_ledger` reads."""
    return f"{id} {cluster} {lane} {at_ns}"


def sink_line(id: str, lease: str, epoch: int, at_ns: int) -> str:
    """A sink line in the form that `Evidence.take_sink` reads."""
    return f"{id} {lease} {epoch} {at_ns}"


class Evidence:
    """The evidence of a drill so far. It grows line by line; every question may be asked at any time."""

    def __init__(self) -> None:
        self.acknowledged: dict[str, Acknowledged] = {}
        self.handled: list[Handled] = []
        self._handled_ids: set[str] = set()

    def take_ledger(self, lines: Iterable[str]) -> None:
        """Takes lines of the ledger. Raises `ValueError` for a malformed line."""
        for line in lines:
            id, cluster, lane, at_ns = _fields(line, 4)
            self.acknowledged[id] = Acknowledged(cluster, lane, int(at_ns))

    def take_sink(self, member: str, lines: Iterable[str]) -> None:
        """Takes lines of a member's sink. Raises `ValueError` for a malformed line."""
        for line in lines:
            id, lease, epoch, at_ns = _fields(line, 4)
            self.handled.append(Handled(id, member, lease, int(epoch), int(at_ns)))
            self._handled_ids.add(id)

    @property
    def lost(self) -> frozenset[str]:
        """Records that were acknowledged and that no member has handled (yet)."""
        return frozenset(self.acknowledged.keys() - self._handled_ids)

    @property
    def repeated(self) -> int:
        """How many times a member handled a record that had been handled before."""
        return len(self.handled) - len(self._handled_ids)

    def first_ack_elsewhere_ns(self, cluster: str, since_ns: int) -> int | None:
        """When another cluster first acknowledged records of every lane in use, after an instant.

        A lane whose records already all went elsewhere counts from its next acknowledgement.
        """
        first: dict[str, int] = {}
        for each in self.acknowledged.values():
            if each.cluster != cluster and each.at_ns >= since_ns:
                first[each.lane] = min(each.at_ns, first.get(each.lane, each.at_ns))
        lanes = {each.lane for each in self.acknowledged.values() if each.at_ns < since_ns}
        return max(first[lane] for lane in lanes) if lanes and lanes <= first.keys() else None

    def longest_stall_ns(self, from_ns: int, to_ns: int) -> int:
        """The longest time without an acknowledgement between two instants, in the worst lane."""
        longest = 0
        for lane in {each.lane for each in self.acknowledged.values()}:
            times = {each.at_ns for each in self.acknowledged.values() if each.lane == lane}
            moments = sorted({from_ns, to_ns, *(at for at in times if from_ns <= at <= to_ns)})
            longest = max([longest, *(after - before for before, after in pairwise(moments))])
        return longest

    def leases_of(self, member: str, since_ns: int) -> Mapping[str, int]:
        """The leases whose records a member handled since an instant, with their newest epochs."""
        found: dict[str, int] = {}
        for each in self.handled:
            if each.member == member and each.at_ns >= since_ns:
                found[each.lease] = max(each.epoch, found.get(each.lease, 0))
        return found

    def taken_over_ns(self, victim: str, leases: Mapping[str, int], since_ns: int) -> Mapping[str, int]:
        """When another member first handled a record of each lease under a newer epoch than the victim's."""
        found: dict[str, int] = {}
        for each in self.handled:
            if each.member == victim or each.at_ns < since_ns or each.epoch <= leases.get(each.lease, each.epoch):
                continue
            found[each.lease] = min(each.at_ns, found.get(each.lease, each.at_ns))
        return found


def _fields(line: str, count: int) -> list[str]:
    fields = line.split(" ")
    if len(fields) != count or not fields[-1].isdecimal():
        raise ValueError(f"{line[:80]!r} is no line of a drill's files")
    return fields
