"""Ranges of offsets as people read and write them."""

from collections.abc import Iterable

from braid.api.registry.v1.stream_pb2 import OffsetRange
from braid.kernel import offset_ranges


def offsets_text(ranges: Iterable[OffsetRange]) -> str:
    """Ranges as `braid close` takes them: `0:17-23`."""
    found = (offset_ranges.OffsetRange(each.partition, each.first, each.last) for each in ranges)
    return offset_ranges.ranges_text(found)
