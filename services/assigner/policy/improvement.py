"""Evening out a placement by load that has become uneven, by few moves. Pure.

Takes from the most loaded and gives to the least, only what makes the pair better. Who got something gives nothing
afterwards. For members of capacities c and partitions of weights w where nothing is excluded (properties hold this):

- Load moved ≤ load above the mean (no placement at the mean moves less) + w_max per member that gives.
- Unbounded by `moves_max` it ends where no single move helps (Finn and Horowitz, *A linear time approximation algorithm
  for multiprocessor scheduling*, 1979): all are at most max(mean · (1 + `inner`), mean + w_max / c_min).
- A placement within `Band` is left as it is.
- A member that keeps its last partition is never left without one: a slow member could not show that it has recovered.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from braid.kernel.limits.assigner.placement import (
    PLACEMENT_BAND_HIGH,
    PLACEMENT_BAND_INNER,
    PLACEMENT_BAND_LOW,
    PLACEMENT_GAIN_MIN,
)
from services.assigner.policy.arrays import Mask
from services.assigner.policy.by_load import LeaseMove, Placement

_ALL: Final = 1 << 62  # more moves than there will ever be
_STRICTLY: Final = 1 - 1e-9  # a move that gains less than rounding does gains nothing


@dataclass(frozen=True, slots=True)
class Band:
    """When a placement is uneven enough to be changed; all relative to the mean load for capacity.

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


class Improvement:
    """Moves that even a placement out, looked for one after another: interrupted and resumed it finds the same.

    The placement it is for stays as it is; a plan for one that has changed meanwhile is thrown away.

    Attributes:
        moves: The best found so far, the best first. None once it turns out that all of them gain too little.
        done: There is nothing more to look for.
    """

    def __init__(self, placement: Placement, band: Band, moves_max: int, keeping: Collection[int] = ()) -> None:
        """At most `moves_max` moves are wanted; members that are `keeping` keep their last partition."""
        self.moves: list[LeaseMove] = []
        self._moves_max = moves_max
        self._before = placement
        self._live = live = placement.capacities > 0
        self._mean = mean = placement.mean
        wanted = moves_max > 0 and mean > 0 and int(live.sum()) > 1
        self.done = not wanted or not _outside(placement, live, mean, band.high, band.low)
        self._enough = 0.0 if self.done else band.gain * float(placement.loads[live].mean())
        self._planned = placement if self.done else placement.copy()
        self._steps = iter(()) if self.done else improving_moves(self._planned, live, mean, band.inner, keeping)

    def step(self, tries: int) -> bool:
        """Looks for so many more moves. Returns `done`."""
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
        excess = [_excess(each, self._live, self._mean) for each in (self._before, self._planned)]
        return excess[0] - excess[1] >= self._enough


def improve(
    placement: Placement, band: Band, moves_max: int, tries_max: int = _ALL, keeping: Collection[int] = ()
) -> list[LeaseMove]:
    """Evens loads out where they leave the band; returns the moves, each partition's once, the best first.

    Looks for no more than `tries_max` moves: what is left then is for the next time. Members that are `keeping` keep
    their last partition.
    """
    improvement = Improvement(placement, band, moves_max, keeping)
    improvement.step(tries_max)
    placement.take(improvement.moves)
    return improvement.moves


def improving_moves(
    placement: Placement, live: Mask, mean: float, inner: float, keeping: Collection[int] = ()
) -> Iterator[LeaseMove | None]:
    """Yields moves as they are made, and None for a member that was tried in vain.

    A member that nothing can relieve is not tried.
    """
    givers, least = live.copy(), float(placement.inverse[live].min())
    lightest = np.full(len(placement.loads) + 1, np.inf)
    np.minimum.at(lightest, placement.holders + 1, placement.weights)
    lightest = lightest[1:]
    while True:
        hopeful = givers & (placement.relative.min() + lightest * least < placement.relative * _STRICTLY)
        source = int(np.argmax(np.where(hopeful, placement.relative, -np.inf)))
        above = bool(hopeful[source]) and placement.relative[source] > mean
        if not above or not _outside(placement, live, mean, inner, inner):
            return
        last = source in keeping and len(placement.listed(source)) <= 1
        move = None if last else _best_move(placement, source, mean)
        if move is None:
            givers[source] = False
        else:
            placement.move(move)
            givers[move.target] = False
            for member in (source, move.target):
                lightest[member] = placement.weights[placement.listed(member)].min(initial=np.inf)
        yield move


def _outside(placement: Placement, live: Mask, mean: float, above: float, below: float) -> bool:
    relative = placement.relative[live]
    return bool(relative.max() > mean * (1 + above) or relative.min() < mean * (1 - below))


def _excess(placement: Placement, live: Mask, mean: float) -> float:
    """Returns the load above the mean, which any placement at the mean must move."""
    return float(np.maximum(placement.loads - mean * placement.capacities, 0.0)[live].sum())


def _best_move(placement: Placement, source: int, mean: float) -> LeaseMove | None:
    """Returns the move from `source` that leaves it and the taker least loaded; None when no move helps.

    What does not take it below the mean comes first: a hot partition stays, its neighbours go.
    """
    held = placement.listed(source)
    if not len(held):
        return None
    weights = placement.weights[held]
    left = (placement.loads[source] - weights) * placement.inverse[source]
    for target in placement.takers():
        if target == source or not np.isfinite(placement.relative[target]):
            continue
        after = np.maximum(left, (placement.loads[target] + weights) * placement.inverse[target])
        after[~placement.may_take(held, target)] = np.inf
        for some in (np.where(left >= mean, after, np.inf), after):
            best = int(np.argmin(some))
            if some[best] < placement.relative[source] * _STRICTLY:
                return LeaseMove(int(held[best]), source, target)
    return None
