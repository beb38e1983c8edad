"""Rules that a placement keeps whatever the load: which members may hold a partition, and what hosts keep apart.

Pure.
"""

from dataclasses import dataclass

import numpy as np

from services.assigner.policy.arrays import Indices, Mask


@dataclass(frozen=True, slots=True, eq=False)
class Rules:
    """Moves that a placement must not make, whatever the load.

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


class HostRoom:
    """How many partitions of each set each host holds, and has room for; `hosts` are the members' hosts."""

    def __init__(self, rules: Rules, holders: Indices, members: int) -> None:
        """Begins with the present holders; -1 means none."""
        self._sets = np.full(len(holders), -1) if rules.apart is None else rules.apart
        self._hosts = np.arange(members) if rules.hosts is None else rules.hosts
        self.hosts: list[int] = self._hosts.tolist()
        sets = int(self._sets.max(initial=0)) + 1
        self._room = np.ones(sets, np.int64) if rules.room is None else rules.room
        self._counts = np.zeros((sets, int(self._hosts.max(initial=-1)) + 1), np.int64)
        held = np.flatnonzero(holders >= 0)
        self.change(held, holders[held], 1)

    def change(self, partitions: Indices, members: Indices, by: int) -> None:
        """Counts partitions that members got or lost."""
        sets = self._sets[partitions]
        counted = sets >= 0
        np.add.at(self._counts, (sets[counted], self._hosts[members[counted]]), by)

    def left(self, number: int) -> list[int]:
        """Returns by host how many more of a set it has room for."""
        room: list[int] = (self._room[number] - self._counts[number]).tolist()
        return room

    def may_join(self, partitions: Indices, holders: Indices, member: int) -> Mask:
        """Returns which partitions fit on a member's host; those on that host already take no room."""
        sets, host = self._sets[partitions], self._hosts[member]
        here = (holders >= 0) & (self._hosts[holders] == host)
        may: Mask = (sets < 0) | here | (self._counts[sets, host] < self._room[sets])
        return may
