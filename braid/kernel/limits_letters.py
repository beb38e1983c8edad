"""Bounds of dead letters on their way to the dlq lane. A part of `limits.py`, which would be too long with them."""

from typing import Final

# --- dead letters on their way
DEAD_LETTERS_SENDING_MAX: Final = 500  # of a stream at once; before one was written, and after a failure, only one
DEAD_LETTER_LATE_SECONDS: Final = 5.0  # without an acknowledgement: `explain` says so, long before the send is given up
DEAD_LETTERS_HELD_MAX: Final = 2_000  # of a lane, sent or waiting; then its intake waits: 12 KiB of headers each
# A topic that a cluster which answers has not known for so long holds nothing to index.
DLQ_UNKNOWN_SECONDS: Final = 30.0
