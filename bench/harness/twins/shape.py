"""The size of an invented mesh, and the names and numbers that follow from it. Pure: each process computes the same."""

from collections.abc import Iterator
from math import ceil
from typing import Final, NamedTuple

from braid.kernel.ids import ChannelId
from braid.kernel.limits.assigner.leases import GROUP_STREAMS_MAX

CLUSTERS: Final = 10
PARTITIONS: Final = 22
GROUPS_PER_STREAM: Final = 100
LOG_RECORDS: Final = 10  # of each log, so that groups may be behind
LAGGING: Final = 10  # every tenth group is behind
ENVELOPES: Final = 5  # every fifth group commits envelopes, and each that is behind: nothing is read for its age
LANE: Final = "live"


class Shape(NamedTuple):
    """How large the mesh is.

    Attributes:
        groups: Groups of all clusters; each reads one stream.
    """

    groups: int

    @property
    def streams(self) -> list[str]:
        """The streams by number: one for every hundred groups, and at least one on each cluster."""
        return [f"stream-{number:05d}" for number in range(max(CLUSTERS, self.groups // GROUPS_PER_STREAM))]

    @property
    def clusters(self) -> list[str]:
        """The clusters by number."""
        return [f"cluster-{number}" for number in range(CLUSTERS)]

    @property
    def all_groups(self) -> int:
        """The number of groups with those of dlq, which reads all streams: a group has 64 at most."""
        return self.groups + ceil(len(self.streams) / GROUP_STREAMS_MAX)

    @property
    def leases(self) -> int:
        """The leases of all groups."""
        return self.groups * PARTITIONS

    def cluster_of(self, stream: int) -> str:
        """The cluster that carries a stream."""
        return f"cluster-{stream % CLUSTERS}"

    def readers(self, stream: int) -> Iterator[int]:
        """The numbers of the groups that read a stream."""
        return iter(range(stream, self.groups, len(self.streams)))


def group_name(number: int) -> str:
    """The name of a group."""
    return f"group-{number:06d}"


def topic_of(stream: str, lane: str = LANE) -> str:
    """The topic of a lane's only channel."""
    return ChannelId(stream, lane, 1).topic("braid.")


def behind(group: int) -> int:
    """How many records of each partition a group has not done."""
    return 1 + group // LAGGING % (LOG_RECORDS - 1) if group % LAGGING == 0 else 0
