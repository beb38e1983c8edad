"""Bounds and timeouts of the data source, each with its reason. Seconds unless a name says otherwise."""

from typing import Final

# --- Spark
SPARK_READ_RECORDS: Final = 10_000  # rows of one Arrow batch: enough to spread its cost, small beside a heap
SPARK_TASK_ROWS_MIN: Final = 2_000  # small ranges share a streaming task up to it: a task costs tens of milliseconds
SPARK_KEPT_PIECE_BYTES: Final = 32 << 20  # freed pieces up to it are used again: above one answer, and glibc's most
SPARK_KEPT_BYTES: Final = 64 << 20  # of freed memory at the end of a Python worker's heap; what is above goes back
SPARK_READERS_MAX: Final = 32  # open clients of one Python worker, one a topic; the one used longest ago is closed
SPARK_CLUSTER_WAIT_SECONDS: Final = 3_600.0  # a task waits so long for a cluster that is away; an outage is shorter
SPARK_RETIRED_LOOK_SECONDS: Final = 60.0  # between two looks for channels a checkpoint need not name any more
SPARK_SKIP_SPANS_MAX: Final = 64  # done ranges kept with a batch; with more of them, rows are repeated
SPARK_WRITE_RECORDS: Final = 2_000  # records sent and not acknowledged by one writing task
SPARK_PLAN_RETRY_SECONDS: Final = 1.0  # between attempts to reach a registry or cluster that planning needs
SPARK_PATHWAYS_MAX: Final = 4  # queries whose pathways one Python worker reports; the one used longest ago is closed
SPARK_PATHWAY_RETRY_SECONDS: Final = 10.0  # between attempts to reach a mesh for reports: as often as one is made
