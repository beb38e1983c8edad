"""Bounds and timeouts of dead letters and their replays, each with its reason. Seconds unless a name says otherwise."""

from typing import Final

# --- dlq
DLQ_KEY_BYTES_MAX: Final = 1 << 10  # of a key in the index; enough to find it by
DLQ_HEADERS_MAX: Final = 32  # headers of a letter in the index
DLQ_HEADER_BYTES_MAX: Final = 256  # of a header's name, and of its value, in the index
DLQ_TEXT_BYTES_MAX: Final = 2 << 10  # any other text of a letter in the index; as much as the SDK writes
DLQ_VALUE_BYTES_MAX: Final = 1 << 20  # of a value in one answer, which is for reading
DLQ_SCAN_LETTERS: Final = 1_000  # read from the index at once; other calls get their turn in between
DLQ_SCAN_ROWS: Final = 5_000  # of the index looked through at once for a filtered list
DLQ_SCAN_SECONDS: Final = 2.0  # of scanning; then a filtered list stops, says so, and continues with the next page
DLQ_COUNTS_KEPT: Final = 1_000  # streams whose number of letters is kept until the index changes
DLQ_EXAMPLES: Final = 5  # letters a dry run shows
DLQ_LOOK_SECONDS: Final = 1.0  # between two looks at where logs begin and end
DLQ_COUNT_SECONDS: Final = 5.0  # between two counts for the metrics
DLQ_COPY_SECONDS: Final = 5.0  # reading records back from a cluster that answers
DLQ_UNREADABLE_SECONDS: Final = 30.0  # a copy that does not come for so long from a cluster that answers is left out
DLQ_MEMBER_RETRY_SECONDS: Final = 1.0  # before the group is joined again
DLQ_INDEX_POLL_SECONDS: Final = 0.05  # between two looks whether the index holds a record
DLQ_BUSY_SECONDS: Final = 5.0  # waiting for another process's write to the same index
DLQ_PROOF_SECONDS: Final = 3.0  # to find out which letters of a page were handled; the others stay replayed
DLQ_PROOF_CALL_SECONDS: Final = 1.0  # of that, for the answer of the registry, the assigner or one cluster
DLQ_RETENTION_KEPT_SECONDS: Final = (
    5.0  # a stream's retention is asked for again: the registry answers, so routes are known
)
DLQ_CAUGHT_UP_SECONDS: Final = 0.5  # waiting until the index holds what lies in the dlq lane when commits were read
DLQ_EVENTS_READ: Final = 100  # events of a job read at once, of up to `REPLAY_BATCH_LETTERS_MAX` letters each
DLQ_EVENTS_WAITING_MAX: Final = (
    64  # events of all jobs waiting for the index; beyond, they are read from the store again
)
REPLAY_BATCH_LETTERS_MAX: Final = 500  # what a crash can repeat
REPLAY_BATCH_BYTES_MAX: Final = 16 << 20  # records of one batch in memory
REPLAY_BATCH_SECONDS: Final = 0.5  # of a capped replay; so soon it pauses
REPLAY_LOOK_SECONDS: Final = 10.0  # between two looks at the logs and groups that a job sends to
REPLAY_LOOK_WAIT_SECONDS: Final = 1.0  # for such a look; letters sent to a cluster that does not answer stay replayed
REPLAY_RATE_MAX: Final = 1_000_000.0  # records a second; more is no cap
REPLAY_RETRY_SECONDS: Final = 1.0  # before what was not acknowledged is sent again
REPLAYS_OF_ONE_RECORD_MAX: Final = 5  # replays of one record; after that its handler does not get better by itself
REPLAYS_OPEN_MAX: Final = 64  # jobs that are not over
REPLAYS_RUNNING_MAX: Final = 8  # at once; the others wait their turn
REPLAYS_SHOWN_MAX: Final = 8  # jobs named beside a letter
