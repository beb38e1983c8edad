"""Placement of partitions on members: pure, deterministic, NumPy.

If nothing costs more than anything else (every weight at the floor, equal capacities, nothing excluded), numbers are
evened out. Stated invariants (tested as properties):

- Totals of members differ by at most one.
- An even placement stays as it is.
- A join or leave moves no more than ⌈P/N⌉ + 1 partitions.
- Placed from nothing, the partitions of every single channel differ by at most one between members too.

Later moves keep channels spread as far as the totals and the least movement allow.

Everywhere else loads are evened out, within the bounds `placement` states; channels are then spread only by chance.
"""

from collections.abc import Collection, Generator
from dataclasses import dataclass, field
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from braid.kernel.limits.assigner.placement import PLACEMENT_SLICE_WORK, PLACEMENT_TRY_WORK
from services.assigner.policy.arrays import (
    Floats,
    Indices,
)
from services.assigner.policy.by_load import Placement
from services.assigner.policy.improvement import (
    Band,
    Improvement,
    improve,
)
from services.assigner.policy.placement_rules import Rules


class Movable(Enum):
    """Which held partitions may be moved. Free ones are always placed."""

    NONE = "none"
    TO_NEWCOMERS = "to newcomers"  # only as many as members that hold nothing are short of
    ALL = "all"


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """The measurements and rules by which partitions are placed by load.

    Attributes:
        weights: Busy seconds per second each partition costs, none below the floor; shape (P,).
        capacities: What each member is to bear at most, in the same unit; shape (N,).
        moves_max: How many held partitions may be moved.
        rules: What may not be; None for nothing.
        band: When a placement is uneven enough to be touched.
        keeping: Members that loads never leave without a partition.
    """

    weights: Floats
    capacities: Floats
    moves_max: int
    rules: Rules | None = None
    band: Band = field(default_factory=Band)
    keeping: Collection[int] = ()

    @property
    def plain(self) -> bool:
        """Whether counting partitions is enough."""
        alike = [len(values) == 0 or values.min() == values.max() for values in (self.weights, self.capacities)]
        return self.rules is None and all(alike)


def place(
    channels: Indices, holders: Indices, members: int, *, movable: Movable, measured: Measured | None = None
) -> Indices:
    """Chooses a member for every partition.

    Args:
        channels: Per partition, the index of its channel; shape (P,).
        holders: Per partition, the index of the member that holds it, or -1; shape (P,).
        members: How many members there are, N.
        movable: Which held partitions may be moved.
        measured: Loads and rules; without it partitions are counted.

    Returns:
        Per partition, the index of the member it belongs to; -1 when there is none that may hold it. Shape (P,).
    """
    if members == 0 or not len(holders):
        return holders.copy()
    if measured is None or measured.plain:
        return _by_number(channels, holders, members, movable)
    placement = Placement(measured.weights, holders, measured.capacities, measured.rules)
    placement.deal(np.flatnonzero(holders < 0))
    if movable is Movable.ALL:
        improve(placement, measured.band, measured.moves_max, tries_of(members, len(holders)), measured.keeping)
    if movable is Movable.TO_NEWCOMERS and measured.rules is None:
        return _by_number(channels, placement.holders, members, movable)
    return placement.holders


def placing(
    channels: Indices, holders: Indices, measured: Measured, movable: Movable = Movable.ALL
) -> Generator[None, None, Indices]:
    """Places like `place`, without a limit on moves; yields after each slice of the work."""
    members = len(measured.capacities)
    if members == 0 or not len(holders) or measured.plain or movable is not Movable.ALL:
        return place(channels, holders, members, movable=movable, measured=measured)
    placement = Placement(measured.weights, holders, measured.capacities, measured.rules)
    placement.deal(np.flatnonzero(holders < 0))
    improvement = Improvement(placement, measured.band, measured.moves_max, measured.keeping)
    while not improvement.step(tries_of(members, len(holders))):
        yield
    placement.take(improvement.moves)
    return placement.holders


