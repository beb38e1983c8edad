"""Partitions whose committed offset went back, though nobody asked Braid for it. Pure.

A reset is recorded by the assigner before any offset changes: when a group's count of resets changes, all that is known
of its offsets is forgotten.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from braid.kernel.limits.lagmon.alerts import ALERT_REWIND_KEPT_MAX, ALERT_REWIND_RECORDS, ALERT_REWIND_SECONDS
from services.lagmon.alerts.decisions.facts import GroupFacts, LaneKey
from services.lagmon.model.lag import LagRow


class _Offset(NamedTuple):
    """The highest committed offset of a partition, and since when a commit lies far below it; None for none."""

    highest: int
    since: float | None = None


class Rewound(NamedTuple):
    """The partitions of one lane that went back, and by how many records in all."""

    partitions: tuple[int, ...]
    records: int


class Rewinds:
    """The highest committed offset of every partition."""

    def __init__(self) -> None:
        self._offsets: dict[tuple[str, str, int], _Offset] = {}
        self._resets: dict[str, int] = {}
        self._found: dict[LaneKey, Rewound] = {}

    def observe(self, rows: Iterable[LagRow], groups: Mapping[str, GroupFacts], now: float) -> None:
        """Takes the committed offsets of a moment at which everything was read.

        Beyond `ALERT_REWIND_KEPT_MAX` partitions, further ones are not watched.
        """
        resets = {name: group.resets for name, group in groups.items()}
        reset = {name for name, count in resets.items() if self._resets.get(name, count) != count}
        self._resets = resets
        offsets: dict[tuple[str, str, int], _Offset] = {}
        self._found = {}
        for row in rows:
            if row.foreign or not row.key.stream or len(offsets) >= ALERT_REWIND_KEPT_MAX:
                continue
            key = (row.key.group, row.key.topic, row.key.partition)
            before = self._offsets.get(key) if row.key.group not in reset else None
            if row.stale or row.committed_offset < 0:
                if before is not None:
                    offsets[key] = before
                continue
            offsets[key] = _after(before, row.committed_offset, now)
            if offsets[key].since is not None:
                self._add(row, offsets[key].highest)
        self._offsets = offsets

    def rewound(self, lane: LaneKey) -> Rewound | None:
        """Returns what of a lane went back lately and was not done again yet; None for nothing."""
        return self._found.get(lane)

    def _add(self, row: LagRow, highest: int) -> None:
        lane = LaneKey(row.key.stream, row.key.lane, row.key.group)
        known = self._found.get(lane, Rewound((), 0))
        partitions, records = (*known.partitions, row.key.partition), highest - row.committed_offset
        self._found[lane] = Rewound(partitions, known.records + records)


def _after(before: _Offset | None, committed: int, now: float) -> _Offset:
    """Returns what is known after one more commit. What went back long ago is where the group begins now."""
    if before is None or committed > before.highest - ALERT_REWIND_RECORDS:
        return _Offset(max(committed, before.highest if before is not None else committed))
    since = now if before.since is None else before.since
    return _Offset(committed) if now - since >= ALERT_REWIND_SECONDS else _Offset(before.highest, since)
