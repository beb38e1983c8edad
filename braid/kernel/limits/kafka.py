"""Bounds and timeouts of requests to Kafka and their answers, each with its reason.

Seconds unless a name says otherwise.
"""

from typing import Final

# --- Kafka
KAFKA_CALL_SECONDS: Final = 5.0  # one admin or offsets call
TRY_APPEND_SECONDS: Final = 2.0  # a canary append
ANY_BROKER_SECONDS: Final = 0.2  # a broker that took so long to answer what any could may be frozen: another is asked

# --- Kafka clients
KAFKA_THROTTLE_SECONDS_MAX: Final = 15.0  # a broker's word to wait; with Kafka's own windows it asks for 11 s at most
KAFKA_REQUEST_MS: Final = 2_000  # one request of a producer or fetcher; longer hides a dead broker
KAFKA_BACKOFF_MS: Final = 200  # between retries: soon enough after a restart, cheap while a cluster is away
KAFKA_ANSWER_BACKOFF_SECONDS: Final = 0.05  # a broker answered "not yet": ask again
KAFKA_LEADERS_SECONDS: Final = 0.04  # who leads is not asked again so soon; who tries again waits longer
KAFKA_METADATA_AGE_MS: Final = 5_000  # how long known leaders are used without an error
KAFKA_METADATA_PACE_SECONDS: Final = 0.1  # a producer asks no oftener, whatever happens
KAFKA_FETCH_WAIT_MS: Final = 250  # a broker holds an empty fetch so long
KAFKA_FETCH_HELD_SECONDS: Final = 0.01  # after that it is held, not answered: other partitions are asked for beside it
KAFKA_FETCH_BESIDE_MS: Final = 25  # a broker holds what is asked beside it so long; then all are asked together again
KAFKA_FETCH_BYTES: Final = 16 << 20  # one answer of one broker
SASL_SESSION_PART: Final = (0.85, 0.95)  # of a SASL session's lifetime: then another connection is opened (KIP-368)
SASL_SESSION_SECONDS_MIN: Final = 1.0  # of use, however soon a session ends: a token that ends is replaced
KAFKA_CLOSE_SECONDS: Final = 1.0  # for a client to end, whatever the cluster does
KAFKA_RECORD_OVERHEAD_BYTES: Final = 16 << 10  # key and headers beside a value that fills a batch
TOPIC_GONE_SECONDS: Final = 2.0  # metadata lacks a topic so long: it does not exist

# --- batches in a log, which may be hostile
INFLATED_RECORD_BYTES_MAX: Final = 65 << 20  # the largest record, with its headers and framing; more is a bomb
INFLATED_INLINE_BYTES_MAX: Final = 2 << 20  # on the event loop: some 5 ms of gzip; our batches hold 1 MiB at most
INFLATED_TURN_BYTES: Final = 1 << 20  # between two turns of the event loop, before the last batch
ZSTD_WINDOW_BYTES_MAX: Final = 8 << 20  # what every decoder should support (RFC 8878); levels up to 19 need no more
XERIAL_BLOCK_BYTES_MIN: Final = 1 << 10  # writers of snappy make no smaller blocks, save the last
BATCH_HEADERS_FREE_BYTES: Final = 1 << 20  # headers of a batch up to this size cannot fill much memory: not counted
RECORD_HEADERS_MAX: Final = 16_384  # of a record in a larger batch: two bytes of it cost a hundred in memory

# --- batches decoded as columns; what goes beyond is read record by record
COLUMN_RECORDS_MIN: Final = 200  # of what is decoded at once: below it, one by one is faster
COLUMN_TOGETHER_RECORDS: Final = 2_000  # batches of fewer are put together before: each decoding costs some 200 µs
COLUMN_BATCH_BYTES_MAX: Final = 2 << 20  # decoded at once, in plain: it takes some ten times its memory, on the loop
COLUMN_HEADERS_MAX: Final = 32  # of a record: each is a pass over all records
COLUMN_NAME_BYTES_MAX: Final = 128  # of a header's name

# --- clients that a Kafka cluster refuses
KAFKA_ACCESS_SECONDS: Final = 1.0  # to ask a cluster that does not answer a producer whether it refuses this client
KAFKA_PROFILES_MAX: Final = 1_000  # security profiles that a process remembers: it would read all of them anew
KAFKA_TOKEN_SECONDS: Final = 10.0  # for a token endpoint to connect, and to send each part of its answer
KAFKA_TOKEN_WAIT_SECONDS: Final = 1.0  # for a token, of the time in which a connection is opened
KAFKA_TOKEN_ANSWER_BYTES: Final = 1 << 16  # of a token endpoint: large tokens have a few thousand
TOKEN_LIFETIME_SECONDS: Final = 300.0  # of a token of which the endpoint does not say how long it is good
TOKEN_REFRESH_SHARE: Final = 0.8  # of a token's lifetime: then the next one is fetched
KAFKA_REFUSALS_MAX: Final = 1_000  # addresses of a cluster that refused a login: no cluster has so many brokers
KAFKA_DENIED_SECONDS: Final = 2.0  # between attempts of a refused client: brokers count failed logins, and log them
DENIED_AGAIN_SECONDS: Final = 60.0  # a refusal that lasts is logged so often

# --- large batches
LARGE_PIECE_BYTES: Final = 1 << 20  # in plain, at once: a turn of the event loop decodes it; more only for one record
LARGE_PARTS_FREE: Final = 1 << 16  # blocks of a codec without content cost time: so many, and one for each KiB inflated
INFLATED_PART_BYTES: Final = 256 << 10  # of gzip and zstd at once

# --- lanes' turns in fetching
FETCH_TURN_RECORDS: Final = 250  # decoded of a lane in a row, for each unit of its share, while others have something
FETCH_AHEAD_BYTES: Final = 16 << 20  # fetched of a lane and not decoded: then no more of it is asked for

# --- replicas in a reader's rack
KAFKA_NEAR_REPLICA_SECONDS: Final = 10.0  # not asked after it failed: leaders name it until its session ends, 9 s
