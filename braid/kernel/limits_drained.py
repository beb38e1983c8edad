"""Bounds of reading drained channels. A part of `limits.py`, which would be too long with them."""

from typing import Final

# --- groups that begin in drained channels
READING_AT_ONCE: Final = 8  # drained channels of a lane and cluster that a group is granted at once, the oldest first
READING_LOOK_SECONDS: Final = 0.5  # between two looks at how far a group with members has read
READING_IDLE_LOOK_SECONDS: Final = 30.0  # the same without members; only an operator or a foreign tool commits then
DRAINED_TIME_SLACK_SECONDS: Final = 3_600.0  # how far ahead of a broker's clock records may be dated
STARTS_AT_ONCE: Final = 16  # starts of one group that are written at the same time
UNREAD_RANGES_MAX: Final = 256  # of one channel and group, that an event names; further ones are joined to the last
UNREAD_SHOWN_MAX: Final = 16  # closed channels of a group whose unread ranges are shown, the latest
