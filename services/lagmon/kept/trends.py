"""Whether a lane falls behind or catches up, from its newest steps. Pure."""

from collections.abc import Sequence
from typing import NamedTuple

from services.lagmon.kept.rows import Column, SeriesKey, Step


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


def trend_of(steps: Sequence[Step], key: SeriesKey) -> Trend | None:
    """Returns a lane's trend over some steps; None where no rate is known in any of them."""
    change = rated_ms = 0
    for step in steps:
        at = step.keys.positions.get(key)
        if at is not None:
            values = step.columns[:, at]
            change += int(values[Column.PRODUCED]) - int(values[Column.DONE])
            rated_ms += int(values[Column.RATED_MS])
    return Trend(change * 1000 / rated_ms) if rated_ms else None
