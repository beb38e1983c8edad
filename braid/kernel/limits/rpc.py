"""Bounds and timeouts of calls between processes, each with its reason. Seconds unless a name says otherwise."""

from typing import Final

# --- control RPCs
UNARY_DEADLINE_SECONDS: Final = 10.0  # default for calls that bring none
REDIRECTS_MAX: Final = 8  # NOT_LEADER hops before giving up
MESSAGE_BYTES_MAX: Final = 16 << 20  # one RPC message
REQUEST_TEXT_CHARS_MAX: Final = 8_192  # of any text in a request: histories and sessions keep many of them
REQUEST_ITEMS_MAX: Final = 100_000  # in any list of one: ten times the partitions of the largest channel
OUTBOX_MESSAGES_MAX: Final = 1_000  # to one stream's peer; a slower reader is shed
READ_PARTS_MAX: Final = 16  # reads in one call: a page of the console asks a service for half as many
READ_BYTES_MAX: Final = 8 << 20  # of the answers of one such call; the rest is asked for again
LIST_PAGES_MAX: Final = 1_000  # of one list: a service that always names a next page must not hold its caller for ever
PAGE_TOKEN_CHARACTERS_MAX: Final = 262_144  # Kafka's group names have up to 32,767, each six in a token at worst
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
STREAM_INBOX_BYTES_MAX: Final = 16 << 20  # the same, by size; the last one may go beyond it
BROKEN_STREAM_NOTICE_SECONDS: Final = 0.05  # within it a broken connection tells itself from a clean end
BROKEN_STREAM_NOTICES_MAX: Final = 100  # times it is waited again while the loop runs late; then an end is an end
CALLS_PENDING_MAX: Final = 20_000  # arrived and not yet taken up: every member joining at once must fit
KEEPALIVE_INTERVAL_SECONDS: Final = 10.0  # HTTP/2 pings both ways; servers allow twice as many
KEEPALIVE_TIMEOUT_SECONDS: Final = 5.0  # an unanswered ping ends the connection
RECONNECT_BACKOFF_SECONDS: Final = (0.05, 0.5)  # first and longest wait between attempts to connect
STREAM_CLOSE_SECONDS: Final = 2.0  # a client waits so long for the server to end a stream it closed
REQUEST_SECONDS: Final = 10.0  # a call's request comes within it, whatever deadline the caller set
HELLO_SECONDS: Final = 5.0  # the first message of a stream says what it is for; without one it is ended

# --- hostile connections
HANDSHAKE_SECONDS: Final = 10.0  # from a connection to the settings of HTTP/2; one that stalls is closed
CONNECTION_IDLE_SECONDS: Final = 300.0  # without a call; the client's next one opens another connection
CONNECTIONS_MAX: Final = 20_000  # of one port: ten thousand processes, while their connections are replaced
CONNECTION_CALLS_MAX: Final = 25_000  # of one connection: ten thousand members with two streams each fit
CALLS_OPEN_MAX: Final = 50_000  # of one server, streams included: ten thousand members with several each fit
OPEN_STREAMS_PER_CALLER_MAX: Final = 20_000  # of a method: each member or producer of a principal has one open
OPEN_WATCHES_PER_CALLER_MAX: Final = 200  # of any other stream: a person, a dashboard or a service has a few
OPEN_CALLS_PER_CALLER_MAX: Final = 20_000  # that are no streams: every member of a principal asking at once must fit
METADATA_BYTES_MAX: Final = 16 << 10  # beside one request or answer: a token, names, an error's details
HEALTH_CONNECTIONS_MAX: Final = 2_000  # of a port for health checks alone
HEALTH_MESSAGE_BYTES_MAX: Final = 4 << 10  # a health check names a service
HEALTH_CALLS_MAX: Final = 5_000  # open at the port for health checks, where nobody proves anything
HEALTH_WATCHES_MAX: Final = 1_000  # of those calls; the others only ask
HEALTH_CONNECTION_SECONDS: Final = 60.0  # of that port: then whoever watches there comes again

# --- mutual TLS
TLS_RELOAD_SECONDS: Final = 10.0  # between two looks at the files: certificates are rotated hours before they end
TLS_CONNECTION_SECONDS: Final = 1_800.0  # then a connection takes no new calls; its streams end within as long again
TLS_JITTER: Final = 0.1  # of that, either way, so that clients that came together do not come back together
TLS_GRACE_SECONDS: Final = 60.0  # for streams whose handlers do not hear that their time is over
TLS_CONNECTIONS_RETIRED_MAX: Final = 64  # of one client to one replica, kept for the streams on them: one a rotation
TLS_PROBE_SECONDS: Final = 1.0  # to ask a server that closed a connection why; once in a row of failures
PEER_TRUST_LOOK_SECONDS: Final = 10.0  # between two looks whether callers' certificates are still trusted
PEER_TRUST_GRACE_SECONDS: Final = 20.0  # for a caller that has a new certificate, and reads its files a moment later
PEER_CERTIFICATES_REMEMBERED_MAX: Final = 4_096  # parsed once a connection; those of more connections, once a call
PEER_CHAIN_MAX: Final = 16  # certificates between a caller's own and an authority that are looked at
CONNECTION_RENEWAL_SECONDS: Final = 1.0  # of calls refused together, one opens another connection
TLS_FILE_BYTES_MAX: Final = 1 << 20  # one PEM file; a bundle of hundreds of authorities fits

# --- the command line
CLI_CHANGE_SECONDS: Final = 20.0  # a change, waiting for topics included
