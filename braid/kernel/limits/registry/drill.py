"""Bounds and timeouts of drills, each with its reason. Seconds unless a name says otherwise."""

from typing import Final

# --- drills
DRILL_PREFIX: Final = "drill-"  # of the names of their streams and groups
DRILL_VERDICT_CHARACTERS_MAX: Final = 1_000  # kept in a history
DRILL_PARTITIONS: Final = 3  # of each lane at least; one for each broker where there are more
DRILL_SECONDS_MIN: Final = 3.0  # a third before the failure, a third with it, a third after
DRILL_SECONDS_MAX: Final = 3_600.0  # of one drill, because it takes room on clusters
DRILL_LEAVE_SECONDS: Final = 30.0  # until traffic is elsewhere; ten times what it takes
DRILL_TAKE_OVER_SECONDS: Final = 30.0  # until survivors handle a killed member's partitions
DRILL_DRAIN_SECONDS: Final = 60.0  # until what was left is drained, from when its cluster is reached again
DRILL_SETTLE_SECONDS: Final = 60.0  # until all that was acknowledged is handled, from the end of the load
DRILL_READY_SECONDS: Final = 60.0  # until clusters are trusted, and its stream and processes are ready
DRILL_CLEAN_SECONDS: Final = 30.0  # for its group to be empty and deleted, and its stream
DRILL_END_SECONDS: Final = 15.0  # for a process of its own to end in order
DRILL_LOOK_SECONDS: Final = 0.05  # between two looks at its files
DRILL_ASK_SECONDS: Final = 0.25  # between two questions to the mesh
DRILL_YOUNG_SECONDS: Final = 20.0  # a drill without members may only be starting
DRILL_WAITING_MAX: Final = 10_000  # records sent and not acknowledged; then no more are sent
DRILL_KEYS: Final = 64  # records of one key lie in one partition
DRILL_RECORD_BYTES: Final = 100
DRILL_TICK_SECONDS: Final = 0.02  # between two sends
DRILL_BROKER_LOOK_SECONDS: Final = 0.25  # between two tries to reach a broker that is refused
DRILL_LEASES_SECONDS: Final = 2.0  # leases a member worked on within so long before it was killed
DRILL_RATE_MAX: Final = 10_000  # records a second
