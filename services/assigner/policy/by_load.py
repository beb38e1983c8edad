"""A placement by load: which member holds which partition, and how loaded that makes each member. Pure.

Building one costs a pass over the partitions; dealing out free partitions then costs what is free and a pass over the
members.

A bound, for members of capacities c and partitions of weights w where nothing is excluded (properties hold it):

- **Dealing out** free partitions, heaviest first to the least loaded member for its capacity (list scheduling:
  Graham, *Bounds on multiprocessing timing anomalies*, 1969): no receiver ends above mean + w_max / c, and nothing
  held moves. Among n members of one capacity many are dealt at once, heaviest to least loaded. They go to all within
  the heaviest weight of the least loaded; differences within a batch and before it offset each other, so they stay
  within it and the bound holds. But they go to no fewer than n/8, of whom the last had at most 8/7 of the mean. From
  nothing, equal weights lead to numbers of partitions that differ by at most one.

How one that has become uneven is evened out is `improvement.py`.
"""

from collections.abc import Sequence
from copy import copy
from heapq import heapify, heappop, heapreplace
from typing import Final, NamedTuple

import numpy as np

from braid.kernel.limits.assigner.placement import PLACEMENT_DESTINATIONS_TRIED
from services.assigner.policy.arrays import Floats, Indices, Mask
from services.assigner.policy.placement_rules import HostRoom, Rules

_BATCH_PART: Final = 8  # of the members get something before loads are compared again


class LeaseMove(NamedTuple):
    """A partition that changes hands; `source` or `target` is -1 for nobody."""

    partition: int
    source: int
    target: int


