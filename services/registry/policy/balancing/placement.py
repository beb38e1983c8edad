"""Loads of clusters as columns, and the search for few moves that bring every cluster within its band. Pure.

A cluster carries bytes a second, bytes on disk and partitions, each a share of its capacity. It is overloaded where a
share exceeds the mesh's mean by the band and by a floor. The search follows the best placements move by move, as beam
search does (Reddy, 1977), and stops at the first number of moves that leaves no cluster overloaded.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from braid.kernel.limits.registry.balancing import (
    BALANCE_BYTES_FLOOR,
    BALANCE_CANDIDATES,
    BALANCE_DISK_FLOOR,
    BALANCE_PARTITIONS_FLOOR,
    BALANCE_PLAN_MOVES,
    BALANCE_PLAN_WIDTH,
)

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

BYTES, DISK, PARTITIONS = 0, 1, 2
COPIES: Final = 3  # of a partition, on a cluster of three brokers or more
NAMES: Final = ("bytes a second", "disk", "partitions")
_EVENNESS: Final = 1e-3  # weight of evenness within the band beside what exceeds it
_PER_MOVE: Final = 0.05  # of the overload at first, which a further move must take away if no plan takes all
_NOTHING: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Unit:
    """The lanes of a stream that are on one cluster: they move together.

    Attributes:
        stream: Its name.
        home: Where its traffic is.
        cluster: Where it counts; for one that is moving, where it goes.
        lanes: Names of its lanes there, sorted.
        load: Bytes a second, kept bytes, partitions.
        fixed: Why it may not move; '' if it may.
    """

    stream: str
    home: str
    cluster: str
    lanes: tuple[str, ...]
    load: tuple[float, float, float]
    fixed: str = ""


class Step(NamedTuple):
    """A unit, by its position, and the cluster it goes to."""

    unit: int
    target: int


@dataclass(frozen=True, slots=True)
class Placement:
    """A placement of units on clusters.

    Attributes:
        clusters: Names of those that take part, sorted.
        loads: By cluster and resource, everything that counts there, units included.
        capacities: The same; infinite where nothing bounds a resource.
        band: Part of the mean by which a cluster may exceed it.
        units: All that count.
        allowed: By unit and cluster, whether it may go there.
        brokers: By cluster.
    """

    clusters: tuple[str, ...]
    loads: Floats
    capacities: Floats
    band: float
    units: Sequence[Unit]
    allowed: Bools
    brokers: Floats

    @property
    def highest(self) -> Floats:
        """By cluster and resource, the share of the capacity that the band allows."""
        finite = np.isfinite(self.capacities)
        whole = np.where(finite, self.capacities, 0.0).sum(axis=0)
        mean = np.where(finite, self.loads, 0.0).sum(axis=0) / np.where(whole > 0, whole, 1.0)
        floors = np.empty_like(self.loads)
        floors[:, BYTES] = BALANCE_BYTES_FLOOR * self.brokers / self.capacities[:, BYTES]
        floors[:, DISK], floors[:, PARTITIONS] = BALANCE_DISK_FLOOR, BALANCE_PARTITIONS_FLOOR
        return np.asarray(np.maximum(mean * (1 + self.band), mean + floors))

    def over(self) -> Floats:
        """By cluster and resource, the load over what the band allows; above 1 is too much."""
        shares = self.loads / self.capacities
        return np.asarray(shares / np.maximum(self.highest, _NOTHING))

    def moved(self, steps: Sequence[Step]) -> "Placement":
        """The placement after some moves. Totals stay, unless a unit comes from a cluster that takes no part."""
        loads, units = self.loads.copy(), list(self.units)
        for unit, target in steps:
            load = np.array(units[unit].load)
            if units[unit].cluster in self.clusters:
                loads[self.clusters.index(units[unit].cluster)] -= load
            loads[target] += load
            units[unit] = replace(units[unit], cluster=self.clusters[target])
        return replace(self, loads=loads, units=units)


class Found(NamedTuple):
    """Moves that the search found, and whether they leave no cluster overloaded."""

    steps: Sequence[Step]
    balanced: bool


class _State(NamedTuple):
    """A placement that the search follows: its loads, where units are, its overload, and the moves that lead there."""

    score: float
    exceeds: float
    loads: Floats
    at: tuple[int, ...]
    steps: tuple[Step, ...]


def search(placement: Placement, moves: int = BALANCE_PLAN_MOVES) -> Found:
    """Finds few moves after which no cluster is overloaded; if there are none, those that help most."""
    search = _Search(placement)
    start = search.start()
    if start.exceeds <= _NOTHING:
        return Found((), True)
    beam, best = [start], start
    for number in range(1, moves + 1):
        beam = search.next(beam)
        if not beam:
            break
        if beam[0].exceeds <= _NOTHING:
            return Found(beam[0].steps, True)
        if beam[0].exceeds <= best.exceeds - _PER_MOVE * start.exceeds * (number - len(best.steps)):
            best = beam[0]
    return Found(best.steps, False)


class _Search:
    """One search, over units that may move and are among the largest of their clusters."""

    def __init__(self, placement: Placement) -> None:
        self._capacities = placement.capacities
        self._highest = np.maximum(placement.highest, _NOTHING)
        self._placement = placement
        index = {name: number for number, name in enumerate(placement.clusters)}
        self._chosen = _candidates(placement)
        self._vectors = np.array([placement.units[each].load for each in self._chosen]).reshape(-1, 3)
        self._allowed = placement.allowed[self._chosen]
        self._at = tuple(index[placement.units[each].cluster] for each in self._chosen)

    def start(self) -> _State:
        loads = self._placement.loads
        score, exceeds = self._costs(loads, slice(None))
        return _State(float(score.sum()), float(exceeds.sum()), loads, self._at, ())

    def next(self, beam: Sequence[_State]) -> list[_State]:
        """The best placements one move further, each once."""
        found: list[tuple[float, int, int, int]] = []
        for number, state in enumerate(beam):
            scores = self._scores(state)
            for flat in np.argsort(scores, axis=None, kind="stable")[:BALANCE_PLAN_WIDTH]:
                unit, target = divmod(int(flat), scores.shape[1])
                if not np.isfinite(scores[unit, target]):
                    break
                found.append((float(scores[unit, target]), number, unit, target))
        states: dict[tuple[int, ...], _State] = {}
        for _, number, unit, target in sorted(found):
            state = self._go(beam[number], unit, target)
            states.setdefault(state.at, state)
            if len(states) >= BALANCE_PLAN_WIDTH:
                break
        return sorted(states.values(), key=lambda each: (each.exceeds > _NOTHING, each.score, each.at))

    def _scores(self, state: _State) -> Floats:
        """By unit and target, the whole score after that move; infinite where it is not allowed."""
        at = np.array(state.at, dtype=np.intp)
        score, _ = self._costs(state.loads, slice(None))
        left, _ = self._costs(state.loads[at] - self._vectors, at)
        spread = state.loads[None, :, :] + self._vectors[:, None, :]
        came, _ = self._costs(spread, slice(None))
        scores = score.sum() + (left - score[at])[:, None] + came - score[None, :]
        scores[~self._allowed] = np.inf
        scores[np.arange(len(at)), at] = np.inf
        for unit in {step.unit for step in state.steps}:  # one that moved is where it should be
            scores[self._chosen.index(unit)] = np.inf
        return np.asarray(scores)

    def _go(self, state: _State, unit: int, target: int) -> _State:
        loads = state.loads.copy()
        loads[state.at[unit]] -= self._vectors[unit]
        loads[target] += self._vectors[unit]
        score, exceeds = self._costs(loads, slice(None))
        at = (*state.at[:unit], target, *state.at[unit + 1 :])
        steps = (*state.steps, Step(self._chosen[unit], target))
        return _State(float(score.sum()), float(exceeds.sum()), loads, at, steps)

    def _costs(self, loads: Floats, at: slice | NDArray[np.intp]) -> tuple[Floats, Floats]:
        """The score that guides the search, and the excess over the band, for each row of loads."""
        shares = loads / self._capacities[at] / self._highest[at]
        exceeds = np.maximum(0.0, shares - 1.0 - _NOTHING).sum(axis=-1)
        return exceeds + _EVENNESS * (shares * shares).sum(axis=-1), exceeds


def _candidates(placement: Placement) -> list[int]:
    """Units that may move and weigh most on their cluster, by whatever resource."""
    highest = np.maximum(placement.highest, _NOTHING)
    by_cluster: dict[str, list[tuple[float, int]]] = {name: [] for name in placement.clusters}
    for number, unit in enumerate(placement.units):
        if unit.fixed or not placement.allowed[number].any() or unit.cluster not in by_cluster:
            continue
        at = placement.clusters.index(unit.cluster)
        weight = float((np.array(unit.load) / placement.capacities[at] / highest[at]).max())
        by_cluster[unit.cluster].append((-weight, number))
    return [number for each in by_cluster.values() for _, number in sorted(each)[:BALANCE_CANDIDATES]]
