"""Bounds and timeouts of planned ranges, for batch jobs, each with its reason. Seconds unless a name says otherwise."""

from typing import Final

# --- Spark
SPARK_PARTITION_BYTES: Final = 4 << 20  # of one partition in one fetch: a task reads one partition at a time
SPARK_WAIT_NOTICE_SECONDS: Final = 10.0  # between two log lines of a task that waits
SPARK_DIAGNOSE_SECONDS: Final = 2.0  # a task without progress looks so often whether its range exists still
SPARK_SHORT_LOG_SECONDS: Final = 10.0  # a log may end too early for so long: a new leader knows its end late
SPARK_NO_BATCH_SECONDS: Final = 10.0  # bytes that are no batch for so long are quarantined: a broker may mend sooner
SPARK_ENDS_FRESH_SECONDS: Final = 0.03  # a log's end is not asked for again within it; Spark polls every 10 ms
SPARK_ENDS_WAIT_SECONDS: Final = 0.25  # planning waits so long for a cluster's ends, then plans without it
SPARK_SETTLE_SECONDS: Final = 10.0  # `availableNow` waits so long for its share of the group's leases
SPARK_SETTLE_POLL_SECONDS: Final = 0.1  # between two looks at them
SPARK_CLOSE_SECONDS: Final = 5.0  # a planner that must end gives its leases back within it
