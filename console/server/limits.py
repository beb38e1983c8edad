"""Bounds and timeouts of the console's server, each with its why. Seconds unless named."""

from typing import Final

# --- signing in
LINK_SECONDS: Final = 300.0  # lifetime of a one-time link: time to copy it into a browser
LINK_TEXT_MAX: Final = 200  # characters of a link's token
LINKS_USED_MAX: Final = 10_000  # links remembered as used until they end; beyond it no more are taken
SESSION_SECONDS: Final = 12 * 3_600.0  # a day's work; then one signs in again
SESSIONS_MAX: Final = 2_000  # of all people; then the oldest ends
IDENTITIES_MAX: Final = 500  # different tokens, each with its own connections; further sign-ins are refused
SESSIONS_ENDED_MAX: Final = 200  # ended by a provider, remembered so that their pages can say why

# --- signing in with a provider
LOGIN_SECONDS: Final = 600.0  # to sign in at the provider, with a second factor that must be looked for
LOGINS_MAX: Final = 5_000  # browsers that began and did not finish; then the oldest is forgotten
LOGINS_PER_BROWSER_MAX: Final = 4  # tabs; then the oldest is forgotten
LOGIN_PATH_CHARS_MAX: Final = 1_000  # of the path to return to; a longer one leads to the first page
LOGIN_PARAMETER_CHARS_MAX: Final = 4_096  # of a code or state in the provider's answer
PROVIDER_SECONDS: Final = 8.0  # one question to the provider, waiting for its turn included
PROVIDER_CALLS_MAX: Final = 16  # at once; strangers can cause them
PROVIDER_ANSWER_BYTES_MAX: Final = 1 << 20  # a large set of keys
PROVIDER_SECRET_CHARS_MAX: Final = 16_384  # of one token in an answer; what services get is bounded further
PROVIDER_TEXT_MAX: Final = 300  # of the provider's words in an error
METADATA_SECONDS: Final = 3_600.0  # then the provider's document is read again
METADATA_KEPT_SECONDS: Final = 86_400.0  # that the last good one counts while no newer one can be read
METADATA_PAUSE_SECONDS: Final = 2.0  # between two reads: whoever signs in again and again causes no more
TOKEN_LIFETIME_SECONDS_MAX: Final = 30 * 86_400.0  # that is believed; sessions are shorter
RENEW_BEFORE_SECONDS: Final = 60.0  # before its end a token is renewed: time for some tries
RENEW_BEFORE_SHARE: Final = 1 / 3  # of a token's life, where that is sooner
RENEW_LOOK_SECONDS: Final = 1.0  # between two looks at which tokens end soon: some live for seconds
RENEW_AGAIN_SECONDS: Final = 5.0  # after a failed renewal

# --- reading from services
READ_SECONDS: Final = 2.0  # a leader's time to answer a read; then any replica is asked
FOLLOWER_SECONDS: Final = 1.0  # a follower's time, once the leader did not answer
GATHER_SECONDS: Final = 0.005  # for which a read waits for others of its service, to be sent as one call
PART_SECONDS: Final = 0.25  # of a read in such a call; one that takes longer is asked for alone, and slows no other
SINGLE_SECONDS: Final = 30.0  # for which a slow read, or a service of an older release, is asked in single calls
LEADERLESS_SECONDS: Final = 5.0  # for which a service without a leader is read from its followers
CHANGE_SECONDS: Final = 20.0  # an action, waiting for topics included
PAST_SECONDS: Final = 20.0  # for a page of a list of the past, which folds histories: some are archived
FAST_POLL_SECONDS: Final = 0.5  # between two reads of clusters, streams and lag: what happens is seen within a second
POLL_SECONDS: Final = 1.0  # between two reads of what a page shows
SLOW_POLL_SECONDS: Final = 10.0  # between two reads of what changes slowly: history of lag, pathways
POLL_SHARE: Final = (
    4.0  # a read that takes t is followed by a pause of at least 4 t: a large list costs a fifth of a core
)
ROWS_MAX: Final = 50_000  # of one table
LETTERS_MAX: Final = 1_000  # dead letters of one page; the newest are the ones looked for
EVENTS_MAX: Final = 500  # events of one page
EVENTS_READ_MAX: Final = 20_000  # records of calls, or events of an older release, read to find the newest of them
EVENTS_SEARCH_SECONDS: Final = 8.0  # for older events that match; then a page has what was found, and says how far back
WORST_LAGS: Final = 20  # lanes on the overview
OVERVIEW_EVENTS: Final = 20
LETTER_TEXT_BYTES_MAX: Final = 1 << 20  # of a dead letter's key or value, shown
WINDOW_ROWS: Final = 400  # of all groups sent to a page, of which some forty are in sight
ORDERS_KEPT: Final = 16  # of all groups, of people who sort or filter them differently
SHARED_SECONDS: Final = 0.3  # for which pages share one reading of all groups
SHARED_SHARE: Final = 3.0  # or for 3 t where reading them took t: 45,000 groups cost a quarter of a core at the most
SLOW_LIST_SECONDS: Final = 0.1  # a list that takes longer to read is shown while it is read anew
LATE_LIST_SECONDS: Final = 3.0  # but no longer than this beyond its time: a page that was closed begins with a new one
SETTLE_SECONDS: Final = 0.5  # for which a first page waits for both lists; then it shows what has been read
UNSEEN_SECONDS: Final = 60.0  # after which all groups of a person who looks at none are forgotten
EXPORT_ROWS: Final = 200  # made in a row, some 20 ms; then other pages get their turn
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

