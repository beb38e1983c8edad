"""Places of records: logs and offsets. Values only."""

from typing import NamedTuple


class LogId(NamedTuple):
    """One partition's log on one cluster."""

    cluster: str
    topic: str
    partition: int


class Place(NamedTuple):
    """The place of a record: a log and an offset."""

    cluster: str
    topic: str
    partition: int
    offset: int

    @property
    def log(self) -> LogId:
        """Its log."""
        return LogId(self.cluster, self.topic, self.partition)
