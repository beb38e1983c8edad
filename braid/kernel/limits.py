"""Every bound and timeout, in one place, each with its why. Sections by part; seconds unless named."""

from typing import Final

# --- names and shapes
PARTITIONS_MAX: Final = 10_000  # a channel; beyond this one topic is the wrong shape
LANES_MAX: Final = 16  # a stream; lanes are qualities of service, not keys
PAGE_SIZE_MAX: Final = 1_000  # items in one List answer

# --- store
APPEND_BYTES_MAX: Final = 1_500_000  # etcd's request limit is 1.5 MiB
APPEND_EVENTS_MAX: Final = 120  # etcd's transaction limit is 128 operations; head and fence take some
SESSION_TTL_SECONDS: Final = 2.0  # of a leader: etcd grants no less; with more, the next leads later than 3 s
SQLITE_POLL_SECONDS: Final = 0.02  # watch by polling
STORE_CALL_SECONDS: Final = 2.0  # one read or append
SNAPSHOT_EVERY_EVENTS: Final = 512  # bounds what a start must fold
SNAPSHOT_PIECE_ITEMS: Final = 1_000  # members or leases written in a row, some milliseconds; then others' turn
WATCH_PAGE_BATCHES: Final = 256  # read at once for a watcher that lags
WATCH_KEEP_REVISIONS: Final = 1_000  # batches a snapshot replaced stay for watchers that are only a little behind
KEEP_ALIVES_PER_SESSION: Final = 8  # in one TTL, so that a stall of 1.5 s costs no session of 2 s: an etcd election
SQLITE_CAMPAIGN_POLL_SECONDS: Final = 0.05  # how soon a replica sees that leadership is free
SQLITE_BUSY_POLL_SECONDS: Final = 0.001  # asking for the write lock again; appends hold it for well under this
SQLITE_LOCK_BREAK_SECONDS: Final = 1.25  # a stopped writer is ended before it costs the others a call or a session

# --- control RPCs
UNARY_DEADLINE_SECONDS: Final = 10.0  # default for calls that bring none
REDIRECTS_MAX: Final = 8  # NOT_LEADER hops before giving up
MESSAGE_BYTES_MAX: Final = 16 << 20  # one RPC message
OUTBOX_MESSAGES_MAX: Final = 1_000  # to one stream's peer; a slower reader is shed
DECIDE_RETRIES_MAX: Final = 8  # conflicts before a command is refused

# --- Kafka
KAFKA_CALL_SECONDS: Final = 5.0  # one admin or offsets call
TRY_APPEND_SECONDS: Final = 2.0  # a canary append

# --- leases and sessions
LEASE_MS_DEFAULT: Final = 3_000
LEASE_MS_MIN: Final = 300
LEASE_MS_MAX: Final = 60_000
HEARTBEATS_PER_LEASE: Final = 4
HEARTBEAT_MS_MAX: Final = 500
CLOCK_RATE_SLACK: Final = 0.01  # both sides allow 1 % for clock rates
LEADER_GRACE_SECONDS: Final = 3.0  # a new leader expires nobody sooner
REVOKE_DEADLINE_SECONDS: Final = 30.0  # past it a partition is taken by epoch
PRODUCER_SESSION_SECONDS: Final = 30.0  # a producer that acknowledges no route for so long stops counting
GROUP_IDLE_EXPIRY_SECONDS: Final = 7 * 86_400  # a group without members stops holding drains

# --- cluster health
PROBE_INTERVAL_SECONDS: Final = 0.25
PROBE_TIMEOUT_SECONDS: Final = 0.75
STRAND_ALLOWANCE_HOURS: Final = 14 * 24  # added to a topic's retention so an outage eats no tail

