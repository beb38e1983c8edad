"""Deficit round robin between queues (Shreedhar and Varghese, 1995), charged by what was taken. Pure.

One take may exceed what is left of a turn; the excess is owed, and paid with later turns. What is taken while no other
queue waits is lent, and owed to nobody.
"""

from collections import deque
from collections.abc import Callable


class RoundRobin:
    """Chooses between queues, by name.

    Attributes:
        name: Whose turn it is; empty before the first.
        left: What is left of it.
    """

    __slots__ = ("_debts", "_order", "_turn_of", "_waits", "left", "name")

    def __init__(self, waits: Callable[[str], bool], turn_of: Callable[[str], int]) -> None:
        """`waits` says whether a queue has something to take; `turn_of` returns how long its turn is (1 at least)."""
        self._waits = waits
        self._turn_of = turn_of
        self._order: deque[str] = deque()
        self._debts: dict[str, int] = {}
        self.name = ""
        self.left = 0

    def add(self, name: str) -> None:
        """Adds a queue after the others."""
        self._order.append(name)

    def next(self) -> str | None:
        """Returns the next queue and charges its turn with one; None when no queue has anything to take."""
        if self.left > 0 and self._waits(self.name):
            self.left -= 1
            return self.name
        if not any(map(self._waits, self._order)):
            return None
        while True:
            for _ in range(len(self._order)):
                name = self._order[0]
                self._order.rotate(-1)
                turn = self._pay(name, 1) if self._debts else self._turn_of(name)
                if turn > 0 and self._waits(name):
                    self.name, self.left = name, turn - 1
                    return name
            rounds = min(self._debts.get(name, 0) // self._turn_of(name) for name in self._order if self._waits(name))
            for name in self._order if rounds else ():
                self._pay(name, rounds)

    def charge(self, more: int, *, lent: bool) -> None:
        """Charges for more taken than the one that `next` charged; `lent` when no other queue waits."""
        self.left -= more
        if self.left < 0:
            if not lent:
                self._debts[self.name] = self._debts.get(self.name, 0) - self.left
            self.left = 0

    def end_turn(self) -> None:
        """Ends the turn: `next` decides anew."""
        self.left = 0

    def _pay(self, name: str, turns: int) -> int:
        """Pays a debt with so many turns; returns the turns that are left."""
        left = self._turn_of(name) * turns - self._debts.pop(name, 0)
        if left < 0:
            self._debts[name] = -left
        return left
