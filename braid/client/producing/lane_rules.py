"""Rules that choose a record's lane when its sender names none. Pure."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from braid.kernel.errors import Invalid
from braid.kernel.ids import check_name

if TYPE_CHECKING:
    from braid.client.records.outgoing import Outgoing


class LaneRule(Protocol):
    """Chooses the lane of a record that names none, or None for the stream's default one. Asked once a record.

    What is sent again, by a failover or a replay, keeps its lane.
    """

    def __call__(self, record: "Outgoing", now_ms: int, /) -> str | None:
        """`now_ms` is the time, milliseconds since the epoch."""
        ...


@dataclass(frozen=True, slots=True)
class Late:
    """Sends records whose own time lies far back to a lane of their own, so that new ones do not wait behind them.

    A record without a `timestamp` is of now, and late for nothing.

    Attributes:
        after_seconds: How far back.
        lane: Where they go.
    """

    after_seconds: float
    lane: str = "bulk"

    def __post_init__(self) -> None:
        if not self.after_seconds > 0:
            raise Invalid("must be above 0", field="lane_rule.after_seconds", remedy="give seconds")
        check_name(self.lane, "lane_rule.lane")

    def __call__(self, record: "Outgoing", now_ms: int, /) -> str | None:
        """Returns the lane of a late record, None for others."""
        stamp_ms = record.timestamp
        return self.lane if stamp_ms is not None and now_ms - stamp_ms > self.after_seconds * 1_000 else None