# --- SDK
PRODUCER_BUFFER_BYTES: Final = 64 << 20
DELIVERY_TIMEOUT_SECONDS: Final = 120.0
RECEIPTS_CHANNELS_MAX: Final = 64  # channels left whose last receipts a producer keeps to tell a new registry
ROUTE_GRACE_SECONDS: Final = 0.2  # after failing a dead channel's sends, before sending again elsewhere
SEALED_RETRY_SECONDS: Final = 1.0  # a channel on the route that is sealed is tried again after so long
PLANNED_MOVE_PREPARE_SECONDS: Final = 2.0  # for the new channels' connections, while the old ones carry on
PLANNED_MOVE_WAIT_SECONDS: Final = 5.0  # for the old channel's acknowledgements in a planned move
PLANNED_MOVE_SILENCE_SECONDS: Final = 2.0  # without any of them, and it is waited for no longer: it is dying
COMMIT_INTERVAL_SECONDS: Final = 0.5
COMMIT_RECORDS_MAX: Final = 5_000  # done since the last commit
IN_FLIGHT_BYTES_MAX: Final = 64 << 20  # fetched, not done
DEAD_LETTER_HEADERS_BYTES_MAX: Final = 12 << 10  # beyond its record; with framing it fits BATCH_OVERHEAD_BYTES
RECOMMIT_SECONDS: Final = 30.0  # idle progress is committed again: a stale holder may have overwritten it
RECORDS_PER_SHARE: Final = 4  # handed out of a lane in a row, for each unit of its share
HANDLERS_PER_LANE_MIN: Final = 2  # one that a lane keeps and one it lends; with fewer, all work for all lanes in turns
MEMORY_KEPT: Final = 0.25  # of a lane's part: the rest is lent while it uses less than this, which holds its next fetch
RECORDS_BETWEEN_YIELDS: Final = 128  # handed out without waiting; then, if they took
YIELD_SECONDS: Final = 0.005  # or more, everything else gets its turn, such as heartbeats;
RECORDS_BETWEEN_YIELDS_MAX: Final = 2_048  # and after so many in any case
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
DEAD_LETTER_TEXT_BYTES_MAX: Final = 2 << 10  # any other text in a dead letter's headers
RECORD_BYTES_MAX_DEFAULT: Final = 1 << 20
DETACHED_SECONDS_MAX: Final = 900.0  # a member cut off so long stops beside who has its leases now; outages end sooner
RECONNECT_SECONDS_MIN: Final = 0.05  # first pause before a session is opened anew
RECONNECT_SECONDS_MAX: Final = 1.0  # longest such pause; a leader change takes about two
FIRST_ROUTE_SECONDS: Final = 15.0  # opening a producer or consumer waits so long for the mesh
SEND_ERRORS_AFTER_SECONDS: Final = 0.75  # a record unacknowledged so long is evidence against its cluster
HASHED_KEYS_MAX: Final = 8_192  # keys whose hash a process remembers: they come again and again
HASHED_KEY_BYTES_MAX: Final = 64  # of a key that is remembered
PRODUCER_SWEEP_SECONDS: Final = 0.1  # how often delivery timeouts and stalls are looked for
PRODUCER_LATE_SECONDS: Final = 0.25  # a sweep that is so late blames no cluster: its process was stopped or busy
PRODUCER_CLOSE_SECONDS: Final = 10.0  # leaving a producer's context waits so long for acknowledgements
PRODUCER_TELL_SECONDS: Final = 1.0  # it then waits so long for a registry to tell how far its receipts go
JOIN_SILENCE_SECONDS_MIN: Final = 1.0  # an assigner silent for so long, and for a lease, may be frozen: ask who leads
EXCLUSIVE_MARGIN: Final = 0.1  # of the lease: an exclusive member stops so long before its deadline
READY_RECORDS_MAX: Final = 4_000  # fetched of a lane and not handed out; then fetching waits
FETCH_RECORDS_MAX: Final = 2_000  # records of one fetch
FETCH_WAIT_SECONDS: Final = 0.25  # a fetch without records returns after this
FETCH_PARTITION_BYTES: Final = 1 << 20  # of one partition in one fetch
BACKLOG_PARTITION_BYTES: Final = 1 << 18  # the same behind a live cursor: opening it must not hold up what is live
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
FINAL_COMMIT_SECONDS: Final = 5.0  # a revoked lease's last commit; then it is waived
HANDLER_CANCEL_SECONDS: Final = 2.0  # after a handler's time: cancelled, it cleans up so long; then it counts as stuck
HANDLER_TIME_TICK_SECONDS: Final = 0.01  # between two looks at handlers' time at least
HANDLER_THREADS_MAX: Final = 1_000  # of ordinary functions at once; a thread takes some 10 ms of a second's switching
HANDLERS_END_POLL_SECONDS: Final = 0.02  # between two looks whether the cancelled handlers of a lease have ended
CONSUMER_CLOSE_SECONDS: Final = 10.0  # leaving a consumer's context waits so long for handlers and last commits

# --- tools of the local mesh (Java, Kafka's jars, etcd's binary)
TOOL_PROBE_SECONDS: Final = 10.0  # a tool tells its version; a loaded machine is slow
TOOL_RESOLVE_SECONDS: Final = 600.0  # a download or a build, on a slow line

# --- local Kafka brokers
BROKER_FORMAT_SECONDS: Final = 120.0  # one JVM start; more means the machine is stuck
BROKER_STOP_SECONDS: Final = 10.0  # then by force
BROKER_POLL_SECONDS: Final = 0.05  # between two questions whether it serves
ARCHIVE_SECONDS: Final = 180.0  # a throw-away broker serves within it, and writes its classes within it
ARCHIVES_KEPT_MAX: Final = 3  # of class archives, of tens of megabytes; a machine hardly alternates between more JVMs

# --- runtime
REQUESTS_REMEMBERED_MAX: Final = 1_024  # request ids a history knows as done; older repeats are decided again
LOADS_AT_ONCE: Final = 16  # histories read side by side at start
EVENTS_SCAN_MAX: Final = 10_000  # histories one ListEvents call looks into
STORE_RETRY_SECONDS: Final = (0.05, 1.0)  # first and longest wait before the store is tried again
DIRECTORY_CACHE_SECONDS: Final = 0.1  # how long one read of the directory answers ListEndpoints
DIRECTORY_READ_SECONDS: Final = 0.3  # then the last read counts: who asks waits LIST_ENDPOINTS_SECONDS, or asks another
DRAIN_SECONDS: Final = 5.0  # running calls at a graceful end
LOOP_LAG_INTERVAL_SECONDS: Final = 0.25  # how often the event loop's stall is measured
PARENT_POLL_SECONDS: Final = 0.5  # how soon a service notices that its parent is gone
SHUTDOWN_SECONDS: Final = 3.0  # beyond draining; then the process ends by force
PAGE_SIZE_DEFAULT: Final = 100  # items in a List answer when none is asked for
EVENTS_PAGE_BYTES_MAX: Final = 4 << 20  # a page of events must fit an RPC message with room to spare

