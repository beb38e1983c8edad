"""The load of a chaos run: the stream, the group, and the fate of each record. Values only."""

import zlib
from typing import Final

CLUSTERS: Final = ("east", "west", "north")
LARGE: Final = ("east", "west")  # which have several brokers in a run that asks for it
STREAM: Final = "orders"
TOPIC_PREFIX: Final = f"braid.{STREAM}."
GROUP: Final = "billing"
PARTITIONS: Final = {"live": 4, "bulk": 2, "dlq": 1}
LANES: Final = ("live", "bulk")
LEASE_SECONDS: Final = 2.0
PRODUCERS: Final = ("producer-0", "producer-1")
MEMBERS: Final = ("member-0", "member-1", "member-2")
BURST: Final = 6  # records a producer begins to send at once
BURST_SECONDS: Final = 0.05  # between two bursts
KEYS: Final = 41  # of two records in three; the third has none
UNACKNOWLEDGED_MAX: Final = 3_000  # then a producer waits, as it does while no cluster answers
DELIVERY_SECONDS: Final = 90.0


def fate_of(value: bytes) -> str:
    """The fate of a record in handlers, decided by its value: most succeed, some are flaky, refused or poison."""
    dice = zlib.crc32(value[::-1]) % 1_000
    return "poison" if dice < 5 else "refused" if dice < 15 else "flaky" if dice < 30 else "fine"


def lane_of(value: bytes) -> str:
    """The lane of a record: most go to live."""
    return "bulk" if zlib.crc32(value) % 4 == 0 else "live"
