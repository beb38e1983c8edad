"""How much a cluster carries, as its brokers say: room on their disks, and bytes taken. No I/O.

Bytes taken are read from the sizes of copies on disk. Added up they say little: retention and compaction take away
while producers add. So each partition's largest copy is compared with itself at the look before. What it grew by was
appended; a copy that became shorter took what it took when it was last seen to grow. The largest copy is one in step:
one that is being copied anew is smaller until it is done, and one that fell behind stays smaller.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from braid.kernel.limits.traffic import LOAD_LOOKS, LOAD_PARTITIONS_MAX
from braid.kernel.ports import LogDir, TopicPartition


@dataclass(frozen=True, slots=True)
class MeasuredLoad:
    """One cluster's load. A cluster that was not measured lately, or does not tell, has none.

    Attributes:
        measured_ms: When.
        broker: Whose disk is the fullest: the one with the smallest share free.
        free_bytes: Of that disk, as the broker may use it.
        total_bytes: Of that disk; more than zero.
        bytes_per_s: Taken by all logs of the cluster over the last minute, each partition counted once however many
            copies it has. Braid's records and everybody else's, as they lie on disk: compressed. 0 until a second look.
        silent: Brokers that did not tell; a disk of theirs may be fuller.
    """

    measured_ms: int
    broker: int
    free_bytes: int
    total_bytes: int
    bytes_per_s: float
    silent: tuple[int, ...] = ()

    @property
    def free_share(self) -> float:
        """Free part of the fullest disk, 0 to 1."""
        return self.free_bytes / self.total_bytes


class _Copy(NamedTuple):
    """A partition's largest copy: on which broker, its bytes, and bytes a second when it was last seen to grow."""

    broker: int
    size: int
    rate: float


class _Disk(NamedTuple):
    """A broker's disk. The smallest is the fullest."""

    free_share: float
    broker: int
    free_bytes: int
    total_bytes: int


class Meter:
    """Measures one cluster: `see` each broker, then `end` the look."""

    def __init__(self) -> None:
        self._copies: dict[TopicPartition, _Copy] = {}
        self._looked_at: float | None = None
        self._taken: deque[tuple[float, float]] = deque(maxlen=LOAD_LOOKS)  # bytes, within seconds
        self._begin()

    def _begin(self) -> None:
        self._largest: dict[TopicPartition, tuple[int, int]] = {}  # bytes, and the broker
        self._grown: dict[TopicPartition, int] = {}  # of the copy that was the largest; may be negative
        self._fullest: _Disk | None = None
        self._silent: list[int] = []
        self._told = False

    @property
    def followed(self) -> int:
        """Partitions whose growth is followed."""
        return len(self._copies)

    def see(self, broker: int, dirs: Sequence[LogDir]) -> None:
        """Takes what one broker told."""
        self._told = True
        for each in dirs:
            if each.total_bytes > 0 and each.usable_bytes >= 0:
                share = each.usable_bytes / each.total_bytes
                disk = _Disk(share, broker, each.usable_bytes, each.total_bytes)
                self._fullest = min(disk, self._fullest or disk)
            self._see_sizes(broker, each.sizes)

    def miss(self, broker: int) -> None:
        """A broker did not tell."""
        self._silent.append(broker)

    def _see_sizes(self, broker: int, sizes: Mapping[TopicPartition, int]) -> None:
        for partition, size in sizes.items():
            known = self._copies.get(partition)
            if known is not None and known.broker == broker:
                self._grown[partition] = size - known.size
            largest = self._largest.get(partition)
            if largest is None:
                if len(self._largest) < LOAD_PARTITIONS_MAX:
                    self._largest[partition] = size, broker
            elif size > largest[0]:
                self._largest[partition] = size, broker

    def end(self, now: float, now_ms: int) -> MeasuredLoad | None:
        """The load after this look, which ended now; None when no broker told the room on its disks."""
        seconds = now - self._looked_at if self._looked_at is not None else 0.0
        taken = 0.0
        copies: dict[TopicPartition, _Copy] = {}
        for partition, (size, broker) in self._largest.items():
            rate = self._rate(partition, seconds)
            taken += rate * seconds
            copies[partition] = _Copy(broker, size, rate)
        if self._told:
            self._copies, self._looked_at = copies, now
            self._taken.append((taken, seconds))
        disk, silent = self._fullest, tuple(sorted(self._silent))
        self._begin()
        if disk is None:
            return None
        return MeasuredLoad(now_ms, disk.broker, disk.free_bytes, disk.total_bytes, self._bytes_per_s(), silent)

    def _rate(self, partition: TopicPartition, seconds: float) -> float:
        known, grown = self._copies.get(partition), self._grown.get(partition, -1)
        if known is None or seconds <= 0:
            return 0.0
        return grown / seconds if grown >= 0 else known.rate

    def _bytes_per_s(self) -> float:
        seconds = sum(each for _, each in self._taken)
        return sum(each for each, _ in self._taken) / seconds if seconds > 0 else 0.0
