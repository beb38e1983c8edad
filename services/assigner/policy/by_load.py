"""A placement by load that is kept, and changed by little: who holds what, and how loaded that makes everybody. Pure.

What a change costs depends on what it touches: a dead member's partitions, and one pass over the members. As many
changes as there are partitions cost one pass over these, too.

Bounds, for members of capacities c and partitions of weights w where nothing is excluded (properties hold them):

- **Dealing out** free partitions, heaviest first to whoever is least loaded for its capacity (list scheduling:
  Graham, *Bounds on multiprocessing timing anomalies*, 1969): nobody who gets something ends above mean + w_max / c,
  and nothing held moves. Among n members of one capacity many are dealt at once, heaviest to least loaded: to all
  within the heaviest weight of the least loaded (differences within a batch and before it offset each other, so they
  stay within it and the bound holds), but no fewer than n/8, of whom the last had at most 8/7 of the mean. From
  nothing, equal weights lead to numbers of partitions that differ by at most one.
- **Improving** takes from the most loaded and gives to the least, only what makes the pair better. Who got something
  gives nothing afterwards. Load moved ≤ load above the mean (no placement at the mean moves less) + w_max per member
  that gives. Unbounded by `moves_max` it ends where no single move helps (Finn and Horowitz, *A linear time
  approximation algorithm for multiprocessor scheduling*, 1979): all are at most max(mean · (1 + `inner`),
  mean + w_max / c_min).
- A placement within `Band` is left as it is.
"""

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from braid.kernel.limits.placement import (
    PLACEMENT_BAND_HIGH,
    PLACEMENT_BAND_INNER,
    PLACEMENT_BAND_LOW,
    PLACEMENT_DESTINATIONS_TRIED,
    PLACEMENT_GAIN_MIN,
)
from services.assigner.policy.holdings import Holdings

Indices = NDArray[np.int64]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

_ALL: Final = 1 << 62  # more moves than there will ever be
_BATCH_PART: Final = 8  # of the members get something before loads are compared again
_STRICTLY: Final = 1 - 1e-9  # a move that gains less than rounding does gains nothing


@dataclass(frozen=True, slots=True)
class Band:
    """When a placement is uneven enough to be touched; all relative to the mean load for capacity.

    Attributes:
        high: Somebody is above mean · (1 + high).
        low: Or somebody is below mean · (1 - low): a newcomer, or one that lost its load.
        inner: Improving stops once all are within mean · (1 ± inner).
        gain: It is done only when it takes at least this part of an average member's load off the overloaded.
    """

    high: float = PLACEMENT_BAND_HIGH
    low: float = PLACEMENT_BAND_LOW
    inner: float = PLACEMENT_BAND_INNER
    gain: float = PLACEMENT_GAIN_MIN


@dataclass(frozen=True, slots=True, eq=False)
class Rules:
    """What may not be, whatever the load.

    Attributes:
        kinds: Per partition, the row of `allowed` it stands under; shape (P,).
        allowed: Which members may hold partitions of a kind; shape (K, N).
        apart: Per partition, the set it belongs to, which is kept apart, or -1; shape (P,).
        hosts: Per member, where it runs; shape (N,). None: each by itself.
        room: Per set, how many of it one host holds at most; shape (S,). None: one.
        soft: What no host has room for goes to any member that is allowed; else nobody gets it.
    """

    kinds: Indices
    allowed: Mask
    apart: Indices | None = None
    hosts: Indices | None = None
    room: Indices | None = None
    soft: bool = False


class LeaseMove(NamedTuple):
    """A partition that changes hands; `source` or `target` is -1 for nobody."""

    partition: int
    source: int
    target: int


