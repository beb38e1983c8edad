"""Lanes of which nothing more is fetched because of records that are held: too many, or too heavy.

They wait for another attempt, or to be copied to the dlq lane.
"""

import logging
from collections.abc import Mapping
from typing import Final, NamedTuple

from braid.client.delivery.memory_bound import MemoryBound
from braid.client.telemetry.metrics import Level
from braid.kernel.limits.client import DEAD_LETTERS_HELD_MAX, PARKED_RETRIES_MAX

_log = logging.getLogger("braid.consumer")
_PARKED: Final = "wait for another attempt"
_COPYING: Final = "wait to be copied to the dlq lane"


class _Held(NamedTuple):
    """Records of a lane that wait for the same.

    Attributes:
        records: How many.
        size: Their bytes.
        most: At so many no more are fetched.
    """

    records: int
    size: int
    most: int


class FetchPauses:
    """Of one consumer. Whoever holds records says how many a lane has, after each change and as time goes by."""

    def __init__(self, memory: MemoryBound, level: Level, copying: Level) -> None:
        """`level` follows how many lanes there are, `copying` how many records wait to be copied."""
        self._memory = memory
        self._level = level
        self._copying = copying
        self._held: dict[str, dict[str, _Held]] = {}  # by lane, then by what they wait for
        self._lanes: dict[str, str] = {}
        self._logged: set[tuple[str, str]] = set()

    @property
    def reasons(self) -> Mapping[str, str]:
        """Why, by lane."""
        return self._lanes

    def parked(self, lane: str, count: int, size: int) -> None:
        """So many records of a lane wait for another attempt, of so many bytes: at the bound no more are fetched."""
        self._note(lane, _PARKED, _Held(count, size, PARKED_RETRIES_MAX))

    def copied(self, lane: str, count: int, size: int) -> None:
        """So many records of a lane wait to be copied to the dlq lane, of so many bytes: as `parked`."""
        self._note(lane, _COPYING, _Held(count, size, DEAD_LETTERS_HELD_MAX))
        self._copying.set(sum(held[_COPYING].records for held in self._held.values() if _COPYING in held))

    def _note(self, lane: str, waits: str, changed: _Held) -> None:
        held = self._held.setdefault(lane, {})
        held[waits] = changed
        if not (lane in self._lanes or (lane, waits) in self._logged or self._why(lane, waits, changed)):
            return  # as most often
        self._memory.block(lane, any(each.records >= each.most for each in held.values()))
        reasons = {waits: self._why(lane, waits, each) for waits, each in held.items()}
        if found := "; ".join(filter(None, reasons.values())):
            self._lanes[lane] = found
        else:
            self._lanes.pop(lane, None)
        self._level.set(len(self._lanes))
        self._log(lane, waits, reasons[waits], changed)

    def _why(self, lane: str, waits: str, held: _Held) -> str:
        if held.records >= held.most:
            return f"{held.records:,} records of lane {lane} {waits}"
        if self._memory.kept_full_by(lane, held.size):
            return f"the memory of lane {lane} is full of {held.records:,} records that {waits}"
        return ""

    def _log(self, lane: str, waits: str, reason: str, held: _Held) -> None:
        """Says so once, and anew after it was half over."""
        if reason and (lane, waits) not in self._logged:
            self._logged.add((lane, waits))
            _log.warning("%s: its fetching pauses", reason)
        elif not reason and held.records < held.most // 2:
            self._logged.discard((lane, waits))
