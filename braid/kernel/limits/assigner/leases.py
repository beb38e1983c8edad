"""Bounds and timeouts of leases, groups and members, each with its reason. Seconds unless a name says otherwise."""

from typing import Final

# --- leases and sessions
LEASE_MS_DEFAULT: Final = 3_000
LEASE_MS_MIN: Final = 300
LEASE_MS_MAX: Final = 60_000
HEARTBEATS_PER_LEASE: Final = 4
HEARTBEAT_MS_MAX: Final = 500
CLOCK_RATE_SLACK: Final = 0.01  # both sides allow 1 % for clock rates
LEADER_GRACE_SECONDS: Final = 3.0  # a new leader expires no member sooner
REVOKE_DEADLINE_SECONDS: Final = 30.0  # past it a partition is taken by epoch
PRODUCER_SESSION_SECONDS: Final = 30.0  # a producer that acknowledges no route for so long stops counting
GROUP_IDLE_EXPIRY_SECONDS: Final = 7 * 86_400  # a group without members stops holding drains

# --- assigner
GROUP_STREAMS_MAX: Final = 64  # a group; more is several applications
GROUP_MEMBERS_MAX: Final = 10_000  # a group; beyond this partitions per member make no sense
GRANTS_PER_DECISION_MAX: Final = 5_000  # keeps an event within one append; the next step places the rest
SIGNALS_PER_DECISION_MAX: Final = 50  # lost members and commands in one decision; its events fit one append
DEADLINE_BEAT_SECONDS: Final = 0.025  # between two looks at deadlines; a hang is seen two looks after the lease time
IDLE_CHECK_SECONDS: Final = 10.0  # between two looks for idle groups
HELLO_TEXT_MAX: Final = 255  # characters of a client id, zone or capability; they are recorded
REGISTRY_ANSWER_SECONDS: Final = 5.0  # a join or create waits so long for the registry's channels

# --- fencing by borrowed generations
MEMBERSHIP_SESSION_MS: Final = 1_800_000  # of Braid's membership where the cluster does not tell its largest
MEMBERSHIP_RESERVED_MS: Final = 6_000  # that a reserved id waits to be used, where the cluster does not tell its least
MEMBERSHIP_REBALANCE_MS: Final = 10_000  # a leader may be killed between join and sync: so long no member can commit
MEMBERSHIP_RENEW_SECONDS: Final = 60.0  # between two heartbeats of a membership; sessions last far longer
VACANCY_SECONDS: Final = 1.0  # of a registration, for asking clusters whether others use the group's name
CLUSTER_REACHED_SECONDS: Final = 5.0  # since the last answered commit; after that a member does not vouch for it
REFUSAL_SECONDS: Final = 2.0  # between two bumps that refused commits ask for: what no bump mends makes few events
UNCOMMITTED_RECORDS_MAX: Final = 50_000  # done while commits are refused for an unknown member; then intake pauses

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
BEAT_TELL_AGAIN: Final = 20  # heartbeats, after which clusters out of reach are reported again, though unchanged
BEAT_MEMBERS_MAX: Final = 10_000  # heartbeats in one message: some 10 ms of the assigner's loop
BEAT_NEWS_BYTES: Final = 1 << 20  # of what members tell in one message; more go into the next
BEAT_STREAMS_MAX: Final = 2  # of one connection: one, and one that is about to end
BEAT_ANSWER_SECONDS: Final = 3.0  # for an answer to leave; a client that does not read loses the stream
HEARTBEAT_MESSAGES_AT_ONCE: Final = 1_000  # of one stream, more than gather while either side or the network stands
HEARTBEAT_MESSAGES_PER_SECOND: Final = 50.0  # and then lasting: four times what the shortest lease asks for
LEASE_MESSAGE_BYTES_MAX: Final = 8 << 20  # from a member: a hello that names a quarter of a million leases
NAMESAKES_MAX: Final = 8  # members of one client id that are named to each other; a fleet of one name is told enough
HELLOS_AT_ONCE: Final = 16  # of one process: what all of its members would send at once waits in an assigner's queues
JOINS_AT_ONCE: Final = 100  # of a group, decided together: fewer events than one append takes
REGISTRATIONS_AT_ONCE: Final = 64  # joins of groups that are new, which ask the registry and clusters first
GROUPS_AT_ONCE: Final = 8  # that decide for a common cause before the event loop has a turn: some 5 ms
FLUSHES_AT_ONCE: Final = 100  # members that get a push before the event loop has a turn: some 10 ms
DELTA_LEASES_MAX: Final = 10_000  # granted in one message; with the longest names that is far below what RPCs carry
JOINS_GATHER_SECONDS: Final = 0.5  # members that join together are placed together, not each for the next to undo it
JOIN_TURN_SECONDS: Final = 0.005  # of each join: members are told to wait for them, and a new leader awaits its members
QUEUE_NOTICE_SECONDS: Final = 0.25  # in the queue, until a member is told to wait
WELCOME_ALIVE_SECONDS_MAX: Final = 30.0  # unanswered, though the assigner answers neighbours: then hello is said again
WELCOME_SECONDS_MAX: Final = 300.0  # a member waits so long for its welcome: a queue of twenty thousand is that long
OUTBOX_BYTES_MAX: Final = 32 << 20  # not yet read by one member: deltas of a large group are not small

# --- groups that begin in drained channels
READING_AT_ONCE: Final = 8  # drained channels of a lane and cluster that a group is granted at once, the oldest first
READING_LOOK_SECONDS: Final = 0.5  # between two looks at how far a group with members has read
READING_IDLE_LOOK_SECONDS: Final = 30.0  # between two looks at how far a group without members has read
DRAINED_TIME_SLACK_SECONDS: Final = 3_600.0  # how far ahead of a broker's clock records may be dated
STARTS_AT_ONCE: Final = 16  # starts of one group that are written at the same time
UNREAD_RANGES_MAX: Final = 256  # of one channel and group, that an event names; further ones are joined to the last
