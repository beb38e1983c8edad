"""Lanes of which nothing more is fetched because of records that wait for another attempt: too many, or too heavy."""

import logging
from collections.abc import Mapping

from braid.client.instruments import Level
from braid.client.memory import MemoryBound
from braid.kernel import limits

_log = logging.getLogger("braid.consumer")


class HeldBack:
    """Of one consumer. Whoever parks records says how many a lane has, after each change and as time goes by."""

    def __init__(self, memory: MemoryBound, level: Level) -> None:
        """`level` follows how many lanes there are."""
        self._memory = memory
        self._level = level
        self._lanes: dict[str, str] = {}
        self._logged: set[str] = set()

    @property
    def reasons(self) -> Mapping[str, str]:
        """Why, by lane."""
        return self._lanes

    def parked(self, lane: str, count: int, size: int) -> None:
        """So many records of a lane wait for another attempt, of so many bytes: at the bound no more are fetched."""
        too_many = count >= limits.PARKED_RETRIES_MAX
        self._memory.block(lane, too_many)
        if too_many:
            self._lanes[lane] = f"{count:,} records of lane {lane} wait for another attempt"
        elif self._memory.kept_full_by(lane, size):
            self._lanes[lane] = f"the memory of lane {lane} is full of {count:,} records that wait for another attempt"
        else:
            self._lanes.pop(lane, None)
        self._level.set(len(self._lanes))
        if lane in self._lanes and lane not in self._logged:
            self._logged.add(lane)
            _log.warning("%s: its fetching pauses", self._lanes[lane])
        elif lane not in self._lanes and count < limits.PARKED_RETRIES_MAX // 2:
            self._logged.discard(lane)
