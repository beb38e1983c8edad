"""Evidence in the files of a run: the ledger's lines, the members' sinks, the dead letters. Pure: no I/O, no clock."""

from collections import Counter
from collections.abc import Collection, Iterable
from itertools import pairwise
from sys import intern
from typing import Final, NamedTuple

POISON_KIND: Final = "poison"


class Acked(NamedTuple):
    """A record that a broker acknowledged, when (monotonic nanoseconds), what it was, and a digest of its value."""

    at_ns: int
    cluster: str
    lane: str
    kind: str
    digest: str


class Handled(NamedTuple):
    """A record that a member handled: when, under which lease and epoch."""

    at_ns: int
    member: str
    lease: str
    epoch: int


class Evidence:
    """Grows line by line; every question may be asked at any time."""

    def __init__(self) -> None:
        self.acked: dict[str, Acked] = {}
        self.ack_log: list[Acked] = []
        self.handled: list[Handled] = []
        self.processed: set[str] = set()
        self.dead_lettered: set[str] = set()
        self.poisoned: set[str] = set()
        self.kinds: Counter[str] = Counter()
        self.age_seconds_max = 0.0
        self._digests: set[str] = set()

    def ledger(self, lines: Iterable[bytes]) -> None:
        """Takes lines of the ledger."""
        for line in lines:
            identity, cluster, lane, at_ns, kind, digest = line.decode("ascii").split()
            acked = Acked(int(at_ns), intern(cluster), intern(lane), intern(kind), digest)
            self.acked[identity] = acked
            self.ack_log.append(acked)
            self._digests.add(digest)
            self.kinds[acked.kind] += 1
            if kind == POISON_KIND:
                self.poisoned.add(identity)

    def sink(self, member: str, lines: Iterable[bytes]) -> None:
        """Takes lines of a member's sink."""
        for line in lines:
            identity, lease, epoch, at_ns, age_ms = line.decode("ascii").split()
            self.handled.append(Handled(int(at_ns), member, intern(lease), int(epoch)))
            self.processed.add(identity)
            self.age_seconds_max = max(self.age_seconds_max, int(age_ms) / 1000)

    def dead_letters(self, identities: Iterable[str]) -> None:
        """Takes ids of records that lie in the dlq lane."""
        self.dead_lettered.update(identities)

    @property
    def distinct(self) -> int:
        """Acknowledged observations that differ from each other."""
        return len(self._digests)

    @property
    def duplicates(self) -> int:
        """Repeats at the members' sinks."""
        return len(self.handled) - len(self.processed)

    @property
    def replayed(self) -> set[str]:
        """Dead letters that a member handled after all."""
        return self.dead_lettered & self.processed

    def unsettled(self) -> set[str]:
        """Acknowledged, and neither processed nor dead-lettered (yet)."""
        return self.acked.keys() - self.processed - self.dead_lettered

    def stranded(self, cluster: str) -> int:
        """How many acknowledged records lie on a cluster and are not settled."""
        return sum(self.acked[identity].cluster == cluster for identity in self.unsettled())

    def carriers(self, since_ns: int) -> Counter[str]:
        """Acknowledged records by cluster since then."""
        found: Counter[str] = Counter()
        for acked in reversed(self.ack_log):
            if acked.at_ns < since_ns:
                break
            found[acked.cluster] += 1
        return found

    def busy_leases(self, member: str, since_ns: int) -> dict[str, int]:
        """The leases whose records a member handled since then, with their epochs."""
        found: dict[str, int] = {}
        for handled in reversed(self.handled):
            if handled.at_ns < since_ns - _DISORDER_NS:
                break
            if handled.member == member and handled.at_ns >= since_ns:
                found[handled.lease] = max(handled.epoch, found.get(handled.lease, 0))
        return found

    def first_takeover(self, victim: str, leases: dict[str, int], since_ns: int, start: int = 0) -> int | None:
        """When another member first handled a record of these leases under a newer epoch; nanoseconds.

        Args:
            victim: Who held them.
            leases: Their names with the epochs they were held under.
            since_ns: The moment of the kill.
            start: How much of `handled` was there before.
        """
        moments = (
            handled.at_ns
            for handled in self.handled[start:]
            if handled.member != victim
            and handled.at_ns >= since_ns
            and handled.epoch > leases.get(handled.lease, handled.epoch)
        )
        return min(moments, default=None)

    def first_acks_elsewhere(self, cluster: str, since_ns: int, start: int = 0) -> dict[str, int]:
        """By lane, when another cluster first acknowledged a record of it after that moment; nanoseconds."""
        found: dict[str, int] = {}
        for acked in self.ack_log[start:]:
            if acked.cluster != cluster and acked.at_ns >= since_ns:
                found[acked.lane] = min(acked.at_ns, found.get(acked.lane, acked.at_ns))
        return found

    def longest_stall_ms(self, from_ns: int, to_ns: int, lanes: Collection[str]) -> float:
        """The longest time without an acknowledgement within a window, on any of the lanes."""
        longest = 0
        for lane in lanes:
            times = (acked.at_ns for acked in self.ack_log if acked.lane == lane)
            moments = sorted({from_ns, to_ns, *(at_ns for at_ns in times if from_ns <= at_ns <= to_ns)})
            longest = max([longest, *(after - before for before, after in pairwise(moments))])
        return longest / 1e6


# Lines of a sink are in the order of their syncs; handlers that began earlier may come later by so much.
_DISORDER_NS: Final = 2_000_000_000
