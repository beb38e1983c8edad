"""Ranges of offsets over a topic's partitions, as people name them: `0:17-23,1:0-`. Pure."""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from braid.kernel.errors import Invalid

OPEN: Final = -1  # nobody knows where it ends
_WRITTEN: Final = re.compile(r"(\d{1,10}):(\d{1,19})-(\d{1,19})?")


class OffsetRange(NamedTuple):
    """Offsets of a partition, both ends included; `last` may be `OPEN`. Written `0:17-23`, or `0:17-`."""

    partition: int
    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.partition}:{self.first}-{self.last if self.last != OPEN else ''}"


OffsetRanges = tuple[OffsetRange, ...]


def ranges_text(ranges: Iterable[OffsetRange]) -> str:
    """Ranges as people write them: `0:17-23,1:0-`."""
    return ",".join(map(str, ranges))


def parse_ranges(text: str, field: str) -> OffsetRanges:
    """Reads what `ranges_text` writes. Raises `Invalid`."""
    found: list[OffsetRange] = []
    for part in filter(None, (each.strip() for each in text.split(","))):
        match = _WRITTEN.fullmatch(part)
        if match is None:
            raise Invalid(f"{part!r} is no range of offsets", field=field, remedy="write PARTITION:FIRST-LAST,…")
        found.append(OffsetRange(int(match[1]), int(match[2]), int(match[3]) if match[3] else OPEN))
    return tuple(found)


def united(ranges: Iterable[OffsetRange]) -> OffsetRanges:
    """Returns the same offsets as the fewest ranges, in order."""
    made: list[OffsetRange] = []
    for each in sorted(ranges):
        before = made[-1] if made else None
        if before is None or before.partition != each.partition or OPEN != before.last < each.first - 1:
            made.append(each)
        else:
            last = OPEN if OPEN in (before.last, each.last) else max(before.last, each.last)
            made[-1] = before._replace(last=last)
    return tuple(made)
