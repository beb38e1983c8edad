"""Bounds and times of where traffic goes, each with its why. Seconds unless named.

A part of `limits.py`, which would be too long with them.
"""

from typing import Final

# --- where traffic goes
MOVES_PER_ROUND_MAX: Final = 64  # streams moved between two looks at the world
ARRIVALS_AT_ONCE: Final = 128  # streams that change over to one cluster at once: their producers send again meanwhile
CHANGE_OVER_SECONDS: Final = 0.25  # a stream counts as changing over for so long: others hold up none
ARRIVALS_LOOK_SECONDS: Final = 0.02  # between two looks for a place, while traffic is held for want of one
DECIDE_SECONDS: Final = 0.25  # of other decisions, until traffic in trouble is looked for again
SPARE_GRACE_SECONDS: Final = 60.0  # a channel made for a move may stand by so long in a shape the lane has not yet
SPARE_LATE_SECONDS: Final = 3.0  # a topic takes milliseconds; later than that, what must leave looks elsewhere too
DISK_FREE_SHARE_MIN: Final = 0.05  # of a cluster's fullest disk, for new traffic: a broker whose disk is full ends
PASSED_OVER_NAMED_MAX: Final = 5  # clusters that could not take traffic, in the reason of a failover
