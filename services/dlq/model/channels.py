"""The dlq channels as last received from the registry. Values only."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from braid.kernel.ids import DLQ_LANE


class Presence(Enum):
    """Whether a channel's topic can be read: not yet, now, or no longer."""

    AHEAD = 1  # nothing was sent to it yet
    READABLE = 2  # its topic is there, and may hold dead letters
    GONE = 3  # its topic is deleted


class ClusterPlace(NamedTuple):
    """The address and the security profile of a cluster."""

    bootstrap: str
    security_profile: str


class DlqChannel(NamedTuple):
    """A channel of any lane; only channels of the dlq lane are read."""

    stream: str
    lane: str
    generation: int
    cluster: str
    topic: str
    partitions: int
    presence: Presence


@dataclass(frozen=True, slots=True)
class ChannelView:
    """Every channel by name, and the clusters they are on."""

    channels: Mapping[str, DlqChannel] = field(default_factory=dict)
    clusters: Mapping[str, ClusterPlace] = field(default_factory=dict)

    def readable(self) -> list[DlqChannel]:
        """The dlq channels to read, sorted."""
        wanted = [each for each in self.channels.values() if each.lane == DLQ_LANE]
        return sorted(each for each in wanted if each.presence is Presence.READABLE)

    def streams(self) -> tuple[str, ...]:
        """Streams whose dead letters are read, sorted."""
        return tuple(sorted({each.stream for each in self.readable()}))

    def gone(self, stream: str, generation: int) -> bool:
        """Whether a dlq channel's topic is deleted, or the registry no longer lists it."""
        known = self.channels.get(f"{stream}/{DLQ_LANE}/{generation}")
        return known is None or known.presence is Presence.GONE
