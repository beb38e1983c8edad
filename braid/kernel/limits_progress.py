"""Bounds and timeouts of progress beside commits, each with its why; seconds unless named.

A part of `limits.py`, which would be too long with them.
"""

from typing import Final

# --- progress that does not fit its commit
SPILL_BYTES_MAX: Final = 1 << 18  # of progress in a record of its own: some 20 M offsets with one in a hundred undone
SPILL_SECONDS: Final = 2.0  # that a commit waits for such a record; then it claims what fits
SPILL_RETRY_SECONDS: Final = 10.0  # after one could not be written: commits go on without meanwhile
SPILL_READ_SECONDS: Final = 5.0  # that a restore waits for one; then it goes on with what the commit itself says
SPILL_PARTITIONS: Final = 8  # of the topic of such records
SPILL_COPIES: Final = 3  # of it, where the cluster has so many brokers
SPILL_COMPACTION_LAG_MS: Final = 600_000  # what a commit of unknown outcome points to outlives its repetition
SPILL_RETENTION_MS: Final = 2_592_000_000  # 30 days, or twice as long as commits are kept: what no tombstone meets
