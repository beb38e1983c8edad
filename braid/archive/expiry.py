"""Expiry of archived objects: selects those of a history that are past retention at a given time. Pure."""

from collections.abc import Iterable, Mapping

from braid.archive.names import BaseName, SegmentName


def expired(found: Iterable[SegmentName | BaseName], before_ms: int) -> list[SegmentName | BaseName]:
    """Objects of one history that no answer about a moment at or after `before_ms` needs.

    The newest base from before that moment is kept, and every event after it: answers fold from there. A base that a
    restored store may have forgotten does not count as one: a later incarnation has its own events at that place.
    """
    names = list(found)
    starts = _starts(names)
    old = [
        name
        for name in names
        if isinstance(name, BaseName) and name.time_ms < before_ms and name.sequence < _forgotten_from(name, starts)
    ]
    if not old:
        return []
    needed = max(old, key=lambda name: name.sequence).sequence
    return [
        name
        for name in names
        if (isinstance(name, BaseName) and name.sequence < needed)
        or (isinstance(name, SegmentName) and name.last <= needed and name.latest_ms < before_ms)
    ]


def _starts(names: Iterable[SegmentName | BaseName]) -> Mapping[int, int]:
    """The first event of each incarnation's segments."""
    starts: dict[int, int] = {}
    for name in names:
        if isinstance(name, SegmentName):
            starts[name.incarnation] = min(name.first, starts.get(name.incarnation, name.first))
    return starts


def _forgotten_from(base: BaseName, starts: Mapping[int, int]) -> float:
    """The first event that a later incarnation than the base's may have in another version."""
    later = (first for incarnation, first in starts.items() if incarnation > base.incarnation)
    return min(later, default=float("inf"))