def tries_of(members: int, partitions: int) -> int:
    """Returns how many moves are tried in a slice: each costs arithmetic on all members and partitions."""
    return max(PLACEMENT_SLICE_WORK // (PLACEMENT_TRY_WORK + members + partitions // 16), 1)


def _by_number(channels: Indices, holders: Indices, members: int, movable: Movable) -> Indices:
    target = holders.copy()
    held = holders[holders >= 0]
    if not len(held):
        target[np.argsort(channels, kind="stable")] = np.arange(len(holders)) % members
        return target
    counts = np.bincount(held, minlength=members)
    quotas = _even_quotas(counts, len(holders)) if movable is Movable.ALL else _raised(counts, len(holders) - len(held))
    if movable is Movable.TO_NEWCOMERS:
        quotas = _shared(quotas, counts == 0, len(holders))
    target[_surplus(channels, holders, counts - quotas)] = -1
    _fill(channels, target, quotas)
    return target


def _even_quotas(counts: Indices, partitions: int) -> Indices:
    """Returns ⌊P/N⌋ for each member; the remainder goes to those that hold most, which moves least."""
    base, extra = divmod(partitions, len(counts))
    quotas = np.full(len(counts), base, np.int64)
    quotas[np.argsort(-counts, kind="stable")[:extra]] += 1
    return quotas


def _raised(counts: Indices, free: int) -> Indices:
    """Adds `free` to the lowest counts, as water fills a vessel."""
    low, high = 0, int(counts.max()) + free + 1
    while high - low > 1:  # the highest level that `free` still reaches everywhere
        level = (low + high) // 2
        low, high = (level, high) if np.maximum(level - counts, 0).sum() <= free else (low, level)
    quotas = np.maximum(counts, low)
    left = free - int((quotas - counts).sum())
    quotas[np.flatnonzero(quotas == low)[:left]] += 1
    return quotas


def _shared(quotas: Indices, newcomers: NDArray[np.bool_], partitions: int) -> Indices:
    """Raises the quotas of newcomers to ⌊P/N⌋ at the cost of the highest quotas."""
    raised = np.where(newcomers, np.maximum(quotas, partitions // len(quotas)), quotas)
    top = int(raised.max())
    depths = np.where(newcomers, top + partitions, top - raised)  # a newcomer gives nothing: no water reaches it
    lowered = _raised(depths, int((raised - quotas).sum())) - depths
    shared: Indices = raised - lowered
    return shared


def _surplus(channels: Indices, holders: Indices, excess: Indices) -> Indices:
    """Picks what members above their quota give up: partitions of the channels of which they have most."""
    held = np.flatnonzero((holders >= 0) & (excess > 0)[holders])
    if not len(held):
        return held
    share = np.bincount(channels) / len(excess)
    order = held[np.lexsort((held, channels[held], holders[held]))]
    rank = _position_in_run(holders[order] * len(share) + channels[order])
    above_share = rank - share[channels[order]]
    ranked = order[np.lexsort((order, -above_share, holders[order]))]
    return ranked[_position_in_run(holders[ranked]) < excess[holders[ranked]]]


def _fill(channels: Indices, target: Indices, quotas: Indices) -> None:
    """Gives every free partition to a member below its quota, evenly within each channel."""
    lacking = np.flatnonzero(target < 0)
    if not len(lacking):
        return
    deficits = quotas - np.bincount(target[target >= 0], minlength=len(quotas))
    order = np.argsort(channels, kind="stable")
    starts = np.searchsorted(channels[order], np.arange(int(channels.max()) + 2)).tolist()
    for channel in np.unique(channels[lacking]).tolist():
        of_channel = order[starts[channel] : starts[channel + 1]]
        held = target[of_channel]
        free = of_channel[held < 0]
        takers = _takers(np.bincount(held[held >= 0], minlength=len(quotas)), deficits, len(free))
        target[free] = takers
        deficits -= np.bincount(takers, minlength=len(quotas))


def _takers(have: Indices, deficits: Indices, count: int) -> Indices:
    """Chooses the members that take `count` partitions of a channel: fewest of it first, then furthest below quota."""
    room = np.minimum(np.maximum(deficits, 0), count)
    slots = np.repeat(np.arange(len(room)), room)
    nth = _position_in_run(slots)
    order = np.lexsort((slots, nth - deficits[slots], have[slots] + nth))
    return slots[order[:count]]


def _position_in_run(values: Indices) -> Indices:
    """For each element, how many equal ones stand directly before it."""
    positions = np.arange(len(values))
    if not len(values):
        return positions
    starts = np.flatnonzero(np.diff(values, prepend=values[0] - 1))
    return positions - np.repeat(starts, np.diff(np.append(starts, len(values))))
