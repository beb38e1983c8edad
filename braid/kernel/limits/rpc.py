"""Bounds and timeouts of calls between processes, each with its reason. Seconds unless a name says otherwise."""

from typing import Final

# --- control RPCs
UNARY_DEADLINE_SECONDS: Final = 10.0  # default for calls that bring none
REDIRECTS_MAX: Final = 8  # NOT_LEADER hops before giving up
MESSAGE_BYTES_MAX: Final = 16 << 20  # one RPC message
OUTBOX_MESSAGES_MAX: Final = 1_000  # to one stream's peer; a slower reader is shed
DECIDE_RETRIES_MAX: Final = 8  # conflicts before a command is refused

# --- rpc
CHANNELS_KEPT_MAX: Final = 64  # connections of one process; beyond it those to vanished replicas are closed
LIST_ENDPOINTS_SECONDS: Final = 1.0  # one replica's answer about the mesh; then the next is asked
LEADER_WAIT_SECONDS: Final = 1.0  # of a replica that is asked for the leader while there is none, until it says so
LEADER_WAIT_LOOK_SECONDS: Final = 0.05  # between two looks meanwhile; all who wait share one read of the store
LEADER_PROBE_SECONDS: Final = 0.5  # a silent leader must answer within it, or the directory is asked again
REDIRECT_WAIT_SECONDS: Final = (0.02, 0.5)  # first and longest wait while no leader is known
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

# --- the command line
CLI_CHANGE_SECONDS: Final = 20.0  # a change, waiting for topics included
