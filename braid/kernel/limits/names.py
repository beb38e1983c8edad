"""Bounds of names and shapes, each with its reason. Seconds unless a name says otherwise."""

from typing import Final

# --- names and shapes
PARTITIONS_MAX: Final = 10_000  # a channel; beyond this one topic is the wrong shape
STREAM_PARTITIONS_MAX: Final = 20_000  # a stream, over all lanes; each is a log on its cluster and on every spare's
LANES_MAX: Final = 16  # a stream; lanes are qualities of service, not keys
NUMBER_DIGITS_MAX: Final = 18  # of a number in a name or a token: it fits 63 bits, and `int` refuses thousands
PAGE_SIZE_MAX: Final = 1_000  # items in one List answer
SPIFFE_ID_BYTES_MAX: Final = 2_048  # of a SPIFFE id (SPIFFE-ID, section 2.3)