# --- messages: the one page that reads brokers
MESSAGES_ROWS_MAX: Final = 500  # of one answer; the page asks for more when somebody wants more
MESSAGES_ROWS_DEFAULT: Final = 100
MESSAGES_LOGS_MAX: Final = 500  # partitions read for one answer; beyond it one names a lane or a partition
MESSAGES_BYTES_MAX: Final = 16 << 20  # of records looked at for one answer, whether they match or not
MESSAGES_RECORDS_MAX: Final = 50_000  # looked at for one answer: a second or two of a core, in small steps
MESSAGES_SECONDS: Final = 8.0  # for one answer; people wait no longer without asking again
MESSAGES_CONTACT_SECONDS: Final = 3.0  # for a cluster's first answer; then its part is told as absent
MESSAGES_FIRST_WINDOW: Final = 4  # records read of each partition at first, since their size is not known
MESSAGES_WINDOW_GROWTH: Final = 4  # from one window to the next, as far as bytes are left
MESSAGES_WINDOW_MAX: Final = 10_000  # records of one partition between two looks at the bounds
MESSAGES_PARTITION_BYTES: Final = 256 << 10  # of one partition in one fetch
MESSAGES_FETCH_RECORDS: Final = 500  # handled in one step of the loop, so that other pages do not wait
MESSAGES_FETCH_SECONDS: Final = 0.25  # a fetch without records returns after this
MESSAGES_PREVIEW_CHARS: Final = 400  # of a key or value in a row
MESSAGES_PREVIEW_BYTES: Final = 16 << 10  # of a value, looked at for its row
MESSAGES_SHOWN_BYTES: Final = 256 << 10  # of one record's key, value or header in full; the rest is a download
MESSAGES_HEADERS_SHOWN: Final = 200  # of one record
MESSAGES_DAMAGED_SHOWN: Final = 20  # batches that cannot be read, named in one answer
MESSAGES_AT_ONCE_MAX: Final = 8  # answers being made, of everybody: each may hold its bytes twice
MESSAGES_AT_ONCE_PER_SESSION: Final = 2
MESSAGES_LARGE_AT_ONCE: Final = 2  # single records being read: each may have 64 MiB
MESSAGES_ASKED_MAX: Final = 40  # answers for one session within the time below
MESSAGES_ASKED_SECONDS: Final = 20.0
TAILS_MAX: Final = 64  # live tails of everybody; each has connections to brokers
TAILS_PER_SESSION_MAX: Final = 4
TAIL_ROWS_MAX: Final = 500  # waiting for a browser; then the oldest are dropped and counted
TAIL_SEND_ROWS: Final = 100  # of one event
TAIL_SEND_SECONDS: Final = 0.25  # between two events
TAIL_RECORDS_PER_S: Final = 2_000  # looked at of one cluster; what is beyond is skipped and counted
TAIL_LOOK_SECONDS: Final = 1.0  # between two looks at the ends of logs
TAIL_RIGHTS_SECONDS: Final = 5.0  # between two checks that the caller still may
PRODUCE_SECONDS: Final = 10.0  # for a record's acknowledgement; then its fate is told as unknown
PRODUCE_ROUTE_SECONDS: Final = 8.0  # for the stream's route
PRODUCE_HEADERS_MAX: Final = 50
PRODUCE_HEADER_CHARS_MAX: Final = 4_096  # of one header's name or value
PRODUCE_BUFFER_BYTES: Final = 4 << 20  # of one record on its way, several times over

# --- schemas of values, where a schema registry is set
SCHEMA_SECONDS: Final = 2.0  # for one schema with all that it refers to
SCHEMA_AWAY_SECONDS: Final = 5.0  # for which a registry that did not answer is left alone, and answers do not wait
SCHEMA_FAILED_SECONDS: Final = 30.0  # for which a schema that cannot be used is remembered as such
SCHEMA_BYTES_MAX: Final = 1 << 20  # of one answer of the registry
SCHEMA_REFERENCES_MAX: Final = 30  # schemas that one refers to, and these again
SCHEMA_PREVIEW_BYTES: Final = 64 << 10  # of a value that is decoded for its row; larger ones when they are opened
SCHEMAS_AT_ONCE: Final = 8  # asked of the registry at once
SCHEMAS_KEPT_MAX: Final = 500  # in memory; then the one that was used least recently is asked for again
SCHEMAS_PER_ANSWER_MAX: Final = 20  # asked of the registry for one answer: senders may make up ids
