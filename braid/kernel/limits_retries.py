"""Bounds of records that wait for another attempt. A part of `limits.py`, which would be too long with them."""

from typing import Final

# --- looks at what is parked
RETRY_TICK_SECONDS: Final = 0.02  # between two looks at retries, at least
RETRY_SLACK_SECONDS: Final = 0.064  # a retry waits so much longer at most, to come with others
RETRY_LOOK_SECONDS: Final = 1.0  # between two looks while records are parked, at most

# --- what handlers ask for
RETRY_AFTER_SECONDS_MAX: Final = 31_536_000.0  # a year: far beyond any retention; a longer wait is a mistake in units
