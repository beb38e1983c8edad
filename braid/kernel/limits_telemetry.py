"""Bounds of what a process tells of itself in metrics and spans. A part of `limits.py`, which would be too long."""

from typing import Final

# --- metrics of clients
ZONE_TALLIES_MAX: Final = 1_024  # ways between a process and clusters whose bytes are counted apart

# --- spans
SPAN_LINKS_MAX: Final = 128  # of one batch; OpenTelemetry's own default bound, beyond which its SDK drops them
TRACE_HEADER_BYTES_MAX: Final = 8 << 10  # a longer one is no trace's: W3C bounds baggage to this, the others to less
