"""Chooses the brokers that keep a partition's copies when their number changes. Pure.

Existing copies stay where possible: only added copies are transferred. The leader keeps its copy and its position, so
that a reassignment moves no leader and no client.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Brokers:
    """The brokers of a cluster, and the copies they keep.

    Attributes:
        serving: Brokers that can take a copy now.
        racks: Racks of the brokers that name one.
        copies: Number of partition copies per broker; updated as copies are placed.
    """

    serving: Collection[int]
    racks: Mapping[int, str] = field(default_factory=dict)
    copies: Counter[int] = field(default_factory=Counter)

    def rack(self, broker: int) -> str:
        """A broker's rack; a rack of its own for a broker that names none."""
        return self.racks.get(broker) or f"broker {broker}"


def counted(replicas: Iterable[Sequence[int]]) -> Counter[int]:
    """The number of copies on each broker."""
    return Counter(broker for each in replicas for broker in each)


def place(replicas: Sequence[int], leader: int, copies: int, brokers: Brokers) -> tuple[int, ...]:
    """Chooses a partition's replicas. Those that stay keep their order; there are fewer if brokers are missing.

    Copies are added in the racks with the fewest of the partition, on the brokers that keep the least. They are removed
    first from absent brokers, then from racks with the most, then from brokers that keep the most.

    Args:
        replicas: Brokers that keep a copy now, the preferred leader first.
        leader: The present leader, -1 for none.
        copies: The wanted number, at least one.
        brokers: The cluster's brokers; their numbers of copies are updated.
    """
    kept = list(replicas)
    while len(kept) > copies:
        _drop(kept, leader, brokers)
    while len(kept) < copies and _add(kept, brokers):
        pass
    return tuple(kept)


def _drop(kept: list[int], leader: int, brokers: Brokers) -> None:
    racks = Counter(map(brokers.rack, kept))
    may_go = [broker for broker in kept if broker != leader]
    gone = max(
        may_go,
        key=lambda each: (each not in brokers.serving, racks[brokers.rack(each)], brokers.copies[each], each),
    )
    kept.remove(gone)
    brokers.copies[gone] -= 1


def _add(kept: list[int], brokers: Brokers) -> bool:
    racks = Counter(map(brokers.rack, kept))
    free = [broker for broker in brokers.serving if broker not in kept]
    if not free:
        return False
    taken = min(free, key=lambda each: (racks[brokers.rack(each)], brokers.copies[each], each))
    kept.append(taken)
    brokers.copies[taken] += 1
    return True