class Placement:
    """A placement: who holds which partition.

    Members and partitions are indices; arrays that are passed in are copied. Members and partitions are indices; what
    is taken in is copied.

    Attributes:
        weights: Busy seconds per second each partition costs; shape (P,).
        holders: Who holds it, or -1; shape (P,).
        loads: Sum of the weights each member holds; shape (N,).
        relative: Loads over capacities, infinite for who may get nothing; shape (N,).
        capacities: What each member bears; shape (N,).
        inverse: One over the capacities, infinite for who may get nothing; shape (N,).
    """

    def __init__(self, weights: Floats, holders: Indices, capacities: Floats, rules: Rules | None = None) -> None:
        """Begins with the present holders. A member of capacity 0 keeps what it holds and gets nothing."""
        self.weights: Floats = np.asarray(weights, np.float64)  # never changed here
        self.holders = holders.astype(np.int64)
        self.capacities = capacities.astype(np.float64)
        self._rules = rules
        members = len(capacities)
        loads = np.bincount(self.holders + 1, self.weights, members + 1)  # the first are nobody's
        self.loads: Floats = loads[1:].astype(np.float64)
        self.inverse = np.divide(1.0, self.capacities, out=np.full(members, np.inf), where=self.capacities > 0)
        self.relative = self._relative_loads()
        live = self.capacities[self.capacities > 0]
        self._live = len(live)
        self._capacity_max = float(live.max()) if len(live) else 0.0
        self._alike = not len(live) or bool(live.min() == self._capacity_max)
        self._lists: dict[int, list[int]] = {}
        self._room = HostRoom(rules, self.holders, members) if rules and rules.apart is not None else None

    def _of(self, member: int) -> list[int]:
        """Returns the partitions of one member, which may be changed; the first question costs a look at all."""
        if member not in self._lists:
            self._lists[member] = np.flatnonzero(self.holders == member).tolist()
        return self._lists[member]

    def listed(self, member: int) -> Indices:
        """The partitions a member holds, in the order in which it got them: for who asks for the same few again."""
        return np.array(self._of(member), np.int64)

    @property
    def mean(self) -> float:
        """The load for its capacity of every member if loads could be divided at will; 0 without members."""
        capacity = float(self.capacities.sum())
        return float(self.loads[self.capacities > 0].sum()) / capacity if capacity else 0.0

    # --- changes

    def deal(self, free: Indices) -> None:
        """Gives free partitions to members, first those that few members may hold. What nobody may hold stays free."""
        heaviest_first = free[_ascending(-self.weights[free])]
        if self._rules is None:
            if self._alike:
                self._deal_alike(heaviest_first)
            else:
                self._deal_any(heaviest_first, self.relative)
            return
        kinds, allowed = self._rules.kinds[heaviest_first], self._rules.allowed
        by_freedom = np.unique(kinds)
        for kind in by_freedom[np.argsort(allowed[by_freedom].sum(axis=1), kind="stable")].tolist():
            of_kind = heaviest_first[kinds == kind]
            sets = self._apart_of(of_kind)
            for number in np.unique(sets)[::-1].tolist():
                of_set = of_kind[sets == number]
                if number >= 0:
                    of_set = self._deal_apart(of_set, number, np.where(allowed[kind], self.relative, np.inf))
                if number < 0 or self._rules.soft:
                    self._deal_any(of_set, np.where(allowed[kind], self.relative, np.inf))

    def _deal_alike(self, partitions: Indices) -> None:
        """Deals among members of one capacity, none excluded: a batch at a time, heaviest to least loaded."""
        live = self._live
        if not live:
            return
        weights = self.weights[partitions]
        takers = np.empty(len(partitions), np.int64)
        at = 0
        while at < len(partitions):
            left = len(partitions) - at
            near = np.count_nonzero(self.relative <= self.relative.min() + weights[at] / self._capacity_max)
            count = min(left, max(1, int(near), live // _BATCH_PART))
            takers[at : at + count] = nearest = self._least_loaded(count)
            self.loads[nearest] += weights[at : at + count]
            self.relative[nearest] = self.loads[nearest] * self.inverse[nearest]
            at += count
        self._hand_over(partitions, takers)

    def _hand_over(self, partitions: Indices, takers: Indices) -> None:
        self.holders[partitions] = takers
        self._lists.clear()

    def _least_loaded(self, count: int) -> Indices:
        if count < len(self.relative):
            nearest = np.argpartition(self.relative, count - 1)[:count]
            nearest.sort()
        else:
            nearest = np.arange(count)
        return nearest[_ascending(self.relative[nearest])]

    def _deal_any(self, partitions: Indices, relative: Floats) -> None:
        """Deals by list scheduling; only as many least loaded members as there are partitions can get one."""
        count = min(len(partitions), len(relative))
        if not count:
            return
        nearest = np.argpartition(relative, count - 1)[:count]
        nearest = np.sort(nearest[np.isfinite(relative[nearest])])
        if not len(nearest):
            return
        heap = list(zip(relative[nearest].tolist(), nearest.tolist(), self.inverse[nearest].tolist(), strict=True))
        heapify(heap)
        takers = []
        for weight in self.weights[partitions].tolist():
            load, member, inverse = heap[0]
            heapreplace(heap, (load + weight * inverse, member, inverse))
            takers.append(member)
        self._give(partitions, takers)

    def _deal_apart(self, partitions: Indices, number: int, relative: Floats) -> Indices:
        """Deals one set by list scheduling, among members whose host has room; returns what found none."""
        assert self._room
        left, hosts = self._room.left(number), self._room.hosts
        able = np.flatnonzero(np.isfinite(relative))
        heap = list(zip(relative[able].tolist(), able.tolist(), self.inverse[able].tolist(), strict=True))
        heapify(heap)
        takers: list[int] = []
        for weight in self.weights[partitions].tolist():
            while heap and left[hosts[heap[0][1]]] <= 0:
                heappop(heap)
            if not heap:
                break
            load, member, inverse = heap[0]
            heapreplace(heap, (load + weight * inverse, member, inverse))
            left[hosts[member]] -= 1
            takers.append(member)
        self._give(partitions[: len(takers)], takers)
        return partitions[len(takers) :]

    def _give(self, partitions: Indices, takers: Sequence[int]) -> None:
        taken = np.array(takers, np.int64)
        self._hand_over(partitions, taken)
        if self._room:
            self._room.change(partitions, taken, 1)
        np.add.at(self.loads, taken, self.weights[partitions])
        self.relative[taken] = self.loads[taken] * self.inverse[taken]

    def take(self, moves: Sequence[LeaseMove]) -> None:
        """Applies a plan that was made of this very placement."""
        for move in moves:
            self.move(move)

    def copy(self) -> "Placement":
        """Returns a copy to plan on."""
        twin = copy(self)
        twin.holders, twin.loads, twin.relative = self.holders.copy(), self.loads.copy(), self.relative.copy()
        twin._lists = {}
        if self._rules and self._room:
            twin._room = HostRoom(self._rules, self.holders, len(self.loads))
        return twin

    def takers(self) -> Sequence[int]:
        """Returns members to try a move with, least loaded first.

        Without exclusions, if the first cannot help, none can.
        """
        if self._rules is None:
            return [int(np.argmin(self.relative))]
        takers: list[int] = np.argsort(self.relative, kind="stable")[:PLACEMENT_DESTINATIONS_TRIED].tolist()
        return takers

    def move(self, move: LeaseMove) -> None:
        """Gives a partition that is held to another member."""
        weight = self.weights[move.partition]
        for member, change in ((move.source, -weight), (move.target, weight)):
            self.loads[member] += change
            self.relative[member] = self.loads[member] * self.inverse[member]
        if self._room:
            partition = np.array([move.partition])
            self._room.change(partition, np.array([move.source]), -1)
            self._room.change(partition, np.array([move.target]), 1)
        self._of(move.source).remove(move.partition)
        self._of(move.target).append(move.partition)
        self.holders[move.partition] = move.target

    # --- rules

    def _relative_loads(self) -> Floats:
        live = self.capacities > 0
        relative: Floats = np.full(len(self.loads), np.inf)
        np.divide(self.loads, self.capacities, out=relative, where=live)
        return relative

    def _apart_of(self, partitions: Indices) -> Indices:
        if self._rules is None or self._rules.apart is None:
            return np.full(len(partitions), -1, np.int64)
        return self._rules.apart[partitions]

    def may_take(self, partitions: Indices, member: int) -> Mask:
        """Returns which partitions the rules let a member have beside those it holds."""
        if self._rules is None:
            return np.ones(len(partitions), np.bool_)
        may: Mask = self._rules.allowed[self._rules.kinds[partitions], member]
        return may & self._room.may_join(partitions, self.holders[partitions], member) if self._room else may


def _ascending(values: Floats) -> Indices:
    """Returns the order from least to greatest; equal ones keep their order on every machine."""
    if len(values) < 2 or values.min() == values.max():
        return np.arange(len(values))
    order = np.argsort(values)  # several times faster than a stable one, and the same unless there are ties
    ranked = values[order]
    return np.argsort(values, kind="stable") if (ranked[1:] == ranked[:-1]).any() else order
