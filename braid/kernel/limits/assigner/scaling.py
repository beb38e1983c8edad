"""Bounds and times of how many members a group should have, with reasons. Seconds unless a name says otherwise."""

from typing import Final

SCALING_LOOK_SECONDS: Final = 10.0  # between two looks at a group: as often as lag is kept
SCALING_LAG_SECONDS: Final = 60.0  # of kept lag whose mean counts as the present rate
SCALING_STALE_SECONDS: Final = 30.0  # lag that is older is not known
SCALING_ANSWER_SECONDS: Final = 2.0  # for an answer of lagmon or the registry; without one nothing changes
SCALING_TARGETS_SECONDS: Final = 60.0  # a stream's lag targets are read again
SCALING_SHORTAGE_SECONDS: Final = 30.0  # a shortage lasts so long before members are asked for: longer than a hand-over
SCALING_CATCH_UP_SECONDS: Final = 120.0  # a backlog is worked off within the target or this, whichever is longer
SCALING_PREVIEWS_MAX: Final = 3  # numbers of members that one look previews: each costs a placement
SCALING_RESTORED_SECONDS: Final = 60.0  # until members of a backup that are gone have expired, by default lease times
SCALING_TOLERANCE: Final = 0.1  # need above the present members that changes nothing, as in Kubernetes
SCALING_LOAD_MAX: Final = 0.7  # of a member's capacity, with fewer members: the rest is for what comes next
SCALING_RATE_MAX: Final = 0.8  # of the rate at which a member once was too slow
SCALING_GAIN_MIN: Final = 0.2  # of the rate that more members should have added; with less they do not help
SCALING_ARRIVALS_GROWN: Final = 1.25  # arrivals grown so far are another load, for which members may help again
SCALING_COOLDOWN_DEFAULT: Final = 60.0  # between two changes: a new process starts and gets its leases
SCALING_COOLDOWN_MIN: Final = 15.0  # less than a member takes to join and be given work
SCALING_COOLDOWN_MAX: Final = 86_400.0
SCALING_WINDOW_DEFAULT: Final = (
    3_600.0  # so long fewer members would have been enough: nothing is undone within an hour
)
SCALING_WINDOW_MIN: Final = 300.0  # shorter ones follow every wave of a load
SCALING_WINDOW_MAX: Final = 7 * 86_400.0
SCALING_FACTOR_DEFAULT: Final = 2.0  # members change by at most this factor at once
SCALING_FACTOR_MAX: Final = 10.0
SCALING_REASON_CHARS_MAX: Final = 400  # of a recorded reason
SCALER_STREAMS_SECONDS: Final = 20.0  # between two messages of a scaler's stream without a change: shows that it lives
