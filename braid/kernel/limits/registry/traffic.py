"""Bounds and timeouts of moves and failovers, each with its reason. Seconds unless a name says otherwise."""

from typing import Final

# --- emptying a cluster
DECOMMISSION_STREAMS_AT_ONCE: Final = 16  # that change over together: a wave their targets and producers hardly notice
DECOMMISSION_NAMED_MAX: Final = 20  # streams and channels named in a cluster's status; the counts are whole
DECOMMISSION_WAIT_SECONDS: Final = 3_600.0  # `--wait` without a time: drains take as long as the slowest group

# --- where traffic goes
MOVES_PER_ROUND_MAX: Final = 64  # streams moved between two looks at the world
ARRIVALS_AT_ONCE: Final = 128  # streams that change over to one cluster at once: their producers send again meanwhile
CHANGE_OVER_SECONDS: Final = 0.25  # a stream counts as changing over for so long: others hold up none
ARRIVALS_LOOK_SECONDS: Final = 0.02  # between two looks for a place, while traffic is held for want of one
DECIDE_SECONDS: Final = 0.25  # of other decisions, until traffic in trouble is looked for again
SPARE_GRACE_SECONDS: Final = 60.0  # a channel made for a move may stand by so long in a shape the lane has not yet
SPARE_LATE_SECONDS: Final = 3.0  # a topic takes milliseconds; later than that, what must leave looks elsewhere too
DISK_FREE_SHARE_MIN: Final = 0.05  # of a cluster's fullest disk, for new traffic: a broker whose disk is full ends
ZONES_MAX: Final = 8  # in which a lane has an active channel: each has all of the lane's partitions
ZONE_RETURN_SECONDS: Final = 60.0  # after a failover, until a zone gets its channel back: a cluster that flaps does not
PASSED_OVER_NAMED_MAX: Final = 5  # clusters that could not take traffic, in the reason of a failover

# --- loads of clusters
LOAD_LOOK_SECONDS: Final = 10.0  # between two looks at a cluster's disks: they fill slowly, and answers are large
LOAD_LOOKS: Final = 6  # over which bytes a second are averaged: a minute; a burst moves no traffic
LOAD_KEPT_SECONDS: Final = 60.0  # what is older counts as not measured: several looks have failed
LOAD_BROKERS_AT_ONCE: Final = 4  # asked for their disks: some that hang delay the others little
OFFSETS_RETENTION_LOOK_SECONDS: Final = (
    300.0  # between two looks at a setting that changes only when brokers start anew
)
OFFSETS_RETENTION_MINUTES_MIN: Final = 7 * 24 * 60  # Kafka's own default; a shorter one forgets idle groups sooner
LOAD_PARTITIONS_MAX: Final = 50_000  # of one cluster whose growth is followed, in 15 MB; the rest adds to no rate
TOPICS_READ_MAX: Final = 500  # whose settings are asked for at once
