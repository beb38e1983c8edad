"""How well a cluster is known by one reading of it, and which of several readings answers. Pure.

Times are seconds on this replica's clock that never steps.
"""

from collections.abc import Sequence
from typing import NamedTuple

from braid.kernel.limits.lagmon.sampling import LAG_STALE_SECONDS
from services.lagmon.columns.lags import Lags
from services.lagmon.policy import Now


class Standing(NamedTuple):
    """The worth of one reading of a cluster.

    Attributes:
        caught_up: Whether the offset log was read to its end, so that no rows are missing.
        read_at: When the offset log last answered.
        looked_at: When the newest end of a log was seen; the time of the reading where there are no rows.
        stale_after: Seconds after which it is stale.
    """

    caught_up: bool
    read_at: float
    looked_at: float
    stale_after: float = LAG_STALE_SECONDS

    @property
    def known_at(self) -> float:
        """The time up to which both commits and ends are known."""
        return min(self.read_at, self.looked_at)

    def good(self, now: float) -> bool:
        """Whether it answers for the cluster without others: it is whole, and not stale."""
        return self.caught_up and now - self.known_at <= self.stale_after


def chosen(readings: Sequence[Standing], now: float) -> int:
    """Returns the place of the reading that answers; readings are in order of preference.

    The first good one answers. Without any, rows are stale whoever answers: then a whole reading comes before one with
    missing rows, and a newer before an older one.
    """
    for place, standing in enumerate(readings):
        if standing.good(now):
            return place
    return max(range(len(readings)), key=lambda place: (readings[place].caught_up, readings[place].known_at, -place))


def looked_at(lags: Lags, now: Now) -> float:
    """Returns when the newest end of a log was seen for rows of that instant; the instant where there are no rows."""
    age_ms = now.wall_ms - int(lags.as_of_ms.max()) if len(lags.as_of_ms) else 0
    return now.elapsed - age_ms / 1_000
