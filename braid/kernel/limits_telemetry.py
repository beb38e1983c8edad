"""Bounds of what a process tells of itself in metrics. A part of `limits.py`, which would be too long with them."""

from typing import Final

# --- metrics of clients
ZONE_TALLIES_MAX: Final = 1_024  # ways between a process and clusters whose bytes are counted apart
