"""Bounds of progress and of the room in a commit, each with its reason. Seconds unless a name says otherwise."""

from typing import Final

# --- progress and the commit envelope
ENVELOPE_UNITS_DEFAULT: Final = 4_096  # Kafka's default offset.metadata.max.bytes, counted in UTF-16 units
ENVELOPE_UNITS_MAX: Final = 8_192  # longer metadata is not decoded: bounds what hostile metadata can cost
ENVELOPE_ATTEMPTS_MAX: Final = 16_384  # counts in one envelope; a few bytes could name any number of them
ENVELOPE_CURSORS_MAX: Final = 16  # a live head and some backlogs; each is merged into the claims
TIMERS_MAX: Final = 100_000  # keys on one timer wheel

# --- rejected records
REJECTED_RANGES_KEPT_MAX: Final = 64  # of a partition, the newest: every commit repeats them, some 4 bytes each
CLI_REJECTED_FETCHED_MAX: Final = 10_000  # that `get rejected --fetch` or `dlq promote` reads in one run
CLI_LEASES_SHOWN: Final = 20  # of a reset, one a line; JSON names all
CLI_SPLIT_SECONDS: Final = 10.0  # that `split` waits for the holders of leases to say what they did
CLI_RESUME_SECONDS: Final = 5.0  # `braid resume` waits so long for members to say that they go on

# --- progress that does not fit its commit
SPILL_BYTES_MAX: Final = 1 << 18  # of progress in a record of its own: some 20 M offsets with one in a hundred undone
SPILL_SECONDS: Final = 2.0  # that a commit waits for such a record; then it claims what fits
SPILL_RETRY_SECONDS: Final = 10.0  # after one could not be written: commits go on without meanwhile
SPILL_READ_SECONDS: Final = 5.0  # that a restore waits for one; then it goes on with what the commit itself says
SPILL_PARTITIONS: Final = 8  # of the topic of such records
SPILL_COPIES: Final = 3  # copies of the spill topic, where the cluster has so many brokers
SPILL_COMPACTION_LAG_MS: Final = 600_000  # what a commit of unknown outcome points to outlives its repetition
SPILL_RETENTION_MS: Final = 2_592_000_000  # 30 days, or twice as long as commits are kept: what no tombstone meets
