"""Clusters, channels and groups, as the registry and the assigner report them. Pure values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

DEAD_LETTER_LANE: Final = "dlq"  # consumed only by groups that name it


class Presence(Enum):
    """The meaning of a channel's state for lag."""

    AHEAD = "not consumed yet"
    OPEN = "consumed"
    DRAINED = "everything in it is done, but by groups that read it since"
    RETIRED = "its topic is gone"


class ClusterPlace(NamedTuple):
    """How to reach a cluster."""

    bootstrap: str
    security_profile: str


class Channel(NamedTuple):
    """A channel: one topic on one cluster."""

    stream: str
    lane: str
    cluster: str
    topic: str
    partitions: int
    presence: Presence
    name: str = ""


@dataclass(frozen=True, slots=True)
class GroupSubscription:
    """The streams and lanes that a registered group consumes; no lanes means all but the dead-letter lane.

    Attributes:
        streams, lanes: Names.
        reading: Drained channels it has yet to read.
        attended: Whether it has a member.
    """

    streams: frozenset[str]
    lanes: frozenset[str] = frozenset()
    reading: frozenset[str] = frozenset()
    attended: bool = True

    def wants(self, channel: Channel) -> bool:
        """Whether the group consumes the channel."""
        if channel.stream not in self.streams:
            return False
        return channel.lane in self.lanes if self.lanes else channel.lane != DEAD_LETTER_LANE

    def lags_in(self, channel: Channel) -> bool:
        """Whether the channel may hold something for the group."""
        if channel.presence is Presence.DRAINED:
            return channel.name in self.reading
        return channel.presence is Presence.OPEN and self.wants(channel)


@dataclass(frozen=True)
class MeshView:
    """The mesh as the registry and the assigner describe it.

    Attributes:
        clusters: By name.
        channels: By name (`<stream>/<lane>/<generation>`).
        groups: Registered groups by name; None before the assigner was heard.
        topics: Channels by cluster and topic.
    """

    clusters: Mapping[str, ClusterPlace] = field(default_factory=dict)
    channels: Mapping[str, Channel] = field(default_factory=dict)
    groups: Mapping[str, GroupSubscription] | None = None

    def __post_init__(self) -> None:
        topics = {(channel.cluster, channel.topic): channel for channel in self.channels.values()}
        object.__setattr__(self, "topics", topics)

    topics: Mapping[tuple[str, str], Channel] = field(init=False, default_factory=dict)

    def subscription(self, group: str) -> GroupSubscription | None:
        """Returns the subscription of a registered group; None for every other group."""
        return self.groups.get(group) if self.groups is not None else None
