"""Bounds and timeouts of the SDK, each with its reason. Seconds unless a name says otherwise."""

from typing import Final

# --- SDK
PRODUCER_BUFFER_BYTES: Final = 64 << 20
DELIVERY_TIMEOUT_SECONDS: Final = 120.0
RECEIPTS_CHANNELS_MAX: Final = 64  # channels left whose last receipts a producer keeps to tell a new registry
ROUTE_GRACE_SECONDS: Final = 0.2  # after failing a dead channel's sends, before sending again elsewhere
SEALED_RETRY_SECONDS: Final = 1.0  # a channel on the route that is sealed is tried again after so long
PLANNED_MOVE_PREPARE_SECONDS: Final = 2.0  # for the new channels' connections, while the old ones carry on
PLANNED_MOVE_WAIT_SECONDS: Final = 5.0  # for the old channel's acknowledgements in a planned move
PLANNED_MOVE_SILENCE_SECONDS: Final = 2.0  # without an acknowledgement in a planned move; then the old channel is left
COMMIT_INTERVAL_SECONDS: Final = 0.5
COMMIT_RECORDS_MAX: Final = 5_000  # done since the last commit
IN_FLIGHT_BYTES_MAX: Final = 64 << 20  # fetched, not done
DEAD_LETTER_HEADERS_BYTES_MAX: Final = 12 << 10  # beyond its record; with framing it fits BATCH_OVERHEAD_BYTES
RECOMMIT_SECONDS: Final = 30.0  # idle progress is committed again: a stale holder may have overwritten it
LANE_SHARE_MAX: Final = 1_000  # that an assigner may give a lane: a turn of it is a few thousand records
RECORDS_PER_SHARE: Final = 4  # handed out of a lane in a row, for each unit of its share
HANDLERS_PER_LANE_MIN: Final = 2  # one that a lane keeps and one it lends; with fewer, all work for all lanes in turns
MEMORY_KEPT: Final = 0.25  # of a lane's part: the rest is lent while it uses less than this, which holds its next fetch
RECORDS_BETWEEN_YIELDS: Final = 128  # records handed out without waiting before the time is checked
YIELD_SECONDS: Final = 0.005  # of handing out without waiting; then heartbeats and other tasks get a turn
RECORDS_BETWEEN_YIELDS_MAX: Final = 2_048  # records handed out at most until other tasks get a turn
PARKED_RETRIES_MAX: Final = 10_000  # of a lane; then its intake waits
RETRY_BUDGET_SHARE: Final = 0.2  # of what is done, as in Finagle: one retry for five records is no storm
RETRY_BUDGET_PER_SECOND: Final = 10.0  # as in Finagle: a lane where nothing is done goes on trying
RETRY_BUDGET_SAVED_SECONDS: Final = 10.0  # of that, for a burst after a calm time
CIRCUIT_RATIO: Final = 0.9  # nearly all: what else is done may not have needed the dependency
CIRCUIT_FAILURES: Final = 20  # fewer say little
CIRCUIT_SECONDS: Final = 5.0  # a restart of a dependency is often shorter
CIRCUIT_PROBE_SECONDS: Final = (1.0, 30.0)  # first and longest wait between two records of a lane that stopped
PARKED_TIMERS_MAX: Final = 4_000_000  # records parked by hand fill 1 GiB, the memory bound, long before
DEAD_LETTER_TRACEBACK_BYTES_MAX: Final = 6 << 10
DEAD_LETTER_CUT_LINES: Final = (3, 4)  # first and last lines of a traceback that is cut: where it began and ended
DEAD_LETTER_CUT_LINE_CHARACTERS_MAX: Final = 200  # of a line of a traceback that is cut
DEAD_LETTER_HASHED_ERRORS_MAX: Final = 100  # causes and errors in groups that a traceback's digest looks at
DEAD_LETTER_TEXT_BYTES_MAX: Final = 2 << 10  # any other text in a dead letter's headers
RECORD_BYTES_MAX_DEFAULT: Final = 1 << 20
DETACHED_SECONDS_MAX: Final = 900.0  # a member cut off so long stops beside who has its leases now; outages end sooner
RECONNECT_SECONDS: Final = (0.05, 1.0)  # first and longest pause before a session is opened anew; elections last two
FIRST_ROUTE_SECONDS: Final = 15.0  # opening a producer or consumer waits so long for the mesh
SEND_ERRORS_AFTER_SECONDS: Final = 0.75  # a record unacknowledged so long is evidence against its cluster
HASHED_KEYS_MAX: Final = 8_192  # keys whose hash a process remembers: they come again and again
HASHED_KEY_BYTES_MAX: Final = 64  # of a key that is remembered
PRODUCER_SWEEP_SECONDS: Final = 0.1  # how often delivery timeouts and stalls are looked for
PRODUCER_LATE_SECONDS: Final = 0.25  # a sweep that is so late blames no cluster: its process was stopped or busy
PRODUCER_CLOSE_SECONDS: Final = 10.0  # leaving a producer's context waits so long for acknowledgements
PRODUCER_TELL_SECONDS: Final = 1.0  # closing a producer waits so long for a registry to report its receipts to
JOIN_SILENCE_SECONDS_MIN: Final = 1.0  # an assigner silent for so long, and for a lease, may be frozen: ask who leads
EXCLUSIVE_MARGIN: Final = 0.1  # of the lease: an exclusive member stops so long before its deadline
READY_RECORDS_MAX: Final = 4_000  # fetched of a lane and not handed out; then fetching waits
FETCH_RECORDS_MAX: Final = 2_000  # records of one fetch
FETCH_WAIT_SECONDS: Final = 0.25  # a fetch without records returns after this
FETCH_ASSIGNED_ANEW: Final = 100  # cursors that a fetcher is assigned all anew for each further one
FETCH_ASSIGN_SECONDS: Final = 1e-5  # between two assignments, for each cursor beyond that: ten times what it takes
FETCH_PARTITION_BYTES: Final = 1 << 20  # of one partition in one fetch
BACKLOG_PARTITION_BYTES: Final = 1 << 18  # of one partition in a backlog's fetch: live records must not wait for it
BACKLOG_PERMILLE_DEFAULT: Final = 200  # of memory, turns and handlers, for backlogs whose commit does not say theirs
BACKLOG_LOOK_SECONDS: Final = 1.0  # how often a consumer that splits by itself looks how old its records are
RESTORE_FINDINGS_MAX: Final = 1_000  # of one report: a few a lease; more is no member of ours
SPLIT_RECORDS_MIN: Final = 1_000  # offsets behind: fewer are read before a second cursor would have begun
DEAD_LETTER_RETRY_SECONDS: Final = 1.0  # between attempts to write a dead letter
DEAD_LETTERS_IN_A_ROW_MAX: Final = 100  # of a lane at one consumer: then its handler is broken, not its records
DEAD_LETTER_RATIO_MAX: Final = 0.5  # of the window
DEAD_LETTER_WINDOW_RECORDS: Final = 1_000
DEAD_LETTER_WINDOW_RECORDS_MAX: Final = 1_000_000  # a number is kept for each letter in it
RESTORE_RETRY_SECONDS: Final = 0.2  # between attempts to read committed progress
RESTORES_AT_ONCE: Final = 500  # leases of one cluster; each takes some ten tasks and 30 KiB until it is answered
FINAL_COMMIT_SECONDS: Final = 5.0  # a revoked lease's last commit; then it is waived
HANDLER_CANCEL_SECONDS: Final = 2.0  # after a handler's time: cancelled, it cleans up so long; then it counts as stuck
HANDLER_TIME_TICK_SECONDS: Final = 0.01  # between two looks at handlers' time at least
HANDLER_THREADS_MAX: Final = 1_000  # of ordinary functions at once; a thread takes some 10 ms of a second's switching
CPU_SAMPLES_PER_HEARTBEAT: Final = 8  # calls of handlers whose CPU time is measured; each costs some 20 microseconds
CPU_SAMPLES_KEPT_MAX: Final = (
    1_000  # calls measured between two heartbeats, of handlers in threads; later ones replace them
)
CPU_FILES_KEPT_MAX: Final = 16  # of the kernel's, open for threads that are measured; others open theirs each time
CPU_SHARE_KEPT: Final = 0.7  # of what was measured, at each heartbeat: a processor that others take shows in seconds
HANDLERS_END_POLL_SECONDS: Final = 0.02  # between two looks whether the cancelled handlers of a lease have ended
CONSUMER_CLOSE_SECONDS: Final = 10.0  # leaving a consumer's context waits so long for handlers and last commits

