"""Counts calls that may repeat without bound, so that records of them are few whatever a caller does.

The first call of a kind is recorded at once, its repeats as a count that is written again ever more rarely. Whoever
begins too many counts in a window has its further calls in one count, and only those.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from braid.kernel.audit.calls import Alike, Call, CallRecorded
from braid.kernel.limits.access.audit import (
    AUDIT_REPEAT_SECONDS,
    AUDIT_ROWS_MAX,
    AUDIT_ROWS_PER_PRINCIPAL,
    AUDIT_WINDOW_SECONDS,
)


@dataclass(slots=True)
class _Row:
    """A count that goes on."""

    record: CallRecorded
    began: float
    due: float
    wait: float
    changed: bool = True


class CallCounts:
    """The counts of one replica. Times are seconds of a clock that never steps."""

    def __init__(self, rows_max: int = AUDIT_ROWS_MAX, rows_per_principal: int = AUDIT_ROWS_PER_PRINCIPAL) -> None:
        self._rows_max = rows_max
        self._rows_per_principal = rows_per_principal
        self._rows: dict[Alike, _Row] = {}
        self._of_owner: Counter[str] = Counter()

    def add(self, call: Call, now: float) -> None:
        """Counts a call."""
        row = self._rows.get(call.alike)
        if row is None and not self._has_room(call.owner):
            call = call.without_details()
            if not self._of_owner[call.owner]:  # even this one would be one more than all may have
                call = replace(call, principal="", authenticated=False)
            row = self._rows.get(call.alike)
        if row is None:
            self._begin(call, now)
            return
        row.record = CallRecorded(call, row.record.count + 1, row.record.first_ms)
        row.changed = True

    def due(self, now: float) -> Sequence[CallRecorded]:
        """Counts that are to be written now. Those of an earlier window end with that."""
        found: list[CallRecorded] = []
        for alike, row in list(self._rows.items()):
            over = now - row.began >= AUDIT_WINDOW_SECONDS
            if row.changed and (over or now >= row.due):
                found.append(row.record)
                row.changed = False
                row.due = now + row.wait
                row.wait = min(2 * row.wait, AUDIT_REPEAT_SECONDS[1])
            if over:
                self._end(alike, row)
        return found

    def all_changed(self) -> Sequence[CallRecorded]:
        """Every count that has changed since it was written, for the last time."""
        found = [row.record for row in self._rows.values() if row.changed]
        for row in self._rows.values():
            row.changed = False
        return found

    def _has_room(self, owner: str) -> bool:
        mine = self._of_owner[owner]
        return mine < self._rows_per_principal and len(self._rows) < self._rows_max

    def _begin(self, call: Call, now: float) -> None:
        self._rows[call.alike] = _Row(CallRecorded(call, 1, call.time_ms), now, now, AUDIT_REPEAT_SECONDS[0])
        self._of_owner[call.owner] += 1

    def _end(self, alike: Alike, row: _Row) -> None:
        del self._rows[alike]
        owner = row.record.call.owner
        self._of_owner[owner] -= 1
        if not self._of_owner[owner]:
            del self._of_owner[owner]
