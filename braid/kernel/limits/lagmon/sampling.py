"""Bounds and timeouts of lag, each with its reason. Seconds unless a name says otherwise."""

from typing import Final

# --- lagmon
OFFSET_PAIRS_MAX: Final = 500_000  # groups and topics remembered of one offset log; then all are read again
OFFSET_DAMAGE_KEPT: Final = 16  # places of unreadable records kept for people
LAG_CHECKPOINT_SECONDS: Final = 60.0  # between two checkpoints of a cluster's commits; a restart reads as much again
LAG_CHECKPOINT_AGE_SECONDS: Final = 600.0  # an older one is not used: compaction may have removed tombstones since
LAG_CHECKPOINT_BYTES_MAX: Final = 512 << 20  # a larger one is not written, and not read
LAG_FETCH_RECORDS: Final = 5_000  # of the offset log at once; reducing them takes a few milliseconds of the loop
LAG_FETCH_BYTES: Final = 1 << 20  # of one partition of the offset log at once
LAG_ENDS_SECONDS: Final = 0.5  # between two looks at the ends of logs; an unknown age is wrong by no more
LAG_NEWS_SECONDS: Final = 0.05  # to the next look at ends that nobody looked at yet: what comes together is one look
LAG_PAUSE_FACTOR: Final = 4  # work in rounds that took long is followed by a pause so many times as long
LAG_LOOK_PAUSE_SECONDS_MAX: Final = 2.5  # after a look of alerts: windows count no time between looks 5 s apart
LAG_PROGRESS_MAX: Final = 1_000_000  # groups and partitions of one cluster; more are counted, not followed
LAG_PROGRESS_SPANS_MAX: Final = (
    1_000  # ranges of each kind in an answer about one partition; a commit has room for fewer
)
LAG_ENDS_BATCH: Final = 5_000  # partitions asked for in one call
LAG_STARTS_SECONDS: Final = 10.0  # between two looks at the starts of logs; only retention moves them
LAG_END_SAMPLES_MAX: Final = 64  # remembered ends of one log; the older half is thinned out beyond it
LAG_TOPICS_SECONDS: Final = 5.0  # between two looks whether topics are still there, and the same
LAG_STALE_SECONDS: Final = 3.0  # an end seen longer ago is shown as stale
LAG_GUESS_SECONDS: Final = 3.0  # between two looks at an end, to guess when a record came between: more says too little
LAG_STALL_SECONDS: Final = 1.5  # undone records and no commit for so long: three commit intervals
LAG_PROBES_AT_ONCE: Final = 64  # records read at once for their time
LAG_PROBE_SECONDS: Final = 1.0  # records read for their time arrive within it, or are tried again later
LAG_PROBE_AGAIN_SECONDS: Final = 10.0  # this
LAG_QUIET_SECONDS: Final = (
    2.0  # nothing more to read for so long counts as caught up: an open transaction holds the end
)
LAG_GROUPS_SECONDS: Final = 1.0  # between two looks at the assigner's groups
LAG_CLUSTERS_SECONDS: Final = 1.0  # between two looks at the registry's clusters
LAG_SLICE_ROWS: Final = 2_000  # computed in a row; then the loop gets its turn
LAG_COLUMN_ROWS: Final = 20_000  # computed in a row as columns: some 10 ms; then the loop gets its turn
LAG_COSTLY_ROWS: Final = 200  # read one by one in a row, their envelopes decoded: some 10 ms; then the same
LAG_CHECKPOINT_ROWS: Final = 5_000  # of a checkpoint taken in a row: some 10 ms; then the same
LAG_SLICE_NAMES: Final = 5_000  # groups' lanes named in a row: some 5 ms; then the loop gets its turn
LAG_ROWS_MADE_MAX: Final = LAG_SLICE_ROWS  # rows of a table that are made once for all who read them
LAG_TABLE_SECONDS: Final = 0.1  # one computed table answers everybody for so long
LAG_TABLE_SLOW_SECONDS: Final = 0.1  # of computing a table; lists wait for no longer one
LAG_TABLE_LATE_SECONDS: Final = 3.0  # for which such a table answers lists, while the next one is computed
LAG_TABLE_LATE_FACTOR: Final = 5  # or for five times its computing time, if longer: the next begins after twice that
LAG_TABLE_FACTOR: Final = 2  # or twice as long as it took to compute, so that pages of a long list come from few tables
LAG_RENEWED_ROWS_MAX: Final = 50_000  # of named groups, computed for one answer in some 30 ms; more come from the table
LAG_METRICS_SECONDS: Final = 1.0  # between two states of the gauges
LAG_METRICS_ROWS_MAX: Final = 20_000  # rows of one gauge; more would choke who scrapes them
LAG_WATCH_MS: Final = (100, 1_000, 60_000)  # shortest, usual and longest interval of a watch
LAG_WATCH_ROWS_MAX: Final = 2_000  # rows in one answer of a watch; more follow in further ones