class Placement:
    """Who holds what. Members and partitions are indices; what is taken in is copied.

    Attributes:
        weights: Busy seconds per second each partition costs; shape (P,).
        holders: Who holds it, or -1; shape (P,).
        loads: Sum of the weights each member holds; shape (N,).
        relative: Loads over capacities, infinite for who may get nothing; shape (N,).
    """

    def __init__(self, weights: Floats, holders: Indices, capacities: Floats, rules: Rules | None = None) -> None:
        """A member of capacity 0 keeps what it holds and gets nothing."""
        self.weights: Floats = np.asarray(weights, np.float64)  # never changed here
        self.holders = holders.astype(np.int64)
        self._capacities = capacities.astype(np.float64)
        self._rules = rules
        members = len(capacities)
        loads = np.bincount(self.holders + 1, self.weights, members + 1)  # the first are nobody's
        self.loads: Floats = loads[1:].astype(np.float64)
        self._inverse = np.divide(1.0, self._capacities, out=np.full(members, np.inf), where=self._capacities > 0)
        self.relative = self._relative_loads()
        live = self._capacities[self._capacities > 0]
        self._live = len(live)
        self._capacity_max = float(live.max()) if len(live) else 0.0
        self._alike = not len(live) or bool(live.min() == self._capacity_max)
        self._holdings: Holdings | None = None
        self._lists: dict[int, list[int]] = {}
        self._crowds = _Crowds(rules, self.holders, members) if rules and rules.apart is not None else None

    def _of(self, member: int) -> list[int]:
        """The partitions of one member, to be changed; found by a look at all where nobody was asked for before."""
        if member not in self._lists:
            known = self._holdings
            found = np.flatnonzero(self.holders == member) if known is None else known.of(member, self.holders)
            self._lists[member] = found.tolist()
        return self._lists[member]

    def held_by(self, member: int) -> Sequence[int]:
        """The partitions a member holds; sorts those of all by member when first asked."""
        return self._held().of(member, self.holders).tolist()  # type: ignore[no-any-return]

    def _held(self) -> Holdings:
        if self._holdings is None or self._holdings.outgrown:
            self._holdings = Holdings(self.holders, len(self.loads))
        return self._holdings

    @property
    def mean(self) -> float:
        """The load everybody would have for its capacity, were all spread like sand; 0 without members."""
        capacity = float(self._capacities.sum())
        return float(self.loads[self._capacities > 0].sum()) / capacity if capacity else 0.0

    # --- changes

    def remove(self, members: Sequence[int]) -> Indices:
        """Members are gone: what they held is dealt out. Costs what they held plus one pass over the members.

        Returns:
            What they held; `holders` tells where it is now.
        """
        held = self._held()
        free = np.concatenate([np.zeros(0, np.int64), *(held.of(member, self.holders) for member in members)])
        gone = np.array(members, np.int64)
        self._live -= int(np.count_nonzero(self._capacities[gone]))
        self.loads[gone] = self._capacities[gone] = 0.0
        self._inverse[gone] = self.relative[gone] = np.inf
        if self._crowds:
            self._crowds.change(free, self.holders[free], -1)
        self.holders[free] = -1
        self.deal(free)
        return free

    def deal(self, free: Indices) -> None:
        """Gives partitions that nobody holds to members, those few may hold first. What nobody may hold stays free."""
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
            self.relative[nearest] = self.loads[nearest] * self._inverse[nearest]
            at += count
        self._hand_over(partitions, takers)

    def _hand_over(self, partitions: Indices, takers: Indices) -> None:
        self.holders[partitions] = takers
        self._lists.clear()
        if self._holdings is not None:
            self._holdings.add(partitions, takers)

    def _least_loaded(self, count: int) -> Indices:
        if count < len(self.relative):
            nearest = np.argpartition(self.relative, count - 1)[:count]
            nearest.sort()
        else:
            nearest = np.arange(count)
        return nearest[_ascending(self.relative[nearest])]

    def _deal_any(self, partitions: Indices, relative: Floats) -> None:
        """List scheduling. Whom it reaches is among as many least loaded as there are partitions: only they count."""
        count = min(len(partitions), len(relative))
        if not count:
            return
        nearest = np.argpartition(relative, count - 1)[:count]
        nearest = np.sort(nearest[np.isfinite(relative[nearest])])
        if not len(nearest):
            return
        heap = list(zip(relative[nearest].tolist(), nearest.tolist(), self._inverse[nearest].tolist(), strict=True))
        heapify(heap)
        takers = []
        for weight in self.weights[partitions].tolist():
            load, member, inverse = heap[0]
            heapreplace(heap, (load + weight * inverse, member, inverse))
            takers.append(member)
        self._give(partitions, takers)

    def _deal_apart(self, partitions: Indices, number: int, relative: Floats) -> Indices:
        """List scheduling of one set, among members whose host has room left; returns what found none."""
        assert self._crowds
        left, hosts = self._crowds.left(number), self._crowds.hosts
        able = np.flatnonzero(np.isfinite(relative))
        heap = list(zip(relative[able].tolist(), able.tolist(), self._inverse[able].tolist(), strict=True))
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
        if self._crowds:
            self._crowds.change(partitions, taken, 1)
        np.add.at(self.loads, taken, self.weights[partitions])
        self.relative[taken] = self.loads[taken] * self._inverse[taken]

    def improve(self, band: Band, moves_max: int, tries_max: int = _ALL) -> list[LeaseMove]:
        """Evens loads out where they leave the band; returns the moves, each partition's once, the best first.

        Looks for no more than `tries_max` moves: what is left then is for the next time.
        """
        improvement = Improvement(self, band, moves_max)
        improvement.step(tries_max)
        self.take(improvement.moves)
        return improvement.moves

    def take(self, moves: Sequence[LeaseMove]) -> None:
        """Does what was planned of this placement as it is."""
        for move in moves:
            self._shift(move)

    def _copy(self) -> "Placement":
        """One to plan on."""
        twin = copy(self)
        twin.holders, twin.loads, twin.relative = self.holders.copy(), self.loads.copy(), self.relative.copy()
        twin._holdings, twin._lists = None, {}
        if self._rules and self._crowds:
            twin._crowds = _Crowds(self._rules, self.holders, len(self.loads))
        return twin

    def _improving(self, live: Mask, mean: float, inner: float) -> Iterator[LeaseMove | None]:
        """Moves as they are made, None for a member that was tried in vain. Whom nothing can relieve is not tried."""
        givers, least = live.copy(), float(self._inverse[live].min())
        lightest = np.full(len(self.loads) + 1, np.inf)
        np.minimum.at(lightest, self.holders + 1, self.weights)
        lightest = lightest[1:]
        while True:
            hopeful = givers & (self.relative.min() + lightest * least < self.relative * _STRICTLY)
            source = int(np.argmax(np.where(hopeful, self.relative, -np.inf)))
            above = bool(hopeful[source]) and self.relative[source] > mean
            if not above or not self._outside(live, mean, inner, inner):
                return
            move = self._best_move(source, mean)
            if move is None:
                givers[source] = False
            else:
                self._shift(move)
                givers[move.target] = False
                for member in (source, move.target):
                    lightest[member] = self.weights[self._of(member)].min(initial=np.inf)
            yield move

    def _outside(self, live: Mask, mean: float, above: float, below: float) -> bool:
        relative = self.relative[live]
        return bool(relative.max() > mean * (1 + above) or relative.min() < mean * (1 - below))

    def _excess(self, live: Mask, mean: float) -> float:
        """Load above the mean: any placement at the mean has to move it."""
        return float(np.maximum(self.loads - mean * self._capacities, 0.0)[live].sum())

    def _best_move(self, source: int, mean: float) -> LeaseMove | None:
        """The move from `source` that leaves it and the taker least loaded; None when none helps.

        What does not take it below the mean comes first: a hot partition stays, its neighbours go.
        """
        held = np.array(self._of(source), np.int64)
        if not len(held):
            return None
        weights = self.weights[held]
        left = (self.loads[source] - weights) * self._inverse[source]
        for target in self._takers():
            if target == source or not np.isfinite(self.relative[target]):
                continue
            after = np.maximum(left, (self.loads[target] + weights) * self._inverse[target])
            after[~self._may_take(held, target)] = np.inf
            for some in (np.where(left >= mean, after, np.inf), after):
                best = int(np.argmin(some))
                if some[best] < self.relative[source] * _STRICTLY:
                    return LeaseMove(int(held[best]), source, target)
        return None

    def _takers(self) -> Sequence[int]:
        """Whom a move is tried with, least loaded first: where nothing is excluded, who cannot help, nobody can."""
        if self._rules is None:
            return [int(np.argmin(self.relative))]
        takers: list[int] = np.argsort(self.relative, kind="stable")[:PLACEMENT_DESTINATIONS_TRIED].tolist()
        return takers

    def _shift(self, move: LeaseMove) -> None:
        weight = self.weights[move.partition]
        for member, change in ((move.source, -weight), (move.target, weight)):
            self.loads[member] += change
            self.relative[member] = self.loads[member] * self._inverse[member]
        if self._crowds:
            partition = np.array([move.partition])
            self._crowds.change(partition, np.array([move.source]), -1)
            self._crowds.change(partition, np.array([move.target]), 1)
        self._of(move.source).remove(move.partition)
        self._of(move.target).append(move.partition)
        self.holders[move.partition] = move.target
        if self._holdings is not None:
            self._holdings.add(np.array([move.partition]), np.array([move.target]))

    # --- rules

    def _relative_loads(self) -> Floats:
        live = self._capacities > 0
        relative: Floats = np.full(len(self.loads), np.inf)
        np.divide(self.loads, self._capacities, out=relative, where=live)
        return relative

    def _apart_of(self, partitions: Indices) -> Indices:
        if self._rules is None or self._rules.apart is None:
            return np.full(len(partitions), -1, np.int64)
        return self._rules.apart[partitions]

    def _may_take(self, partitions: Indices, member: int) -> Mask:
        if self._rules is None:
            return np.ones(len(partitions), np.bool_)
        may: Mask = self._rules.allowed[self._rules.kinds[partitions], member]
        return may & self._crowds.may_join(partitions, self.holders[partitions], member) if self._crowds else may


