"""Placement that heeds no rule: what the mutants of `mutants` put in place of the assigner's own functions."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from services.assigner.model.group import Group
from services.assigner.policy import constraints, layout
from services.assigner.policy.arrays import (
    Floats,
    Mask,
)


def take_home_again(placed: layout.Layout, *, still: bool) -> layout.Layout:
    """A defect: returns former leases to a member below its share, even those that another member holds."""
    holders = placed.holders.copy()
    counts = Counter(holders.tolist())
    for at, home in enumerate(placed.homes.tolist()):
        if home >= 0 and counts[home] * len(placed.members) < len(holders) and not (still and holders[at] >= 0):
            counts[home] += 1
            holders[at] = home
    return replace(placed, holders=holders)


_row: Final = constraints.MemberFilter.row


def row_without_bans(self: constraints.MemberFilter, channel: str, lease: str = "") -> Mask:
    """Hears of no ban."""
    state = self._state
    self._state = replace(state, rules=replace(state.rules, bans=()))
    row = _row(self, channel, lease)
    self._state = state
    return row


_sieve: Final = constraints.MemberFilter.__init__
_borne: Final = constraints.borne


def _undrained(state: Group) -> Group:
    return replace(state, rules=replace(state.rules, drains={}))


def sieve_without_drains(self: constraints.MemberFilter, state: Group, members: Sequence[str]) -> None:
    """Hears of no member that is emptied."""
    _sieve(self, _undrained(state), members)


def borne_without_drains(state: Group, told: Mapping[str, float]) -> Floats:
    """The same, of what members bear."""
    return _borne(_undrained(state), told)
