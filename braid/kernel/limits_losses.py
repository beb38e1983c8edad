"""Bounds of what is remembered to find losses by. A part of `limits.py`, which would be too long with them."""

from typing import Final

# --- logs that went on after a connection had ended
RESUMPTIONS_BYTES_MAX: Final = 1 << 20  # of all channels, in one hello; beyond it the older half of each channel's goes
RESUMPTIONS_MAX: Final = 256  # of one channel, that a producer keeps to tell a new registry; the newest
UNPLACED_MAX: Final = 128  # messages of a producer about channels that the history does not know; the newest are kept
STRETCHES_MAX: Final = 16  # of offsets in one of them, by which its records are found; the first and the newest
RESUMPTIONS_TOLD_MAX: Final = 10_000  # of one channel, that a registry has yet to look at; further ones are passed over
EPOCH_LOOKS_MAX: Final = 400  # reads of a log in one look for a cut; six halvings of Kafka's 63 bits, and some
