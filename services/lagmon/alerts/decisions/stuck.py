"""Partitions whose base offset has not moved for long although records are undone. Pure."""

from collections.abc import Iterable
from typing import NamedTuple

from braid.kernel.limits.lagmon.alerts import ALERT_STUCK_KEPT_MAX, ALERT_STUCK_SECONDS
from services.lagmon.model.lag import LagRow


class _Base(NamedTuple):
    """A base offset, and since when it is known to be there."""

    offset: int
    since: float


class BaseOffsets:
    """The base offset of every partition that has undone records."""

    def __init__(self) -> None:
        self._bases: dict[tuple[str, str, int], _Base] = {}

    def observe(self, rows: Iterable[LagRow], now: float) -> frozenset[tuple[str, str, int]]:
        """Notes the base offsets of a moment, and returns those that have not moved for long.

        Beyond `ALERT_STUCK_KEPT_MAX` partitions, further ones are not watched.

        Returns:
            (group, topic, partition) of each.
        """
        bases: dict[tuple[str, str, int], _Base] = {}
        for row in rows:
            if not row.lag_records or row.foreign or not row.key.stream:
                continue
            key = (row.key.group, row.key.topic, row.key.partition)
            before = self._bases.get(key)
            if before is not None and (row.stale or before.offset == row.committed_offset):
                bases[key] = before
            elif len(bases) < ALERT_STUCK_KEPT_MAX:
                bases[key] = _Base(row.committed_offset, now)
        self._bases = bases
        return frozenset(key for key, base in bases.items() if now - base.since >= ALERT_STUCK_SECONDS)
