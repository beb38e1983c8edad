"""Schedules that somebody wrote: faults at set times, which show one thing by construction, whatever a seed draws."""

import random
from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    from _typeshed import SupportsLenAndGetItem

T = TypeVar("T")


class Step(NamedTuple):
    """One fault of a schedule that somebody wrote.

    Attributes:
        at_seconds: When it happens, counted from the moment at which random faults would begin.
        kind: As in `plan.FAULTS_ALL`.
        target: Whom it befalls, a process or a cluster; '' lets the seed choose.
        lasts_seconds: Until it heals; 0 lets the seed choose.
    """

    at_seconds: float
    kind: str
    target: str = ""
    lasts_seconds: float = 0.0


class ScriptedDice(random.Random):
    """Dice that a script can load.

    Attributes:
        target: Chosen wherever it may be; '' for whichever the seed chooses.
    """

    target = ""

    def choice(self, seq: "SupportsLenAndGetItem[T]") -> T:
        """See `random.Random`."""
        for index in range(len(seq)) if self.target else ():
            if seq[index] == self.target:
                return seq[index]
        return super().choice(seq)
