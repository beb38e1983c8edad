"""Chooses which records are measured: about the same number every second, whatever the load. Pure.

Every record has the same chance, and each that is chosen stands for the inverse of it. The distance to the next one is
geometric, so that no rhythm of an application meets the choice. It comes from a hash, so the same records are chosen in
each run of a simulation.
"""

from math import log1p
from typing import Final

from braid.kernel.limits.lagmon.pathways import PATHWAY_PLAN_MS, PATHWAY_WEIGHT_SHIFT_MAX

_WORD: Final = (1 << 64) - 1
# SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014): its increment and its mixing.
_GOLDEN: Final = 0x9E3779B97F4A7C15
_MIXING: Final = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))


class Sampler:
    """Chooses records by their positions, which count up from 1.

    Attributes:
        next: The position of the next record that is chosen.
        until_ms: How long the plan holds; the first record after it makes another.
        shift: A chosen record stands for `2**shift`.
    """

    __slots__ = ("_chosen", "_first", "_per_s", "_salt", "_since_ms", "next", "shift", "until_ms")

    def __init__(self, per_s: int, salt: int) -> None:
        """Plans for `per_s` records a second; `salt` makes the choice differ from that of others."""
        self._per_s = per_s
        self._salt = salt
        self._first, self._since_ms, self._chosen = 1, 0, 0
        self.next, self.until_ms, self.shift = 1, 0, 0

    def take(self, position: int, now_ms: int) -> int | None:
        """Returns the shift of a record if it is chosen, else None. Call it from `next` on, or after the plan's end."""
        if not self._since_ms <= now_ms < self.until_ms:
            self._plan(position, now_ms)
        if position < self.next:
            return None
        shift = self.shift
        self._chosen += 1
        if self._chosen >= self._per_s and shift < PATHWAY_WEIGHT_SHIFT_MAX:  # far more come than was planned for
            self._chosen = 0
            self.shift += 1
        self.next = position + self._distance(position)
        return shift

    def _plan(self, position: int, now_ms: int) -> None:
        """Plans anew, by the rate since the last plan; with the first plan every record is chosen."""
        seconds = max(now_ms - self._since_ms, PATHWAY_PLAN_MS) / 1000
        wanted = (position - self._first) / seconds / self._per_s
        self.shift = min(max(0, int(wanted)).bit_length(), PATHWAY_WEIGHT_SHIFT_MAX)
        self._first, self._since_ms, self._chosen = position, now_ms, 0
        self.until_ms = now_ms + PATHWAY_PLAN_MS
        self.next = position - 1 + self._distance(position - 1)

    def _distance(self, position: int) -> int:
        """Returns how far behind a position the next chosen one is: geometric, so it does not matter when one plans."""
        if not self.shift:
            return 1
        mixed = (self._salt + position * _GOLDEN) & _WORD
        for bits, factor in _MIXING:
            mixed = ((mixed ^ (mixed >> bits)) * factor) & _WORD
        uniform = (mixed >> 11) / (1 << 53)
        return 1 + int(log1p(-uniform) / log1p(-(0.5**self.shift)))
