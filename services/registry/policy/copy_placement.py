"""Which brokers keep the copies of a partition when their number changes. Pure.

Copies that are there stay where they are, as far as possible: only what is added is copied. The leader keeps its copy
and its place, so that a reassignment moves no leader and no client.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Brokers:
    """Brokers of a cluster, and what they keep.

    Attributes:
        serving: Brokers that can take a copy now.
        racks: Of those that name one.
        copies: So many copies of partitions each keeps; changes as copies are placed.
    """

    serving: Collection[int]
    racks: Mapping[int, str] = field(default_factory=dict)
    copies: Counter[int] = field(default_factory=Counter)

    def rack(self, broker: int) -> str:
        """A broker's rack; one of its own for a broker that names none."""
        return self.racks.get(broker) or f"broker {broker}"


def counted(replicas: Iterable[Sequence[int]]) -> Counter[int]:
    """How many copies each broker keeps."""
    return Counter(broker for each in replicas for broker in each)


def place(replicas: Sequence[int], leader: int, copies: int, brokers: Brokers) -> tuple[int, ...]:
    """A partition's replicas with so many copies, those that stay in their order; fewer where brokers are missing.

    Copies are added in racks that have the fewest of the partition, on the brokers that keep the least. They are taken
    away first from brokers that are away, then from racks that have the most, then from brokers that keep the most.

    Args:
        replicas: Brokers that keep a copy now, the preferred leader first.
        leader: The broker that leads now, -1 for none.
        copies: How many are wanted, at least one.
        brokers: The cluster's; their numbers of copies are brought up to date.
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
