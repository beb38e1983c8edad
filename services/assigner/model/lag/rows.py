"""Lag of a group at this moment, as lagmon says it. Values only."""

from typing import NamedTuple


class LagRow(NamedTuple):
    """The lag of a lane of one stream, or of one partition.

    Attributes:
        stream: The stream.
        lane: Name of the lane.
        topic: Of a partition; empty for a lane.
        partition: Of the topic; -1 for a lane.
        seconds: Age of the oldest record that is not done.
        records: Records that are not done.
        seconds_to_zero: Of a lane: when nothing is undone if it goes on like this; None for never or not known.
    """

    stream: str
    lane: str
    topic: str
    partition: int
    seconds: float
    records: int
    seconds_to_zero: float | None = None
