"""Bounds and timeouts of the event-store table, each with its reason. Seconds unless a name says otherwise."""

from typing import Final

# --- pipelines: the event-store table
TABLE_SEEN_BUCKETS: Final = 32  # of a new table; a batch rewrites the seen sets of the buckets it touches
TABLE_SEEN_BLOCK_ENTRIES: Final = 256  # chunks of a seen set held at once: 2 MiB at most
TABLE_RUN_BYTES: Final = 32 << 20  # rows a task gathers, sorts and writes as one file; it needs about three times that
TABLE_ROW_GROUP_BYTES: Final = 4 << 20  # what a reader must decode at once
TABLE_BLOCK_BYTES: Final = 1 << 20  # rows held of each file while sorted files are merged
TABLE_MERGE_FILES_MAX: Final = 32  # files merged at once; more are merged in passes
TABLE_COMPACT_FILES_MIN: Final = 8  # small files of about one size before they become one
TABLE_COMPACT_FILES_MAX: Final = 16  # read by one compaction
TABLE_COMPACT_BYTES_MAX: Final = 256 << 20  # read by one compaction, so that a batch waits seconds at most
TABLE_SMALL_BYTES: Final = 64 << 20  # larger files are left alone
TABLE_RETIRED_SECONDS: Final = 300.0  # replaced files stay for readers that have them open
TABLE_MANIFESTS_KEPT: Final = 8  # older ones are nobody's
TABLE_SWEEP_COMMITS: Final = 64  # between two sweeps for files no commit ever named
SPARK_ARROW_BATCH_BYTES: Final = 8 << 20  # of rows handed to a Python worker at once
PIPELINE_BATCH_ROWS: Final = 200_000  # of one micro-batch, so that a kill repeats seconds of work, not minutes
PIPELINE_POLL_SECONDS: Final = 0.2  # between two looks at a query
PIPELINE_RESTARTS_MAX: Final = 8  # failures of a query in a row without a batch between; then the job ends
PIPELINE_RESTART_SECONDS: Final = (0.5, 10.0)  # first and longest wait before a query is started again
PIPELINE_SLICES_MAX: Final = 10_000  # of one reprocessing; each is a Spark job of its own
PIPELINE_SETTLED_SECONDS: Final = 600.0  # no slice ends later than so long ago: late records would fall between two
SPARK_TASK_ATTEMPTS: Final = 4  # Spark's own default where it has executors; alone on a machine it would be one