# --- rpc
CHANNELS_KEPT_MAX: Final = 64  # connections of one process; beyond it those to vanished replicas are closed
LIST_ENDPOINTS_SECONDS: Final = 1.0  # one replica's answer about the mesh; then the next is asked
LEADER_WAIT_SECONDS: Final = 1.0  # of a replica that is asked who leads while nobody does, before it answers that
LEADER_WAIT_LOOK_SECONDS: Final = 0.05  # between two looks meanwhile; all who wait share one read of the store
LEADER_PROBE_SECONDS: Final = 0.5  # a leader that fell silent answers within it, or somebody asks again who leads
REDIRECT_WAIT_SECONDS: Final = (0.02, 0.5)  # first and longest wait while nobody is known to lead
ERROR_TEXT_BYTES_MAX: Final = 1_024  # each text of an error; HTTP/2 headers hold 8 KiB in all
RETRY_HINT_SECONDS: Final = 0.1  # what RetryInfo suggests beside UNAVAILABLE
STREAM_INBOX_MESSAGES_MAX: Final = 64  # read ahead of a stream's handler; then flow control holds the peer
BROKEN_STREAM_NOTICE_SECONDS: Final = 0.05  # within it a broken connection tells itself from a clean end
BROKEN_STREAM_NOTICES_MAX: Final = 100  # times it is waited again while the loop runs late; then an end is an end
CALLS_PENDING_MAX: Final = 20_000  # arrived and not yet taken up: every member joining at once must fit
KEEPALIVE_INTERVAL_SECONDS: Final = 10.0  # HTTP/2 pings both ways; servers allow twice as many
KEEPALIVE_TIMEOUT_SECONDS: Final = 5.0  # an unanswered ping ends the connection
RECONNECT_BACKOFF_SECONDS: Final = (0.05, 0.5)  # first and longest wait between attempts to connect
STREAM_CLOSE_SECONDS: Final = 2.0  # a client waits so long for the server to end a stream it closed

# --- progress and the commit envelope
ENVELOPE_UNITS_DEFAULT: Final = 4_096  # Kafka's default offset.metadata.max.bytes, counted in UTF-16 units
ENVELOPE_UNITS_MAX: Final = 8_192  # longer metadata is not decoded: bounds what hostile metadata can cost
ENVELOPE_ATTEMPTS_MAX: Final = 16_384  # counts in one envelope; a few bytes could name any number of them
ENVELOPE_CURSORS_MAX: Final = 16  # a live head and some backlogs; each is merged into the claims
TIMERS_MAX: Final = 100_000  # keys on one timer wheel

# --- etcd
ETCD_READ_SECONDS: Final = 5.0  # a read, over all endpoints: outlasts the election of a new etcd leader
ETCD_MESSAGE_BYTES_MAX: Final = 64 << 20  # one answer: a page of full batches fits
ETCD_PAGE_BATCHES: Final = 32  # read at a time; 32 full batches are 48 MB
ETCD_PAGE_KEYS: Final = 500  # names read at a time
ETCD_CHUNK_BYTES: Final = 1 << 20  # a piece of a snapshot; etcd's request limit is 1.5 MiB
ETCD_LOAD_ATTEMPTS_MAX: Final = 4  # reads of a history that compaction overtook, then it is unavailable
ETCD_HEADS_MAX: Final = 10_000  # remembered heads; a forgotten one costs an append one read
ETCD_KEEPALIVE_MS: Final = 6_000  # etcd's default policy closes connections that ping more often than every 5 s
ETCD_KEEPALIVE_TIMEOUT_MS: Final = 2_000  # then a connection counts as dead
ETCD_CONNECT_MS: Final = 1_000  # one attempt to connect
ETCD_RECONNECT_MS_MIN: Final = 100  # between attempts, growing to
ETCD_RECONNECT_MS_MAX: Final = 500  # this
ETCD_WATCH_PROGRESS_SECONDS: Final = 1.0  # a quiet watch asks how far it is
ETCD_WATCH_SILENCE_SECONDS: Final = 3.0  # without any answer, it goes to the next endpoint
ETCD_SESSION_TTL_SECONDS_MIN: Final = 2  # etcd grants no less
ETCD_REVOKE_SECONDS: Final = 1.0  # closing a session tries so long, then leaves it to expire

