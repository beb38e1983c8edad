"""Which offsets a producer cannot have receipts for: those that no log of that age can have reached. Pure.

A receipt beyond the end of a log is the evidence of a cut log (`model/losses.py`), and nothing that is left of the log
refutes it: a broker may go on under its old leader epoch where its log was cut, and ends that were seen before a cut
are not known to a leader that came after it. So a receipt is believed, unless it is beyond what a log can hold at all.
"""

from collections.abc import Iterable

from braid.kernel.errors import Invalid
from braid.kernel.limits.registry import LOG_AGE_SLACK_SECONDS, LOG_RECORDS_PER_S_MAX, OFFSET_MAX


def offset_bound(age_seconds: float) -> int:
    """No log has come beyond this offset that is not older than `age_seconds`."""
    return min(OFFSET_MAX, int((max(0.0, age_seconds) + LOG_AGE_SLACK_SECONDS) * LOG_RECORDS_PER_S_MAX))


def check_offsets(offsets: Iterable[int], age_seconds: float, channel: str, field: str) -> None:
    """Checks offsets that a producer says were acknowledged.

    Args:
        offsets: Of any partitions of one channel.
        age_seconds: The channel's logs are not older.
        channel: Its name, for people.
        field: What held them.

    Raises:
        Invalid: a log of that age cannot have one of them.
    """
    bound, highest = offset_bound(age_seconds), max(offsets, default=0)
    if highest > bound:
        message = f"offset {highest} of channel {channel} is beyond {bound}, which no log of its age can have reached"
        raise Invalid(message, field=field, remedy="tell what the cluster acknowledged; start the producer anew")
