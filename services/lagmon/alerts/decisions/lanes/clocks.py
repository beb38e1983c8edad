"""The clocks of the conditions of all lanes: what `tracker.Tracker` does with one condition, for all at once. Pure."""

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from services.lagmon.alerts.decisions.lanes.states import ABSENT, NO, YES, States

_Ints = NDArray[np.int64]
_Floats = NDArray[np.float64]
_Flags = NDArray[np.bool_]
_Kind = TypeVar("_Kind", bound=np.generic)


class Held(NamedTuple):
    """A condition that holds, by the places of its rule and lane, and for how long it has."""

    rule: int
    lane: int
    seconds: float


class LaneClocks:
    """The clock of each rule and lane; most do not run.

    Attributes:
        running: Whether a condition holds or held lately, or its alert is open; by rule and lane.
        quiet: For how long conditions have not held.
        gone: Whether that is so because the lane is gone.
    """

    def __init__(self, rules: int) -> None:
        self.running: _Flags = np.zeros((rules, 0), np.bool_)
        self.quiet: _Floats = np.zeros((rules, 0))
        self.gone: _Flags = np.zeros((rules, 0), np.bool_)
        self._held: _Floats = np.zeros((rules, 0))
        self._states: States = np.full((rules, 0), ABSENT, np.int8)

    def moved(self, before: _Ints) -> None:
        """Takes other lanes, given the number that each had before; new ones have -1."""
        self.running, self.gone = _moved(self.running, before), _moved(self.gone, before)
        self.quiet, self._held = _moved(self.quiet, before), _moved(self._held, before)
        self._states = _moved(self._states, before, ABSENT)

    def step(self, states: States, seconds: float, opened: _Flags, complete: bool) -> None:
        """Moves the clocks on, as `Tracker.step` does.

        Args:
            states: What the rules say now, by rule and lane.
            opened: Whether the alert is open.
            complete: Whether everything was heard: a lane without a condition is gone then.
        """
        holds, self._states = states == YES, states
        begins = holds & ~self.running & ~opened
        self.running |= holds | opened
        self._held[begins] = -seconds
        self._held[holds] += seconds
        self.quiet[holds] = 0.0
        absent = (states == ABSENT) & complete
        over = self.running & (absent | (states == NO))
        self._held[over], self.gone[over] = 0.0, absent[over]
        self.quiet[over] += seconds
        self.running &= opened | (self.quiet == 0.0)
        self._held *= self.running
        self.quiet *= self.running

    def pending(
        self, opened: _Flags, rules: Sequence[int], order: _Ints, most: int, least_seconds: Sequence[float]
    ) -> list[Held]:
        """Returns conditions that hold and whose alerts are not open.

        Args:
            rules: Those asked for, the most urgent first.
            order: Lanes as they are to come.
            most: How many are returned.
            least_seconds: By rule, for how long they have held.
        """
        found: list[Held] = []
        if not self.running.any():
            return found
        for rule in rules:
            waiting = self.running[rule] & (self._states[rule] == YES) & ~opened[rule]
            waiting &= self._held[rule] >= least_seconds[rule]
            lanes = order[waiting[order]][: most - len(found)]
            found += map(Held, [rule] * len(lanes), lanes.tolist(), self._held[rule, lanes].tolist())
        return found


def _moved(column: NDArray[_Kind], before: _Ints, fill: int = 0) -> NDArray[_Kind]:
    there = before >= 0
    found = np.full((len(column), len(before)), fill, column.dtype)
    found[:, there] = column[:, before[there]]
    return found