# --- registry
REPLICATION_MAX: Final = 7  # copies of a partition; more is a mistake
RETENTION_HOURS_DEFAULT: Final = 7 * 24  # Kafka's own default
RETENTION_HOURS_MAX: Final = 10 * 366 * 24  # keeps milliseconds far from Kafka's 63 bits
RECORD_BYTES_MIN: Final = 1_024  # below it not even the headers fit
RECORD_BYTES_MAX: Final = 64 << 20  # brokers and clients hold several in memory
BATCH_OVERHEAD_BYTES: Final = 16_384  # of a batch with one record: framing, and the headers Braid adds
FAILOVERS_MAX: Final = 6  # automatic ones of a stream within the window; then a person decides
FAILOVER_WINDOW_SECONDS: Final = 600.0
RETIRED_CHANNELS_KEPT: Final = 64  # of a stream, in memory; its history keeps all
RECONCILE_SECONDS: Final = 0.25  # between two looks at the world when nothing changed
WORK_RETRY_SECONDS: Final = 0.5  # before a step of a channel is tried again
TAIL_LOOK_SECONDS: Final = 30.0  # between two looks at whether retention may be as declared again: nothing waits for it
WORK_AT_ONCE: Final = 64  # channels worked on at the same time
DRAIN_GROUPS_PAGE: Final = 500  # groups asked for in one call
CREATE_WAIT_SECONDS: Final = 8.0  # a create or move waits so long for its topics; the reconciler finishes the rest
PRODUCER_SESSIONS_MAX: Final = 20_000  # of one registry; further ones are refused
OFFSET_MAX: Final = (1 << 62) - 1  # of a log, as told by a client; keeps sums far from Kafka's 63 bits
LOSS_SEEN_SECONDS: Final = 10.0  # a loss shows for so long before it is believed: leaders may know a log's end late
LOSS_TOLD_MAX: Final = 8  # pieces of evidence of a loss in one event; its ranges are all there
WATCH_ALIVE_SECONDS: Final = 1.0  # a registry's watch without news gives a sign of life so often
WATCH_SILENCE_SECONDS: Final = 3.0  # without any, its registry may be frozen: ask who leads

# --- Kafka clients
KAFKA_REQUEST_MS: Final = 2_000  # one request of a producer or fetcher; longer hides a dead broker
KAFKA_BACKOFF_MS: Final = 200  # between retries: soon enough after a restart, cheap while a cluster is away
KAFKA_ANSWER_BACKOFF_SECONDS: Final = 0.05  # a broker answered "not yet": ask again
KAFKA_LEADERS_SECONDS: Final = 0.04  # who leads is not asked again so soon; who tries again waits longer
KAFKA_METADATA_AGE_MS: Final = 5_000  # how long leaders are believed without an error
KAFKA_METADATA_PACE_SECONDS: Final = 0.1  # a producer asks no oftener, whatever happens
KAFKA_FETCH_WAIT_MS: Final = 250  # a broker holds an empty fetch so long
KAFKA_FETCH_HELD_SECONDS: Final = 0.01  # after that it is held, not answered: other partitions are asked for beside it
KAFKA_FETCH_BESIDE_MS: Final = 25  # a broker holds what is asked beside it so long; then all are asked together again
KAFKA_FETCH_BYTES: Final = 16 << 20  # one answer of one broker
KAFKA_CLOSE_SECONDS: Final = 1.0  # for a client to end, whatever the cluster does
KAFKA_RECORD_OVERHEAD_BYTES: Final = 16 << 10  # key and headers beside a value that fills a batch
TOPIC_GONE_SECONDS: Final = 2.0  # metadata lacks a topic so long: it does not exist

# --- assigner
GROUP_STREAMS_MAX: Final = 64  # a group; more is several applications
GROUP_MEMBERS_MAX: Final = 10_000  # a group; beyond this partitions per member make no sense
GRANTS_PER_DECISION_MAX: Final = 5_000  # keeps an event within one append; the next step places the rest
SIGNALS_PER_DECISION_MAX: Final = 50  # lost members and commands in one decision; its events fit one append
DEADLINE_BEAT_SECONDS: Final = 0.025  # between two looks at deadlines; a hang is seen two looks after the lease time
IDLE_CHECK_SECONDS: Final = 10.0  # between two looks for idle groups
HELLO_TEXT_MAX: Final = 255  # characters of a client id, zone or capability; they are recorded
HELLO_SECONDS: Final = 5.0  # a new Join stream says hello within it
REGISTRY_ANSWER_SECONDS: Final = 5.0  # a join or create waits so long for the registry's channels

# --- the local mesh
DEV_CLUSTERS_MAX: Final = 9  # each is a JVM of a few hundred megabytes
DEV_BROKERS_MAX: Final = 5  # of one cluster; more only compete for the machine
DEV_METADATA_BYTES_MAX: Final = 16 << 20  # a broker's answer about all topics of its cluster
DEV_CLUSTER_STOP_SECONDS: Final = 1.0  # for brokers whose controllers ended first; then by force
DEV_THREADS_MAX: Final = 64  # of a supervisor: each process that starts or stops keeps one waiting
DEV_REPLICAS_MAX: Final = 9  # of one service; more only compete for the machine
DEV_PORTS_TRIED_MAX: Final = 1_000  # above the wanted port; then something else is wrong
DEV_PORT_WAIT_SECONDS: Final = 2.0  # for the ports of a mesh that was killed just before
DEV_READY_SECONDS: Final = 240.0  # from start to ready; what ends is noticed at once, so this only ends a hang
DEV_STEP_SECONDS: Final = 180.0  # one broker, store or replica starts within it, on a machine that starves it
DEV_POLL_SECONDS: Final = 0.05  # between two looks at processes
CLOCK_OFFSET_SECONDS: Final = 0.1  # between two looks at how far a wall clock is to be off, for tests of clock steps
DEV_STOP_SECONDS: Final = 10.0  # an orderly end of one process; then by force
DEV_DOWN_SECONDS: Final = 45.0  # the whole mesh ends in order; then its supervisor is killed
DEV_RESTART_SECONDS: Final = (0.25, 10.0)  # first and longest wait before a crashed service is started again
DEV_STEADY_SECONDS: Final = 30.0  # a service that ran so long starts counting crashes anew
DEV_STARTS_MAX: Final = 3  # attempts of a service to come up at all before the mesh gives up
DEV_LINE_BYTES_MAX: Final = 1 << 20  # one message on the control socket