class Improvement:
    """Moves that even a placement out, looked for one after another: interrupted and resumed it finds the same.

    The placement it is for stays as it is; a plan for one that has changed meanwhile is thrown away.

    Attributes:
        moves: The best found so far, the best first. None once it turns out that all of them gain too little.
        done: There is nothing more to look for.
    """

    def __init__(self, placement: Placement, band: Band, moves_max: int) -> None:
        """At most so many moves are wanted."""
        self.moves: list[LeaseMove] = []
        self._moves_max = moves_max
        self._before = placement
        self._live = live = placement._capacities > 0
        self._mean = mean = placement.mean
        wanted = moves_max > 0 and mean > 0 and int(live.sum()) > 1
        self.done = not wanted or not placement._outside(live, mean, band.high, band.low)
        self._enough = 0.0 if self.done else band.gain * float(placement.loads[live].mean())
        self._planned = placement if self.done else placement._copy()
        self._steps = iter(()) if self.done else self._planned._improving(live, mean, band.inner)

    def step(self, tries: int) -> bool:
        """Looks for so many moves more. Returns `done`."""
        for tried, move in enumerate(self._steps, 1):
            if move is not None and len(self.moves) < self._moves_max:
                self.moves.append(move)
            if len(self.moves) == self._moves_max and self._gains():  # further moves would only gain more
                self.done = True
            if self.done or tried >= tries:
                return self.done
        if not self.done and not self._gains():
            self.moves.clear()
        self.done = True
        return True

    def _gains(self) -> bool:
        excess = [each._excess(self._live, self._mean) for each in (self._before, self._planned)]
        return excess[0] - excess[1] >= self._enough


