"""Whether a lane falls behind or catches up, from its newest steps. Pure."""

from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter
from typing import Final, NamedTuple

import numpy as np

from services.lagmon.kept.rows import Column, Columns, KeyTable, SeriesKey, Step

_RATES: Final = [Column.PRODUCED, Column.DONE, Column.RATED_MS]


class Trend(NamedTuple):
    """How a lane's undone records change.

    Attributes:
        per_s: Records a second: produced less done; negative while the group catches up.
    """

    per_s: float

    def seconds_to_zero(self, records: int) -> float | None:
        """Returns when nothing is undone if this goes on; None if it never comes to that."""
        if not records:
            return 0.0
        return records / -self.per_s if self.per_s < 0 else None


class Trends:
    """The trends of all lanes over some steps. Steps with the same series are summed once.

    Attributes:
        steps: In any order.
    """

    def __init__(self, steps: Sequence[Step] = ()) -> None:
        self.steps = steps
        self._sums: list[tuple[KeyTable, Columns]] = []
        for keys, alike in groupby(steps, key=attrgetter("keys")):
            produced, done, rated_ms = np.add.reduce([step.columns[_RATES] for step in alike])
            self._sums.append((keys, np.stack([produced - done, rated_ms])))

    def of(self, key: SeriesKey) -> Trend | None:
        """Returns a lane's trend; None where no rate is known in any of the steps."""
        change = rated_ms = 0
        for keys, sums in self._sums:
            at = keys.positions.get(key)
            if at is not None:
                change += int(sums[0, at])
                rated_ms += int(sums[1, at])
        return Trend(change * 1000 / rated_ms) if rated_ms else None
