"""Expiry of archived objects: selects those of a history that are past retention at a given time. Pure."""

from collections.abc import Iterable

from braid.archive.names import BaseName, SegmentName


def expired(found: Iterable[SegmentName | BaseName], before_ms: int) -> list[SegmentName | BaseName]:
    """Objects of one history that no answer about a moment from `before_ms` on needs.

    The newest base from before that moment is kept, and every event after it: answers fold from there.
    """
    names = list(found)
    old = [name for name in names if isinstance(name, BaseName) and name.time_ms < before_ms]
    if not old:
        return []
    needed = max(old, key=lambda name: name.sequence).sequence
    return [
        name
        for name in names
        if (isinstance(name, BaseName) and name.sequence < needed)
        or (isinstance(name, SegmentName) and name.last <= needed and name.latest_ms < before_ms)
    ]
