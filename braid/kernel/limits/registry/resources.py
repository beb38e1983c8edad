"""Bounds and timeouts of streams, channels and clusters in the registry, each with its reason.

Seconds unless a name says otherwise.
"""

from typing import Final

# --- registry
WATCH_MESSAGE_BYTES_MAX: Final = 1 << 20  # from a producer or a process on its watch: names, and what it reports
REPLICATION_MAX: Final = 7  # copies of a partition; more is a mistake
RETENTION_HOURS_DEFAULT: Final = 7 * 24  # Kafka's own default
RETENTION_HOURS_MAX: Final = 10 * 366 * 24  # keeps milliseconds far from Kafka's 63 bits
RECORD_BYTES_MIN: Final = 1_024  # below it not even the headers fit
RECORD_BYTES_MAX: Final = 64 << 20  # brokers and clients hold several in memory
BATCH_OVERHEAD_BYTES: Final = 16_384  # of a batch with one record: framing, and the headers Braid adds
FAILOVERS_MAX: Final = 6  # automatic ones of a stream within the window; then a person decides
FAILOVER_WINDOW_SECONDS: Final = 600.0
RETIRED_CHANNELS_KEPT: Final = 64  # of a stream, in memory; its history keeps all
LOG_ENDS_SECONDS: Final = 5.0  # between two looks how far logs go: what is known where producers died, a call a broker
LOG_ENDS_BATCH: Final = 5_000  # partitions asked for in one call
RECONCILE_SECONDS: Final = 0.25  # between two looks at the world when nothing changed
WORK_RETRY_SECONDS: Final = 0.5  # before a step of a channel is tried again
TAIL_LOOK_SECONDS: Final = 30.0  # between two looks at whether retention may be as declared again: nothing waits for it
WORK_AT_ONCE: Final = 64  # channels worked on at the same time
DRAIN_GROUPS_PAGE: Final = 500  # groups asked for in one call
CREATE_WAIT_SECONDS: Final = 8.0  # a create or move waits so long for its topics; the reconciler finishes the rest
GIVEN_ROUTES_MAX: Final = 40_000  # producers of one term whose routes are remembered: all that live, and as many gone
GIVEN_CHANNELS_MAX: Final = 128  # of one producer among them: more than a stream keeps that are retired
PRODUCER_SESSIONS_MAX: Final = 20_000  # of one registry; further ones are refused
OFFSET_MAX: Final = (1 << 62) - 1  # of a log, as a client reports it; keeps sums far from Kafka's 63 bits
LOG_RECORDS_PER_S_MAX: Final = 100_000_000  # of one partition over its life: its broker checks each record, one by one
LOG_AGE_SLACK_SECONDS: Final = 86_400.0  # clocks differ; a topic that was found may be older than its stream's history
LOSS_SEEN_SECONDS: Final = 10.0  # a loss must show for so long: leaders may know a log's end late
LOSS_TOLD_MAX: Final = 8  # pieces of evidence of a loss in one event; its ranges are all there
WATCH_ALIVE_SECONDS: Final = 1.0  # a registry's watch without news gives a sign of life so often
WATCH_SILENCE_SECONDS: Final = 3.0  # without any, its registry may be frozen: ask who leads

# --- reassignments
COPIES_LOOK_SECONDS: Final = 0.5  # between two looks at a reassignment under way
COPIES_RETRY_SECONDS: Final = 5.0  # after one that could not go on: a broker is away, a request failed
REASSIGNED_AT_ONCE: Final = 20  # partitions of a cluster on their way because of us
REASSIGN_BYTES_PER_S: Final = 32 << 20  # that each broker may send and take for new copies, unless declared otherwise

# --- quotas of Kafka users
CLIENT_QUOTAS_MAX: Final = 10_000  # of Braid's on one cluster: three for each user of all tenants, and as many to go
CLIENT_QUOTAS_RECORDED_AT_ONCE: Final = 500  # in one event, which stays small
CLIENT_QUOTAS_LOOK_SECONDS: Final = 30.0  # between two comparisons with the cluster: mends what others changed
CLIENT_QUOTAS_GATHER_SECONDS: Final = 0.25  # after a tenant was declared: many declarations are one look
CLIENT_QUOTAS_RETRY_SECONDS: Final = (1.0, 60.0)  # after one that failed: the first wait, doubled up to the last
CLIENT_QUOTAS_ABSENT_SECONDS: Final = 20.0  # gone for so long, then forgotten: a deposed leader may be late

# --- mesh marks
RESTORE_ROUTE_GAP: Final = 1_000_000  # a route found to be older than its producers counts on beyond theirs
MARK_LOOK_SECONDS: Final = 30.0  # between two looks at a cluster's mark; every deletion looks by itself
MARK_RETRY_SECONDS: Final = 1.0  # while it is not known
SEAL_CANARIES_MAX: Final = 100  # in one log, of attempts to close it, that are read; more count as records
RESTORE_REVISION_GAP: Final = 1_000_000_000  # a restored store counts on beyond every revision handed out before
IDENTITY_CHECK_SECONDS: Final = 10.0  # between two questions for a cluster's own id
SEAL_SETTLE_SECONDS: Final = 0.2  # from a topic's changed configuration to the canary that tests it
ORPHANS_NAMED_MAX: Final = 200  # of a cluster's topics, and of its groups, in one event; all are counted
TOPICS_COMPARED_AT_ONCE: Final = 500  # in one request
RESTORE_FIRST_SECONDS: Final = 20.0  # that decisions wait for clusters to be compared; silent ones stay shut
RESTORE_PEERS_SECONDS: Final = 8.0  # that a comparison waits for an assigner