# --- the command line
CLI_READ_SECONDS: Final = 5.0  # a read at the leader; then any replica is asked
CLI_CHANGE_SECONDS: Final = 20.0  # a change, waiting for topics included
CLI_ITEMS_MAX: Final = 100_000  # of one list; more is for a program, not for a terminal
CLI_EVENTS_MAX: Final = 20_000  # events read to show the newest of them
CLI_WATCH_SECONDS: Final = 1.0  # between two looks of `-w`
CLI_LAG_SECONDS: Final = 5.0  # that `get lag` waits for the first word of a group that has just begun
CLI_LAG_AGAIN_SECONDS: Final = 0.2  # between two looks for it
CLI_MANIFEST_BYTES_MAX: Final = 4 << 20  # one manifest file
CLI_BATCH_RECORDS: Final = 1_000  # lines sent side by side by `produce`
CLI_READ_BYTES: Final = 1 << 20  # read from stdin at once
CLI_PROBE_SECONDS: Final = 3.0  # `doctor` waits so long for one replica or cluster
CLI_CLOCK_SKEW_SECONDS: Final = 1.0  # a larger difference of wall clocks falsifies lags and retention
CLI_SPINNER_AFTER_SECONDS: Final = 0.3  # shorter waits need no sign of life
CLI_SPINNER_SECONDS: Final = 0.1  # between two signs of life
READER_LOOK_SECONDS: Final = 1.0  # between two looks for new channels while reading without a group
READER_CHUNKS_MAX: Final = 4  # fetched and not yet taken by who reads without a group; then fetching waits

# --- lagmon
OFFSET_KEYS_MAX: Final = 2_000_000  # raw keys remembered of one cluster's offset log; then all are read again
OFFSET_DAMAGE_KEPT: Final = 16  # places of unreadable records kept for people
LAG_FETCH_RECORDS: Final = 5_000  # of the offset log at once; reducing them takes a few milliseconds of the loop
LAG_FETCH_BYTES: Final = 1 << 20  # of one partition of the offset log at once
LAG_ENDS_SECONDS: Final = 0.5  # between two looks at the ends of logs; an unknown age is wrong by no more
LAG_PAUSE_FACTOR: Final = 4  # work in rounds that took long is followed by a pause so many times as long
LAG_PROGRESS_MAX: Final = 1_000_000  # groups and partitions of one cluster; more are counted, not followed
LAG_ENDS_BATCH: Final = 5_000  # partitions asked for in one call
LAG_STARTS_SECONDS: Final = 10.0  # between two looks at the starts of logs; only retention moves them
LAG_END_SAMPLES_MAX: Final = 64  # remembered ends of one log; the older half is thinned out beyond it
LAG_TOPICS_SECONDS: Final = 5.0  # between two looks whether topics are still there, and the same
LAG_STALE_SECONDS: Final = 3.0  # an end seen longer ago is shown as stale
LAG_STALL_SECONDS: Final = 1.5  # undone records and no commit for so long: three commit intervals
LAG_PROBES_AT_ONCE: Final = 64  # records read at once for their time
LAG_PROBE_SECONDS: Final = 1.0  # they arrive within it, or it is tried again after
LAG_PROBE_AGAIN_SECONDS: Final = 10.0  # this
LAG_QUIET_SECONDS: Final = (
    2.0  # nothing more to read for so long counts as caught up: an open transaction holds the end
)
LAG_GROUPS_SECONDS: Final = 1.0  # between two looks at the assigner's groups
LAG_CLUSTERS_SECONDS: Final = 1.0  # between two looks at the registry's clusters
LAG_PEER_PAGES_MAX: Final = 1_000  # of one list of another service
LAG_SLICE_ROWS: Final = 2_000  # computed in a row; then the loop gets its turn
LAG_TABLE_SECONDS: Final = 0.1  # one computed table answers everybody for so long
LAG_METRICS_SECONDS: Final = 1.0  # between two states of the gauges
LAG_METRICS_ROWS_MAX: Final = 20_000  # rows of one gauge; more would choke who scrapes them
LAG_WATCH_MS: Final = (100, 1_000, 60_000)  # shortest, usual and longest interval of a watch
LAG_WATCH_ROWS_MAX: Final = 2_000  # rows in one answer of a watch; more follow in further ones

