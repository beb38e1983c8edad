"""Bounds of what a handler may ask for. A part of `limits.py`, which would be too long with them."""

from typing import Final

# --- what handlers ask for
RETRY_AFTER_SECONDS_MAX: Final = 31_536_000.0  # a year: far beyond any retention; a longer wait is a mistake in units
