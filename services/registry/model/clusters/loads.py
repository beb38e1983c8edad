"""A cluster's load, as its brokers report it: free disk space, and bytes appended. No I/O.

Appended bytes are derived from the sizes of copies on disk. Their sum says little: retention and compaction delete
while producers append. So each partition's largest copy is compared with its size at the previous look. Its growth was
appended; a copy that shrank keeps the rate of its last growth. The largest copy is an in-sync one: a copy that is being
made is smaller until it is complete, and one that fell behind stays smaller.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from braid.kernel.limits.registry.balancing import DISK_BYTES_MAX, LOG_GROWTH_MAX
from braid.kernel.limits.registry.traffic import LOAD_LOOKS, LOAD_PARTITIONS_MAX
from braid.kernel.ports import LogDir, TopicPartition


class TopicLoad(NamedTuple):
    """Bytes of one topic on disk, and bytes a second since the look before, each partition counted once."""

    bytes: int
    bytes_per_s: float


@dataclass(frozen=True, slots=True)
class MeasuredLoad:
    """The measured load of one cluster. A cluster without a recent or complete measurement has none.

    Attributes:
        measured_ms: When it was measured.
        broker: The broker with the fullest disk, by the smallest free share.
        free_bytes: Free bytes of that disk that the broker may use.
        total_bytes: Size of that disk; more than zero.
        bytes_per_s: Bytes appended to all logs of the cluster over the last minute, each partition counted once
            whatever
            its number of copies. Counts all records, not only Braid's, compressed as on disk. 0 until a second look.
        silent: Brokers that did not report; one of their disks may be fuller.
        topics: The same by topic, of the last look alone.
        brokers: How many reported.
    """

    measured_ms: int
    broker: int
    free_bytes: int
    total_bytes: int
    bytes_per_s: float
    silent: tuple[int, ...] = ()
    topics: Mapping[str, TopicLoad] = field(default_factory=dict)
    brokers: int = 1

    @property
    def free_share(self) -> float:
        """Free share of the fullest disk, 0 to 1."""
        return self.free_bytes / self.total_bytes


_NOTHING = TopicLoad(0, 0.0)


class _Copy(NamedTuple):
    """A partition's largest copy: its broker, its bytes, and its rate in bytes per second when it last grew."""

    broker: int
    size: int
    rate: float


class _Disk(NamedTuple):
    """A broker's disk, ordered by free share: the smallest is the fullest."""

    free_share: float
    broker: int
    free_bytes: int
    total_bytes: int


class Meter:
    """Measures one cluster: call `see` for each broker, then `end`."""

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
        self._brokers = 0

    @property
    def followed(self) -> int:
        """Number of partitions whose growth is tracked."""
        return len(self._copies)

    def see(self, broker: int, dirs: Sequence[LogDir]) -> None:
        """Takes one broker's report, without figures that no disk can have."""
        self._told = True
        self._brokers += 1
        for each in dirs:
            if 0 < each.total_bytes <= DISK_BYTES_MAX and 0 <= each.usable_bytes <= each.total_bytes:
                share = each.usable_bytes / each.total_bytes
                disk = _Disk(share, broker, each.usable_bytes, each.total_bytes)
                self._fullest = min(disk, self._fullest or disk)
            self._see_sizes(broker, each.sizes)

    def miss(self, broker: int) -> None:
        """Notes that a broker did not report."""
        self._silent.append(broker)

    def _see_sizes(self, broker: int, sizes: Mapping[TopicPartition, int]) -> None:
        for partition, size in sizes.items():
            if not 0 <= size <= DISK_BYTES_MAX:
                continue
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
        """The load after this look, which ended now; None if no broker reported its disk space."""
        seconds = now - self._looked_at if self._looked_at is not None else 0.0
        taken = 0.0
        copies: dict[TopicPartition, _Copy] = {}
        topics: dict[str, TopicLoad] = {}
        for partition, (size, broker) in self._largest.items():
            rate = self._rate(partition, seconds)
            taken += rate * seconds
            copies[partition] = _Copy(broker, size, rate)
            before = topics.get(partition.topic, _NOTHING)
            topics[partition.topic] = TopicLoad(before.bytes + size, before.bytes_per_s + rate)
        if self._told:
            self._copies, self._looked_at = copies, now
            self._taken.append((taken, seconds))
        disk, silent, brokers = self._fullest, tuple(sorted(self._silent)), self._brokers
        self._begin()
        if disk is None:
            return None
        rate = self._bytes_per_s()
        return MeasuredLoad(now_ms, *disk[1:], rate, silent, topics, max(1, brokers))

    def _rate(self, partition: TopicPartition, seconds: float) -> float:
        known, grown = self._copies.get(partition), self._grown.get(partition, -1)
        if known is None or seconds <= 0:
            return 0.0
        return grown / seconds if 0 <= grown <= LOG_GROWTH_MAX * seconds else known.rate

    def _bytes_per_s(self) -> float:
        seconds = sum(each for _, each in self._taken)
        return sum(each for each, _ in self._taken) / seconds if seconds > 0 else 0.0
