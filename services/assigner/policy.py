"""Even placement of partitions on members: pure, deterministic, NumPy.

Stated invariants (tested as properties): totals of members differ by at most one; a placement that is even already
is left as it is; a join or leave moves no more than ⌈P/N⌉ + 1 partitions; placed from nothing, the partitions of
every single channel differ by at most one between members too. Later moves keep channels spread as far as the totals
and the least movement allow.
"""

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]


def place(channels: Indices, holders: Indices, members: int, *, movable: bool) -> Indices:
    """Chooses a member for every partition.

    Args:
        channels: Per partition, the index of its channel; shape (P,).
        holders: Per partition, the index of the member that holds it, or -1; shape (P,).
        members: How many members there are, N.
        movable: Whether held partitions may be moved; if not, only free ones are placed.

    Returns:
        Per partition, the index of the member it belongs to; -1 only when there are no members. Shape (P,).
    """
    target = holders.copy()
    if members == 0 or not len(holders):
        return target
    counts = np.bincount(holders[holders >= 0], minlength=members)
    quotas = _even_quotas(counts, len(holders)) if movable else _raised(counts, int((holders < 0).sum()))
    target[_surplus(channels, holders, counts - quotas)] = -1
    _fill(channels, target, quotas)
    return target


def _even_quotas(counts: Indices, partitions: int) -> Indices:
    """⌊P/N⌋ each; the remainder goes to those who hold most, which moves least."""
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


def _surplus(channels: Indices, holders: Indices, excess: Indices) -> Indices:
    """Picks what members above their quota give up: of each, partitions of the channels it has most of."""
    held = np.flatnonzero(holders >= 0)
    share = np.bincount(channels) / len(excess)
    order = held[np.lexsort((held, channels[held], holders[held]))]
    rank = _position_in_run(holders[order] * len(share) + channels[order])
    above_share = rank - share[channels[order]]
    ranked = order[np.lexsort((order, -above_share, holders[order]))]
    return ranked[_position_in_run(holders[ranked]) < excess[holders[ranked]]]


def _fill(channels: Indices, target: Indices, quotas: Indices) -> None:
    """Gives every free partition to a member below its quota, evenly within each channel."""
    deficits = quotas - np.bincount(target[target >= 0], minlength=len(quotas))
    for channel in np.unique(channels[target < 0]):
        of_channel = channels == channel
        free = np.flatnonzero(of_channel & (target < 0))
        have = np.bincount(target[of_channel & (target >= 0)], minlength=len(quotas))
        takers = _takers(have, deficits, len(free))
        target[free] = takers
        deficits -= np.bincount(takers, minlength=len(quotas))


def _takers(have: Indices, deficits: Indices, count: int) -> Indices:
    """Chooses who takes `count` partitions of one channel: who has fewest of it, then who lacks most in all."""
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
