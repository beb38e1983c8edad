"""Bounds and timeouts of the console's server, each with its why. Seconds unless named."""

from typing import Final

# --- signing in
LINK_SECONDS: Final = 300.0  # lifetime of a one-time link: time to copy it into a browser
LINK_TEXT_MAX: Final = 200  # characters of a link's token
LINKS_USED_MAX: Final = 10_000  # links remembered as used until they end; beyond it no more are taken
SESSION_SECONDS: Final = 12 * 3_600.0  # a day's work; then one signs in again
SESSIONS_MAX: Final = 2_000  # of all people; then the oldest ends
IDENTITIES_MAX: Final = 500  # different tokens, each with its own connections; further sign-ins are refused

# --- reading from services
READ_SECONDS: Final = 2.0  # a leader's time to answer a read; then any replica is asked
FOLLOWER_SECONDS: Final = 1.0  # a follower's time, once the leader did not answer
LEADERLESS_SECONDS: Final = 5.0  # for which a service without a leader is read from its followers
CHANGE_SECONDS: Final = 20.0  # an action, waiting for topics included
PAST_SECONDS: Final = 20.0  # for a page of a list of the past, which folds histories: some are archived
FAST_POLL_SECONDS: Final = 0.5  # between two reads of clusters and streams: a failover is seen within a second
POLL_SECONDS: Final = 1.0  # between two reads of what a page shows
SLOW_POLL_SECONDS: Final = 10.0  # between two reads of what changes slowly: history of lag, pathways
POLL_SHARE: Final = (
    4.0  # a read that takes t is followed by a pause of at least 4 t: a large list costs a fifth of a core
)
ROWS_MAX: Final = 50_000  # of one table
LETTERS_MAX: Final = 1_000  # dead letters of one page; the newest are the ones looked for
EVENTS_MAX: Final = 500  # events of one page
EVENTS_READ_MAX: Final = 20_000  # events read to find the newest of them
WORST_LAGS: Final = 20  # lanes on the overview
OVERVIEW_EVENTS: Final = 20
LETTER_TEXT_BYTES_MAX: Final = 1 << 20  # of a dead letter's key or value, shown
NAMES_FOUND_MAX: Final = 200  # of a search
HISTORY_SECONDS: Final = 2 * 3_600  # of lag on a group's page

# --- live pages
FEEDS_MAX: Final = 256  # different pages shown at once; each is read once for all its viewers
FEEDS_PER_IDENTITY_MAX: Final = 128  # of them for one person
FEED_LINGER_SECONDS: Final = 20.0  # for which a page without viewers is still read, so that a reload finds it
FIRST_SECONDS: Final = 5.0  # for which a new page waits for its first answers
WATCHERS_MAX: Final = 1_000  # open streams of all pages
WATCHERS_PER_SESSION_MAX: Final = 32  # a browser opens one a tab
RING_EVENTS_MAX: Final = 512  # events kept to resume from: minutes of a quiet page
RING_BYTES_MAX: Final = 4 << 20  # of them; a page that changes more in a moment is sent anew
HEARTBEAT_SECONDS: Final = 5.0  # a stream is never silent for longer
SEND_SECONDS: Final = 20.0  # after which a browser that accepts no data counts as gone
CHUNK_BYTES: Final = 64 << 10  # sent at once, so that a slow browser holds up no more than that

# --- requests
BODY_BYTES_MAX: Final = 64 << 10
PARAMETER_CHARS_MAX: Final = 4_096  # of one parameter or argument: a SPIFFE id fits
PARAMETERS_MAX: Final = 20
LIST_ITEMS_MAX: Final = 100  # of an argument that is a list
CONNECTIONS_MAX: Final = 2_000  # watchers, and requests beside them
SHUTDOWN_SECONDS: Final = 3.0  # for open streams to end