# --- the command line
READER_LOOK_SECONDS: Final = 1.0  # between two looks for new channels while reading without a group
READER_CHUNKS_MAX: Final = 4  # fetched and not yet taken by who reads without a group; then fetching waits
FILTER_PARSED_BYTES: Final = 1 << 20  # of a value parsed as JSON for a filter; a larger one has no `json.PATH`

# --- records in a consumer's memory
RECORD_OVERHEAD_BYTES: Final = 256  # what a record counts for beside its key, value and headers
HEADER_OVERHEAD_BYTES: Final = 128  # a header's; they need not be large to be many
ACKS_KEPT_MAX: Final = (
    128  # of a partition, noted together; at once while a lease is asked back or records are waited for
)
REPEATED_COLUMNS_KEPT_MAX: Final = 64  # sets of columns that are the same in every row; some 100 KB each
HEADER_SECTIONS_MAX: Final = 8  # of a batch with headers laid out alike; more are read at any layout
READY_RECORDS_PER_HANDLER: Final = 16  # where that is more than READY_RECORDS_MAX: all handlers may end at once
WHERE_HEADERS_MAX: Final = 8  # of a predicate: each is looked for in every record

# --- records in a producer's memory
PRODUCER_COPIES: Final = 2.125  # of a record's bytes: ours, and Kafka's client's, in a buffer that grows by an eighth
PRODUCER_RECORD_BYTES: Final = 576  # of objects that a record has until its fate is known; its headers' come on top
PRODUCER_HEADER_BYTES: Final = 128  # of a header's objects, Braid's own three among them; measured: 75 and more

