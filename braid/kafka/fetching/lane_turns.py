"""Whose fetched bytes are decoded next, and who is asked for first: lanes by their shares, then their partitions. Pure.

Decoding follows deficit round robin, in records. Requests follow start-time fair queueing (Goyal, Vin and Cheng, 1996),
in bytes: brokers fill an answer in the order in which they are asked (KIP-74), so that lane comes first that had least.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from braid.kernel.limits.kafka import FETCH_TURN_RECORDS
from braid.kernel.ports import FetchLane, TopicPartition
from braid.kernel.round_robin import RoundRobin

_NO_LANE = FetchLane()


class FetchTurns:
    """Turns of one fetcher's partitions."""

    def __init__(self) -> None:
        self._lanes: Mapping[TopicPartition, FetchLane] = {}
        self._shares: dict[str, int] = {}  # by lane, of all there ever were: a debt outlives an assignment
        self._ready: dict[str, deque[TopicPartition]] = {}
        self._round = RoundRobin(self._waits, self._turn_of)
        self._starts: dict[str, float] = {}  # bytes of a lane by its share, where its next ones begin
        self._newest_start = 0.0
        self.assign({})

    def assign(self, lanes: Mapping[TopicPartition, FetchLane]) -> None:
        """Replaces what is known of partitions' lanes."""
        self._lanes = dict(lanes)
        for lane in dict.fromkeys((_NO_LANE, *lanes.values())):
            if lane.name not in self._shares:
                self._round.add(lane.name)
            self._shares[lane.name] = lane.share

    def lane(self, partition: TopicPartition) -> str:
        """The name of a partition's lane."""
        return self._lanes.get(partition, _NO_LANE).name

    def offer(self, partitions: Iterable[TopicPartition]) -> None:
        """What there is to take from now, in the order of turns within each lane; replaces what was offered before."""
        if not self._lanes:
            self._ready = {_NO_LANE.name: deque(partitions)}
            return
        self._ready = {}
        for partition in partitions:
            name = self._lanes.get(partition, _NO_LANE).name
            if name not in self._ready:
                self._ready[name] = deque()
            self._ready[name].append(partition)

    def next(self, most: int) -> tuple[TopicPartition, int] | None:
        """The partition whose turn it is, and how many records it may bring; None when nothing is offered any more."""
        name = self._round.next()
        if name is None:
            return None
        return self._ready[name][0], most if self._is_alone() else min(most, self._round.left + 1)

    def took(self, count: int, *, more: bool) -> None:
        """So many records came of the partition that was named last; whether it has `more` now."""
        waiting, alone = self._ready[self._round.name], self._is_alone()
        partition = waiting.popleft()
        if more:
            waiting.append(partition)
        self._round.charge(max(0, count - 1), lent=alone)

    def in_order(self, partitions: Sequence[TopicPartition]) -> Sequence[TopicPartition]:
        """The same, as they are to be asked for."""
        if not self._lanes:
            return partitions
        by_lane: dict[str, list[TopicPartition]] = {}
        for partition in partitions:
            by_lane.setdefault(self._lanes.get(partition, _NO_LANE).name, []).append(partition)
        return [partition for name in sorted(by_lane, key=self._start) for partition in by_lane[name]]

    def received(self, partition: TopicPartition, size: int) -> None:
        """So many bytes came of a partition."""
        name = self.lane(partition)
        self._newest_start = self._start(name)
        self._starts[name] = self._newest_start + size / self._shares.get(name, 1)

    def _start(self, name: str) -> float:
        """A lane that asked for nothing meanwhile saves nothing up."""
        return max(self._starts.get(name, 0.0), self._newest_start)

    def _is_alone(self) -> bool:
        return sum(map(bool, self._ready.values())) == 1

    def _waits(self, name: str) -> bool:
        return bool(self._ready.get(name))

    def _turn_of(self, name: str) -> int:
        return self._shares[name] * FETCH_TURN_RECORDS
