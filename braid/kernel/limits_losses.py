"""Bounds of what is remembered to find losses by. A part of `limits.py`, which would be too long with them."""

from typing import Final

# --- logs that went on after a connection had ended
RESUMPTIONS_MAX: Final = 256  # of one channel, that a producer keeps to tell a new registry; the newest
RESUMPTIONS_TOLD_MAX: Final = 10_000  # of one channel, that a registry has yet to look at; further ones are passed over
EPOCH_LOOKS_MAX: Final = 200  # reads of a log in one look for a cut; three halvings of Kafka's 63 bits, and some
