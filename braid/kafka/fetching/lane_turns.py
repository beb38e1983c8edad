"""Turns of fetched partitions: whose bytes are decoded next, and which are asked for first, by lane and share. Pure.

Decoding follows deficit round robin, in records. Requests follow start-time fair queueing (Goyal, Vin and Cheng, 1996),
in bytes: brokers fill an answer in the order of the request (KIP-74), so the lane that had least comes first.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from braid.kernel.limits.kafka import FETCH_TURN_RECORDS
from braid.kernel.ports import FetchLane, TopicPartition
from braid.kernel.round_robin import RoundRobin

_NO_LANE = FetchLane()


class FetchTurns:
    """The turns of one fetcher's partitions."""

    def __init__(self) -> None:
        self._lanes: Mapping[TopicPartition, FetchLane] = {}
        self._shares: dict[str, int] = {}  # by lane, of all there ever were: a debt outlives an assignment
        self._ready: dict[str, deque[TopicPartition]] = {}
        self._round = RoundRobin(self._waits, self._turn_of)
        self._starts: dict[str, float] = {}  # bytes of a lane by its share, where its next ones begin
        self._newest_start = 0.0
        self.assign({})

    def assign(self, lanes: Mapping[TopicPartition, FetchLane]) -> None:
        """Replaces the lanes of the partitions."""
        self._lanes = dict(lanes)
        for lane in dict.fromkeys((_NO_LANE, *lanes.values())):
            if lane.name not in self._shares:
                self._round.add(lane.name)
            self._shares[lane.name] = lane.share

    def lane(self, partition: TopicPartition) -> str:
        """Returns the name of a partition's lane."""
        return self._lanes.get(partition, _NO_LANE).name

    def offer(self, partitions: Iterable[TopicPartition]) -> None:
        """Sets the partitions to take from, in the order of turns within each lane; replaces the earlier offer."""
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
        """Returns the partition whose turn it is, and how many records it may bring; None if none is left."""
        name = self._round.next()
        if name is None:
            return None
        return self._ready[name][0], most if self.is_alone() else min(most, self._round.left + 1)

    def took(self, count: int, *, more: bool) -> None:
        """Charges the partition returned last with so many records; `more` says whether it has others now."""
        waiting, alone = self._ready[self._round.name], self.is_alone()
        partition = waiting.popleft()
        if more:
            waiting.append(partition)
        self._round.charge(max(0, count - 1), lent=alone)

    def in_order(self, partitions: Sequence[TopicPartition]) -> Sequence[TopicPartition]:
        """Returns partitions in the order in which to ask for them."""
        if not self._lanes:
            return partitions
        by_lane: dict[str, list[TopicPartition]] = {}
        for partition in partitions:
            by_lane.setdefault(self._lanes.get(partition, _NO_LANE).name, []).append(partition)
        return [partition for name in sorted(by_lane, key=self._start) for partition in by_lane[name]]

    def received(self, partition: TopicPartition, size: int) -> None:
        """Charges a partition with so many bytes."""
        name = self.lane(partition)
        self._newest_start = self._start(name)
        self._starts[name] = self._newest_start + size / self._shares.get(name, 1)

    def _start(self, name: str) -> float:
        """Starts a lane without credit for the time in which it asked for nothing."""
        return max(self._starts.get(name, 0.0), self._newest_start)

    def is_alone(self) -> bool:
        """Whether one lane has all partitions that are ready: nobody else's turn is shortened or lengthened."""
        return sum(map(bool, self._ready.values())) == 1

    def _waits(self, name: str) -> bool:
        return bool(self._ready.get(name))

    def _turn_of(self, name: str) -> int:
        return self._shares[name] * FETCH_TURN_RECORDS
