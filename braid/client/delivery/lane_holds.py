"""Why lanes are handed out no more, and that they are again once nothing speaks against it."""

from enum import Enum, auto

from braid.client.delivery.ready_queue import ReadyQueue


class Hold(Enum):
    """Who stopped a lane."""

    APPLICATION = auto()
    DEAD_LETTERS = auto()  # too many
    CIRCUIT = auto()


class LaneHolds:
    """Of one consumer."""

    def __init__(self, ready: ReadyQueue) -> None:
        self._ready = ready
        self._by_lane: dict[str, dict[Hold, None]] = {}

    def hold(self, lane: str, by: Hold) -> None:
        """Hands out no more of the lane."""
        self._by_lane.setdefault(lane, {})[by] = None
        self._ready.pause(lane)

    def release(self, lane: str, by: Hold) -> None:
        """One reason less; with the last the lane is handed out again."""
        held = self._by_lane.get(lane, {})
        held.pop(by, None)
        if not held:
            self._by_lane.pop(lane, None)
            self._ready.resume(lane)

    def by(self, lane: str) -> frozenset[Hold]:
        """Who stopped it."""
        return frozenset(self._by_lane.get(lane, ()))