# --- the command line: lag and dead letters
CLI_LETTERS_SHOWN: Final = 100  # dead letters `get` lists unless told; the newest are the ones looked for
CLI_LETTER_BYTES_SHOWN: Final = 4_096  # of a dead letter's key or value on a terminal; -o json shows what was read

# --- Spark
SPARK_READ_RECORDS: Final = 10_000  # rows of one Arrow batch: enough to spread its cost, small beside a heap
SPARK_PARTITION_BYTES: Final = 4 << 20  # of one partition in one fetch: a task reads one partition at a time
SPARK_TASK_ROWS_MIN: Final = 2_000  # small ranges share a streaming task up to it: a task costs tens of milliseconds
SPARK_KEPT_PIECE_BYTES: Final = 32 << 20  # freed pieces up to it are used again: above one answer, and glibc's most
SPARK_KEPT_BYTES: Final = 64 << 20  # of freed memory at the end of a Python worker's heap; what is above goes back
SPARK_READERS_MAX: Final = 32  # open clients of one Python worker, one a topic; the one used longest ago is closed
SPARK_CLUSTER_WAIT_SECONDS: Final = 3_600.0  # a task waits so long for a cluster that is away; an outage is shorter
SPARK_WAIT_NOTICE_SECONDS: Final = 10.0  # between two log lines of a task that waits
SPARK_DIAGNOSE_SECONDS: Final = 2.0  # a task without progress looks so often whether its range exists still
SPARK_SHORT_LOG_SECONDS: Final = 10.0  # a log may end too early for so long: a new leader knows its end late
SPARK_NO_BATCH_SECONDS: Final = 10.0  # bytes that are no batch for so long are quarantined: a broker may mend sooner
SPARK_ENDS_FRESH_SECONDS: Final = 0.03  # a log's end is not asked for again within it; Spark polls every 10 ms
SPARK_ENDS_WAIT_SECONDS: Final = 0.25  # planning waits so long for a cluster's ends, then plans without it
SPARK_SETTLE_SECONDS: Final = 10.0  # `availableNow` waits so long for its share of the group's leases
SPARK_SETTLE_POLL_SECONDS: Final = 0.1  # between two looks at them
SPARK_RETIRED_LOOK_SECONDS: Final = 60.0  # between two looks for channels a checkpoint need not name any more
SPARK_CLOSE_SECONDS: Final = 5.0  # a planner that is told to end hands its leases back within it
SPARK_SKIP_SPANS_MAX: Final = 64  # done ranges kept with a batch; with more of them, rows are repeated
SPARK_WRITE_RECORDS: Final = 2_000  # records sent and not acknowledged by one writing task
SPARK_PLAN_RETRY_SECONDS: Final = 1.0  # between attempts to reach a registry or cluster that planning needs

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

# --- dlq
DLQ_KEY_BYTES_MAX: Final = 1 << 10  # of a key in the index; enough to find it by
DLQ_HEADERS_MAX: Final = 32  # headers of a letter in the index
DLQ_HEADER_BYTES_MAX: Final = 256  # of a header's name, and of its value, in the index
DLQ_TEXT_BYTES_MAX: Final = 2 << 10  # any other text of a letter in the index; as much as the SDK writes
DLQ_VALUE_BYTES_MAX: Final = 1 << 20  # of a value in one answer, which is for reading
DLQ_SCAN_LETTERS: Final = 1_000  # read from the index at once; other calls get their turn in between
DLQ_SCAN_ROWS: Final = 5_000  # of the index looked through at once for a filtered list
DLQ_SCAN_SECONDS: Final = 2.0  # then a filtered list stops, says so, and goes on with the next page
DLQ_COUNTS_KEPT: Final = 1_000  # streams whose number of letters is kept until the index changes
DLQ_EXAMPLES: Final = 5  # letters a dry run shows
DLQ_LOOK_SECONDS: Final = 1.0  # between two looks at where logs begin and end
DLQ_COUNT_SECONDS: Final = 5.0  # between two counts for the metrics
DLQ_COPY_SECONDS: Final = 5.0  # reading records back from a cluster that answers
DLQ_UNREADABLE_SECONDS: Final = 30.0  # a copy that does not come for so long from a cluster that answers is left out
DLQ_MEMBER_RETRY_SECONDS: Final = 1.0  # before the group is joined again
DLQ_INDEX_POLL_SECONDS: Final = 0.05  # between two looks whether the index holds a record
DLQ_BUSY_SECONDS: Final = 5.0  # waiting for another process's write to the same index
FILTER_CHARACTERS_MAX: Final = 4_096  # of a filter
FILTER_TERMS_MAX: Final = 256  # comparisons in one filter
FILTER_DEPTH_MAX: Final = 32  # parentheses and `not` within one another
REPLAY_BATCH_LETTERS_MAX: Final = 500  # what a crash can repeat
REPLAY_BATCH_BYTES_MAX: Final = 16 << 20  # records of one batch in memory
REPLAY_BATCH_SECONDS: Final = 0.5  # of a capped replay; so soon it pauses
REPLAY_RATE_MAX: Final = 1_000_000.0  # records a second; more is no cap
REPLAY_RETRY_SECONDS: Final = 1.0  # before what was not acknowledged is sent again
REPLAYS_OF_ONE_RECORD_MAX: Final = 5  # then it stays where it is: its handler does not get better by itself
REPLAYS_OPEN_MAX: Final = 64  # jobs that are not over
REPLAYS_RUNNING_MAX: Final = 8  # at once; the others wait their turn
REPLAYS_SHOWN_MAX: Final = 8  # jobs named beside a letter

