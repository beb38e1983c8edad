"""Bounds and timeouts of the archives of histories, each with its reason. Seconds unless a name says otherwise."""

from typing import Final

# --- segments and bases
ARCHIVE_SEGMENT_EVENTS: Final = 512  # of one segment; what a question about one moment has to read at least
ARCHIVE_SEGMENT_BYTES: Final = 4 << 20  # of one segment's events, before compression; one event may exceed it alone
ARCHIVE_RAW_BYTES_MAX: Final = 64 << 20  # of a segment after decompression; more is no segment of ours
ARCHIVE_WINDOW_BYTES_MAX: Final = 8 << 20  # zstd's window when a segment is read
ARCHIVE_OBJECT_BYTES_MAX: Final = 256 << 20  # of one object that is read; more is none of ours
ARCHIVE_OPEN_SEGMENTS: Final = 8  # that a reader keeps decoded: pages of one list read the same one

# --- what may wait for an archive that takes nothing, in one history; beyond it, events are compacted without a copy
ARCHIVE_BACKLOG_EVENTS_MAX: Final = 16_384  # what a start then has to fold: some seconds
ARCHIVE_BACKLOG_BYTES_MAX: Final = 64 << 20  # etcd's quota is 2 GiB by default, for all histories
ARCHIVE_LOG_EVENTS_MAX: Final = 10_000  # a service's own notes about its archive; then only holes are noted
ARCHIVE_THREADS: Final = 2  # of a replica, that may hang on its archive; further calls wait for one

# --- answers about the past
PAST_STORY_EVENTS: Final = 1_024  # events before a moment that an explanation reads, and up to a segment more

PAST_LIST_HISTORIES: Final = 200  # read for one page of a list of the past: each is loaded and folded
PAST_LOADS_TOGETHER: Final = 48  # histories in memory at once while a list of the past is made
PAST_STATES_MAX: Final = 5_000  # read for one answer that needs all, as clusters need all streams: some seconds
PAST_AHEAD_MS_MAX: Final = 10_000  # by which a caller's clock may be ahead, and still ask for its own present

# --- verifying, in one answer; a page ends with the history that reaches one of them
ARCHIVE_VERIFY_HISTORIES: Final = 64
ARCHIVE_VERIFY_EVENTS: Final = 50_000
ARCHIVE_VERIFY_SECONDS: Final = 30.0  # a caller waits so long for one archive to be verified

# --- keeping
ARCHIVE_RETENTION_DAYS: Final = 90.0
ARCHIVE_SWEEP_SECONDS: Final = 3_600.0  # between two looks for what has expired
ARCHIVE_EXPIRY_SECONDS: Final = (
    86_400.0  # of elapsed time for which it must look expired: a clock that steps deletes nothing
)

# --- a bucket; what failed is tried again at the end of the next interval of events
ARCHIVE_BUCKET_CONNECT_SECONDS: Final = 3.0
ARCHIVE_BUCKET_REQUEST_SECONDS: Final = 10.0  # without an answer
ARCHIVE_BUCKET_ATTEMPTS: Final = 2  # of one request, before it counts as failed

# --- peers
ARCHIVE_CALL_SECONDS: Final = 5.0  # one list or one piece of an object
ARCHIVE_PIECE_BYTES: Final = 2 << 20  # of an object in one answer
ARCHIVE_PEER_NAMES_MAX: Final = 100_000  # of one history that a peer may list
ARCHIVE_PEERS_AGAIN_SECONDS: Final = 30.0  # a history that no peer could complete is asked about again after this