class _Crowds:
    """How many partitions of each set each host holds; `hosts` are the members'."""

    def __init__(self, rules: Rules, holders: Indices, members: int) -> None:
        self._sets = np.full(len(holders), -1) if rules.apart is None else rules.apart
        self._hosts = np.arange(members) if rules.hosts is None else rules.hosts
        self.hosts: list[int] = self._hosts.tolist()
        sets = int(self._sets.max(initial=0)) + 1
        self._room = np.ones(sets, np.int64) if rules.room is None else rules.room
        self._counts = np.zeros((sets, int(self._hosts.max(initial=-1)) + 1), np.int64)
        held = np.flatnonzero(holders >= 0)
        self.change(held, holders[held], 1)

    def change(self, partitions: Indices, members: Indices, by: int) -> None:
        """Members got partitions, or lost them."""
        sets = self._sets[partitions]
        counted = sets >= 0
        np.add.at(self._counts, (sets[counted], self._hosts[members[counted]]), by)

    def left(self, number: int) -> list[int]:
        """Per host, how many more of a set it has room for."""
        room: list[int] = (self._room[number] - self._counts[number]).tolist()
        return room

    def may_join(self, partitions: Indices, holders: Indices, member: int) -> Mask:
        """Which partitions a member's host has room for; what is on that host already takes none."""
        sets, host = self._sets[partitions], self._hosts[member]
        here = (holders >= 0) & (self._hosts[holders] == host)
        may: Mask = (sets < 0) | here | (self._counts[sets, host] < self._room[sets])
        return may


def _ascending(values: Floats) -> Indices:
    """The order from least to greatest; equal ones stay in theirs, whatever instructions the machine sorts with."""
    if len(values) < 2 or values.min() == values.max():
        return np.arange(len(values))
    order = np.argsort(values)  # several times faster than a stable one, and the same unless there are ties
    ranked = values[order]
    return np.argsort(values, kind="stable") if (ranked[1:] == ranked[:-1]).any() else order
