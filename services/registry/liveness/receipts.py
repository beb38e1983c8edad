"""Rejects receipts that are impossible: offsets that no log of that age can have reached. Pure.

A receipt beyond the end of a log is the evidence for a truncated log (`model/clusters/losses.py`), and nothing in the
remaining log refutes it. A broker may continue under its old leader epoch after a truncation, and a new leader does not
know the ends that were read before. So a receipt counts, unless it is beyond what a log can hold at all.
"""

from collections.abc import Iterable

from braid.kernel.errors import Invalid
from braid.kernel.limits.registry.resources import LOG_AGE_SLACK_SECONDS, LOG_RECORDS_PER_S_MAX, OFFSET_MAX


def offset_bound(age_seconds: float) -> int:
    """An offset that no log younger than `age_seconds` can have reached."""
    return min(OFFSET_MAX, int((max(0.0, age_seconds) + LOG_AGE_SLACK_SECONDS) * LOG_RECORDS_PER_S_MAX))


def check_offsets(offsets: Iterable[int], age_seconds: float, channel: str, field: str) -> None:
    """Checks offsets that a producer reports as acknowledged.

    Args:
        offsets: Offsets of any partitions of one channel.
        age_seconds: The greatest possible age of the channel's logs.
        channel: Its name, for people.
        field: The request field that held them.

    Raises:
        Invalid: no log of that age can have reached one of them.
    """
    bound, highest = offset_bound(age_seconds), max(offsets, default=0)
    if highest > bound:
        message = f"offset {highest} of channel {channel} is beyond {bound}, which no log of its age can have reached"
        raise Invalid(message, field=field, remedy="tell what the cluster acknowledged; start the producer anew")
