"""Bounds of reassignments: copies of partitions in use that are added or taken away."""

from typing import Final

COPIES_LOOK_SECONDS: Final = 0.5  # between two looks at a reassignment under way
COPIES_RETRY_SECONDS: Final = 5.0  # after one that could not go on: a broker is away, a request failed
REASSIGNED_AT_ONCE: Final = 20  # partitions of a cluster on their way because of us
REASSIGN_BYTES_PER_S: Final = 32 << 20  # that each broker may send and take for new copies, unless it is told otherwise