# --- batches in a log, which may be hostile
INFLATED_RECORD_BYTES_MAX: Final = 65 << 20  # the largest record, with its headers and framing; more is a bomb
INFLATED_INLINE_BYTES_MAX: Final = 2 << 20  # on the event loop: some 5 ms of gzip; our batches hold 1 MiB at most
INFLATED_TURN_BYTES: Final = 1 << 20  # between two turns of the event loop, before the last batch
ZSTD_WINDOW_BYTES_MAX: Final = 8 << 20  # what every decoder should support (RFC 8878); levels up to 19 need no more
XERIAL_BLOCK_BYTES_MIN: Final = 1 << 10  # writers of snappy make no smaller blocks, save the last
BATCH_HEADERS_FREE_BYTES: Final = 1 << 20  # headers of a batch up to this size cannot fill much memory: not counted
RECORD_HEADERS_MAX: Final = 16_384  # of a record in a larger batch: two bytes of it cost a hundred in memory

# --- containers
HEALTH_PROBE_SECONDS: Final = 3.0  # a service that takes longer to say that it serves is unwell

# --- batches decoded as columns; what goes beyond is read record by record
COLUMN_RECORDS_MIN: Final = 200  # of what is decoded at once: below it, one by one is faster
COLUMN_TOGETHER_RECORDS: Final = 2_000  # batches of fewer are put together before: each decoding costs some 200 µs
COLUMN_BATCH_BYTES_MAX: Final = 2 << 20  # decoded at once, in plain: it takes some ten times its memory, on the loop
COLUMN_HEADERS_MAX: Final = 32  # of a record: each is a pass over all records
COLUMN_NAME_BYTES_MAX: Final = 128  # of a header's name

# --- fencing by borrowed generations
MEMBERSHIP_SESSION_MS: Final = 1_800_000  # of Braid's membership where the cluster does not tell its largest
MEMBERSHIP_RESERVED_MS: Final = 6_000  # that a reserved id waits to be used, where the cluster does not tell its least
MEMBERSHIP_REBALANCE_MS: Final = 10_000  # a leader killed between join and sync: so long nobody can commit
MEMBERSHIP_RENEW_SECONDS: Final = 60.0  # between two heartbeats of a membership; sessions last far longer
VACANCY_SECONDS: Final = 1.0  # of a registration, for asking clusters whether others use the group's name
CLUSTER_REACHED_SECONDS: Final = 5.0  # since the last answered commit; after that a member does not vouch for it
REFUSAL_SECONDS: Final = 2.0  # between two bumps that refused commits ask for: what no bump mends makes few events
UNCOMMITTED_RECORDS_MAX: Final = 50_000  # done while commits are refused for an unknown member; then intake pauses

# --- placement by load
PLACEMENT_BAND_HIGH: Final = 0.15  # above the mean; loads measured over seconds vary by half of it
PLACEMENT_BAND_LOW: Final = 0.3  # below the mean: a newcomer, or one whose partitions went quiet
PLACEMENT_BAND_INNER: Final = 0.05  # once it moves, it comes so near: further would move more than it mends
PLACEMENT_GAIN_MIN: Final = 0.05  # of an average member's load; less is not worth a hand-over
PLACEMENT_DESTINATIONS_TRIED: Final = 8  # takers looked at for one move where rules shut some out
CAPACITY_DEFAULT: Final = 1.0  # busy seconds per second, of a member that declares none: one process, one loop
CAPACITY_MIN: Final = 0.001  # that a member may declare; with less it would get nothing that costs anything
CAPACITY_MAX: Final = 100_000.0  # more processors than hosts have; beside an absurd number all others would vanish
LOAD_FLOOR: Final = 0.01  # busy seconds per second a partition costs at least: below it, noise would be balanced
LOAD_RISE_SECONDS: Final = 6.0  # time constant of smoothing: a cost that doubles leaves the band within 4 s
LOAD_FALL_SECONDS: Final = 60.0  # of a peak that fades: a pause in the traffic moves nothing
LOAD_SETTLE_SECONDS: Final = 12.0  # after its election, and then by measurement, a leader moves partitions
LOAD_LOOK_SECONDS: Final = 2.0  # between two looks whether loads have left the band
LOAD_NOMINAL_RECORD_SECONDS: Final = 20e-6  # what a record costs at least, where handlers are not timed
LOAD_NOMINAL_BYTE_SECONDS: Final = 2e-9  # and a byte: decompression and copying, some 500 MB/s
LOAD_BUSY_PER_SECOND_MAX: Final = 10_000.0  # handlers at once in one partition; a member that claims more is cut to it
WARM_UP_SECONDS: Final = 30.0  # until a newcomer is given its full share of a loaded group: caches fill, code compiles
WARM_UP_PART_MIN: Final = 0.25  # of its capacity at once
CLI_MOVES_SHOWN: Final = 20  # leases `preview` names on a terminal; JSON names all
MOVES_PER_MINUTE_MIN: Final = 4  # of one group by load, or as many as the minute's joins move, whichever is more
MOVES_COUNTED_SECONDS: Final = 60.0  # that minute

