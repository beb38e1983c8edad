"""Chooses which small files are merged into one. Pure.

Size tiers, as in log-structured merge trees (O'Neil et al. 1996): files of about one size (within a factor of eight)
are merged eight to sixteen at a time. So a row is rewritten once per tier, and no table has many small files.
"""

from collections.abc import Sequence
from typing import Final

from pipelines.limits import (
    TABLE_COMPACT_BYTES_MAX,
    TABLE_COMPACT_FILES_MAX,
    TABLE_COMPACT_FILES_MIN,
    TABLE_SMALL_BYTES,
)
from pipelines.table.manifest import DataFile

_TIER_BITS: Final = 3
_FIRST_TIER_BYTES: Final = 1 << 19


def tier(size: int) -> int:
    """Returns the size class of a file: below 512 KiB 0, below 4 MiB 1, below 32 MiB 2, …"""
    return ((max(size, 1) // _FIRST_TIER_BYTES).bit_length() + _TIER_BITS - 1) // _TIER_BITS


def to_compact(files: Sequence[DataFile]) -> tuple[DataFile, ...]:
    """Returns files to merge into one now; none when there are few of each size."""
    tiers: dict[int, list[DataFile]] = {}
    for file in files:
        if file.bytes < TABLE_SMALL_BYTES:
            tiers.setdefault(tier(file.bytes), []).append(file)
    for _, alike in sorted(tiers.items()):
        if len(alike) >= TABLE_COMPACT_FILES_MIN and len(chosen := _within_bytes(alike)) > 1:
            return chosen
    return ()


def _within_bytes(alike: Sequence[DataFile]) -> tuple[DataFile, ...]:
    chosen: list[DataFile] = []
    total = 0
    for file in sorted(alike, key=lambda each: each.bytes)[:TABLE_COMPACT_FILES_MAX]:
        total += file.bytes
        if total > TABLE_COMPACT_BYTES_MAX:
            break
        chosen.append(file)
    return tuple(chosen)
