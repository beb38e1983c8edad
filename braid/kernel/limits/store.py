"""Bounds and timeouts of event stores, each with its reason. Seconds unless a name says otherwise."""

from typing import Final

# --- store
APPEND_BYTES_MAX: Final = 1_500_000  # etcd's request limit is 1.5 MiB
APPEND_EVENTS_MAX: Final = 120  # etcd's transaction limit is 128 operations; head and fence take some
SESSION_TTL_SECONDS: Final = 2.0  # of a leader: etcd grants no less; with more, the next leads later than 3 s
SQLITE_POLL_SECONDS: Final = 0.02  # between two reads of a store that changes all the time, or that is polled
SQLITE_LOOKS_AT_ONCE: Final = 5  # commits in a row that are read without delay: processes answer each other by commits
SQLITE_LOOK_SECONDS: Final = (
    0.5  # between two reads without news: a writer may be killed before it announces its commit
)
STORE_CALL_SECONDS: Final = 2.0  # one read or append
SNAPSHOT_EVERY_EVENTS: Final = 512  # bounds what a start must fold
SNAPSHOT_PIECE_ITEMS: Final = 1_000  # members or leases written in a row, some milliseconds; then others' turn
WATCH_PAGE_BATCHES: Final = 256  # read at once for a watcher that lags
WATCH_KEEP_REVISIONS: Final = 1_000  # batches a snapshot replaced stay for watchers that are only a little behind
KEEP_ALIVES_PER_SESSION: Final = 8  # in one TTL, so that a stall of 1.5 s costs no session of 2 s: an etcd election
SQLITE_RETRY_SECONDS: Final = 0.05  # between two attempts to read a store that does not answer
SQLITE_BUSY_POLL_SECONDS: Final = 0.001  # asking for the write lock again; appends hold it for well under this
SQLITE_LOCK_BREAK_SECONDS: Final = 1.25  # a stopped writer is ended before it costs the others a call or a session

# --- etcd
ETCD_READ_SECONDS: Final = 5.0  # a read, over all endpoints: outlasts the election of a new etcd leader
ETCD_MESSAGE_BYTES_MAX: Final = 64 << 20  # one answer: a page of full batches fits
ETCD_PAGE_BATCHES: Final = 32  # read at a time; 32 full batches are 48 MB
ETCD_TXN_HISTORIES: Final = 8  # read by two transactions
ETCD_TXN_BATCHES: Final = 4  # of each; all full these are a page of `ETCD_PAGE_BATCHES`, and fit an answer
ETCD_TXN_HEADS: Final = 100  # read by one transaction; etcd allows 128 operations in one
ETCD_PAGE_KEYS: Final = 500  # names read at a time
ETCD_CHUNK_BYTES: Final = 1 << 20  # a piece of a snapshot; etcd's request limit is 1.5 MiB
ETCD_LOAD_ATTEMPTS_MAX: Final = 4  # reads of a history that compaction overtook, then it is unavailable
ETCD_HEADS_MAX: Final = 10_000  # remembered heads; a forgotten one costs an append one read
ETCD_KEEPALIVE_MS: Final = 6_000  # etcd's default policy closes connections that ping more often than every 5 s
ETCD_KEEPALIVE_TIMEOUT_MS: Final = 2_000  # without an answer to a keep-alive, until a connection counts as dead
ETCD_CONNECT_MS: Final = 1_000  # one attempt to connect
ETCD_RECONNECT_MS_MIN: Final = 100  # between attempts, growing to
ETCD_RECONNECT_MS_MAX: Final = 500  # this
ETCD_WATCH_PROGRESS_SECONDS: Final = 1.0  # a quiet watch asks how far it is
ETCD_WATCH_SILENCE_SECONDS: Final = 3.0  # without any answer, it goes to the next endpoint
ETCD_SESSION_TTL_SECONDS_MIN: Final = 2  # etcd grants no less
ETCD_REVOKE_SECONDS: Final = 1.0  # closing a session tries so long, then leaves it to expire
ETCD_PASSWORD_PAUSE_SECONDS: Final = 1.0  # a refused password is not sent again sooner: etcd spends 0.1 s on each
ETCD_PASSWORDS_MAX: Final = 2  # lines of a password file: the old one and the new one, while it changes