# --- rules of operators
GROUP_RULES_MAX: Final = 1_000  # of a group: each is a row or a column of the masks placement goes by
GROUP_RULES_SHOWN: Final = 3  # leases, members or lanes an error or a warning names
HOME_SECONDS: Final = 600.0  # after a member went, in which one of its name finds its partitions again: a slow restart

# Ending memberships of groups that are fenced no more.
COMMITS_COPIED_AT_ONCE: Final = 500  # each of up to 12 KiB: far below what a broker takes in one request
CLI_FENCING_SECONDS: Final = 30.0  # `braid set fencing` waits for its clusters, then says which are left

# --- many members on one assigner
BEAT_PATIENCE: Final = 0.5  # of the lease: when carried heartbeats lack an answer for so long, a member asks why
BEAT_SILENCE_SECONDS: Final = 10.0  # a Beat stream that is not answered at first, or does not take a message, is ended
BEAT_TELL_AGAIN: Final = 20  # heartbeats, after which clusters out of reach are told again though nothing changed
BEAT_MEMBERS_MAX: Final = 10_000  # heartbeats in one message: some 10 ms of the assigner's loop
BEAT_NEWS_BYTES: Final = 1 << 20  # of what members tell in one message; more go into the next
BEAT_STREAMS_MAX: Final = 2  # of one connection: one, and one that is about to end
BEAT_ANSWER_SECONDS: Final = 3.0  # for an answer to leave; a client that does not read loses the stream
HEARTBEAT_MESSAGES_AT_ONCE: Final = 1_000  # of one stream, more than gather while either side or the network stands
HEARTBEAT_MESSAGES_PER_SECOND: Final = 50.0  # and then lasting: four times what the shortest lease asks for
LEASE_MESSAGE_BYTES_MAX: Final = 8 << 20  # from a member: a hello that names a quarter of a million leases
HELLOS_AT_ONCE: Final = 16  # of one process: what all of its members would send at once waits in an assigner's queues
JOINS_AT_ONCE: Final = 100  # of a group, decided together: fewer events than one append takes
REGISTRATIONS_AT_ONCE: Final = 64  # joins of groups that are new, which ask the registry and clusters first
FLUSHES_AT_ONCE: Final = 100  # members that are told something before the event loop gets its turn: some 10 ms
DELTA_LEASES_MAX: Final = 10_000  # granted in one message; with the longest names that is far below what RPCs carry
JOINS_GATHER_SECONDS: Final = 0.5  # members that join together are placed together, not each for the next to undo it
JOIN_TURN_SECONDS: Final = 0.005  # for one join: so long members are told to wait, and a new leader awaits those it had
QUEUE_NOTICE_SECONDS: Final = 0.25  # in the queue, until it is told
WELCOME_ALIVE_SECONDS_MAX: Final = 30.0  # unanswered, though the assigner answers neighbours: then hello is said again
WELCOME_SECONDS_MAX: Final = 300.0  # a member waits so long for its welcome: a queue of twenty thousand is that long
OUTBOX_BYTES_MAX: Final = 32 << 20  # not yet read by one member: deltas of a large group are not small

# --- placement in slices: one is to hold the event loop for some 5 ms
PLACEMENT_SLICE_WORK: Final = 700_000  # members looked at, one after another in arrays, before others get their turn
PLACEMENT_TRY_WORK: Final = 4_000  # what looking for one move costs whatever the number of members, in members

# --- emptying a cluster
DECOMMISSION_STREAMS_AT_ONCE: Final = 16  # that change over together: a wave their targets and producers hardly notice
DECOMMISSION_NAMED_MAX: Final = 20  # streams and channels named in a cluster's status; the counts are whole
DECOMMISSION_WAIT_SECONDS: Final = 3_600.0  # `--wait` without a time: drains take as long as the slowest group

# --- placement policies, and one that is tried beside the real one
POLICY_BAND_MIN: Final = 0.01  # of the mean: nearer than that, the noise of measuring would move leases
POLICY_BAND_MAX: Final = 10.0  # above it nothing would ever be moved by load
SHADOW_LOOK_SECONDS: Final = 10.0  # between two looks at what a shadow policy would do: each costs a preview

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

# --- rejected records
REJECTED_RANGES_KEPT_MAX: Final = 64  # of a partition, the newest: every commit repeats them, some 4 bytes each
CLI_REJECTED_FETCHED_MAX: Final = 10_000  # that `get rejected --fetch` or `dlq promote` reads in one run
CLI_LEASES_SHOWN: Final = 20  # of a reset, one a line; JSON names all
CLI_SPLIT_SECONDS: Final = 10.0  # that `split` waits for the holders of leases to say what they did
CLI_RESUME_SECONDS: Final = 5.0  # `braid resume` waits so long for members to say that they go on
