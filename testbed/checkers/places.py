"""Where records lie. Values only."""

from typing import NamedTuple


class LogId(NamedTuple):
    """One partition's log on one cluster."""

    cluster: str
    topic: str
    partition: int


class Place(NamedTuple):
    """Where a record lies."""

    cluster: str
    topic: str
    partition: int
    offset: int

    @property
    def log(self) -> LogId:
        """Its log."""
        return LogId(self.cluster, self.topic, self.partition)
