"""Bounds of names and shapes, each with its reason. Seconds unless a name says otherwise."""

from typing import Final

# --- names and shapes
PARTITIONS_MAX: Final = 10_000  # a channel; beyond this one topic is the wrong shape
STREAM_PARTITIONS_MAX: Final = 20_000  # a stream, over all lanes; each is a log on its cluster and on every spare's
STREAM_CLUSTERS_MAX: Final = 64  # that a stream may be on; each is compared to the others, and asked for room
MOVE_PARTITIONS_MAX: Final = 100_000  # of all channels that one move asks for: each is a log that it may have to make
BOOTSTRAP_SERVERS_MAX: Final = 64  # of a cluster; each that is silent costs a time-out
LANES_MAX: Final = 16  # a stream; lanes are qualities of service, not keys
NUMBER_DIGITS_MAX: Final = 18  # of a number in a name or a token: it fits 63 bits, and `int` refuses thousands
PAGE_SIZE_MAX: Final = 1_000  # items in one List answer
SPIFFE_ID_BYTES_MAX: Final = 2_048  # of a SPIFFE id (SPIFFE-ID, section 2.3)
