"""Makes a Spark Python worker keep the memory that it frees.

Every fetch and every batch of rows is a few megabytes that are freed a moment later. The C library (glibc) gives them
back to the kernel, which clears the same pages again for the next fetch. As measured, that costs more than receiving
the bytes.
"""

import ctypes
import sys
from typing import Final

from braid.spark.limits import SPARK_KEPT_BYTES, SPARK_KEPT_PIECE_BYTES

_TRIM_THRESHOLD: Final = -1  # of mallopt(3)
_MMAP_THRESHOLD: Final = -3
_kept: list[bool] = []


def keep_freed_memory() -> bool:
    """Tells glibc to keep freed memory, up to a bound, in this process; returns whether that worked.

    Done once a process.
    """
    if not _kept:
        _kept.append(_told())
    return _kept[0]


def _told() -> bool:
    """Calls `mallopt`. Without it (macOS, Windows), or if it refuses (musl), nothing changes."""
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    largest = mallopt(_MMAP_THRESHOLD, SPARK_KEPT_PIECE_BYTES)
    return bool(largest and mallopt(_TRIM_THRESHOLD, SPARK_KEPT_BYTES))
