"""Pauses fetching of lanes that hold too many or too heavy unfinished records.

Such records wait for another attempt, or to be copied to the dlq lane.
"""

import logging
from typing import Final, NamedTuple

from braid.client.delivery.lane_states import Hold, LaneStates
from braid.client.delivery.memory_bound import MemoryBound
from braid.client.telemetry.metrics import Level
from braid.kernel.limits.client import DEAD_LETTERS_HELD_MAX, PARKED_RETRIES_MAX

_log = logging.getLogger("braid.consumer")
_WAITS: Final = {Hold.PARKED: "wait for another attempt", Hold.COPYING: "wait to be copied to the dlq lane"}


class _Held(NamedTuple):
    """Records of a lane that are held for the same reason.

    Attributes:
        records: How many.
        size: Their bytes.
        most: At so many no more are fetched.
    """

    records: int
    size: int
    most: int


class FetchPauses:
    """The fetch pauses of one consumer.

    Whoever holds records reports a lane's count after each change and at intervals.
    """

    def __init__(self, memory: MemoryBound, states: LaneStates, level: Level, copying: Level) -> None:
        """`level` counts the paused lanes, `copying` the records that wait to be copied."""
        self._memory = memory
        self._states = states
        self._level = level
        self._copying = copying
        self._held: dict[str, dict[Hold, _Held]] = {}  # by lane, then by what they wait for
        self._logged: set[tuple[str, Hold]] = set()

    def parked(self, lane: str, count: int, size: int) -> None:
        """Sets how many records of a lane wait for another attempt, and their bytes; at the bound fetching pauses."""
        self._note(lane, Hold.PARKED, _Held(count, size, PARKED_RETRIES_MAX))

    def copied(self, lane: str, count: int, size: int) -> None:
        """Sets how many records of a lane wait to be copied to the dlq lane, and their bytes; as `parked`."""
        self._note(lane, Hold.COPYING, _Held(count, size, DEAD_LETTERS_HELD_MAX))
        self._copying.set(sum(held[Hold.COPYING].records for held in self._held.values() if Hold.COPYING in held))

    def _note(self, lane: str, hold: Hold, changed: _Held) -> None:
        held = self._held.setdefault(lane, {})
        held[hold] = changed
        paused = self._states.holds(lane, *_WAITS)
        if not (paused or (lane, hold) in self._logged or self._why(lane, hold, changed)):
            return  # as most often
        self._memory.block(lane, any(each.records >= each.most for each in held.values()))
        for each, records in held.items():
            if why := self._why(lane, each, records):
                self._states.hold(lane, each, why)
            else:
                self._states.release(lane, each)
        self._level.set(self._states.fetching_paused())
        self._log(lane, hold, self._why(lane, hold, changed), changed)

    def _why(self, lane: str, hold: Hold, held: _Held) -> str:
        if held.records >= held.most:
            return f"{held.records:,} records of lane {lane} {_WAITS[hold]}"
        if self._memory.kept_full_by(lane, held.size):
            return f"the memory of lane {lane} is full of {held.records:,} records that {_WAITS[hold]}"
        return ""

    def _log(self, lane: str, hold: Hold, reason: str, held: _Held) -> None:
        """Logs the pause once, and again only after the count was below half of the bound."""
        if reason and (lane, hold) not in self._logged:
            self._logged.add((lane, hold))
            _log.warning("%s: its fetching pauses", reason)
        elif not reason and held.records < held.most // 2:
            self._logged.discard((lane, hold))