# --- dead letters on their way
DEAD_LETTERS_SENDING_MAX: Final = 500  # of a stream at once; before one was written, and after a failure, only one
DEAD_LETTER_LATE_SECONDS: Final = 5.0  # without an acknowledgement: `explain` says so, long before the send is given up
DEAD_LETTERS_HELD_MAX: Final = 2_000  # of a lane, sent or waiting; then its intake waits: 12 KiB of headers each
# A topic that a cluster which answers has not known for so long holds nothing to index.
DLQ_UNKNOWN_SECONDS: Final = 30.0

# --- looks at what is parked
RETRY_TICK_SECONDS: Final = 0.02  # between two looks at retries, at least
RETRY_SLACK_SECONDS: Final = 0.064  # a retry waits so much longer at most, to come with others
RETRY_LOOK_SECONDS: Final = 1.0  # between two looks while records are parked, at most

# --- what handlers ask for
RETRY_AFTER_SECONDS_MAX: Final = 31_536_000.0  # a year: far beyond any retention; a longer wait is a mistake in units

# --- metrics of clients
ZONE_TALLIES_MAX: Final = 1_024  # ways between a process and clusters whose bytes are counted apart

# --- spans
SPAN_LINKS_MAX: Final = 128  # of one batch; OpenTelemetry's own default bound, beyond which its SDK drops them
TRACE_HEADER_BYTES_MAX: Final = 8 << 10  # a longer one is no trace's: W3C bounds baggage to this, the others to less
