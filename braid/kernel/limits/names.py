"""Bounds and timeouts of names and shapes, each with its why. Seconds unless named."""

from typing import Final

# --- names and shapes
PARTITIONS_MAX: Final = 10_000  # a channel; beyond this one topic is the wrong shape
LANES_MAX: Final = 16  # a stream; lanes are qualities of service, not keys
PAGE_SIZE_MAX: Final = 1_000  # items in one List answer
