"""Bounds of long waits and of comparing wall clocks. A part of `limits.py`, which would be too long with them."""

from typing import Final

# --- waits of days, counted in time that a service was led
LED_COUNT_SECONDS: Final = (
    300.0  # between two records of the count; a leader that is killed loses at most so much of it
)
LED_LOOK_SECONDS: Final = 5.0  # between two looks at the leader's own clock
LED_GAP_SECONDS: Final = 15.0  # a longer time between two looks (suspended, stopped) counts as so much
WAITS_PER_EVENT_MAX: Final = 1_000  # that begin or end, in one event
IDLE_ALERT_SHARE: Final = 0.5  # of a group's idle wait has passed when that is told; the rest passes after it

# --- wall clocks of replicas
CLOCKS_COMPARE_SECONDS: Final = 30.0  # between two comparisons
CLOCKS_APART_SECONDS: Final = 60.0  # from the median; further apart, nothing that waits is deleted or expires
CLOCK_ASK_SECONDS: Final = 2.0  # for one replica's answer
