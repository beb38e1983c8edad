"""Channels as the registry describes them, and as a group's history records them. Values only."""

from dataclasses import dataclass
from enum import Enum

from braid.kernel.offset_ranges import OffsetRanges

# --- what the registry tells


class Presence(Enum):
    """Stage of a channel, as far as consumers need to know it."""

    AHEAD = "ahead"  # provisioning or standby
    CONSUMABLE = "consumable"  # active or draining, stranded or not
    DRAINED = "drained"  # sealed, and kept to be read for its stream's retention
    ENDING = "ending"  # drained, and its topic is about to be deleted
    GONE = "gone"  # retired, or nothing can be read in it


@dataclass(frozen=True, slots=True)
class SeenChannel:
    """A channel in the registry's view.

    Attributes:
        name, cluster, topic, partitions, zone: What and where it is.
        presence: Where it stands in its life.
        draining: Whether it is consumed to its end, and takes no traffic.
        given_up: A person ended its drain, and gave up what groups had not done.
        drained_at_ms: When it was drained, wall clock of the registry; 0 before.
        left_revision: The route revision that dropped it; 0 while it is on the route.
        in_order: Channels of its lane are consumed one after the other.
    """

    name: str
    cluster: str
    topic: str
    partitions: int
    presence: Presence
    zone: str = ""
    draining: bool = False
    given_up: bool = False
    drained_at_ms: int = 0
    left_revision: int = 0
    in_order: bool = False


@dataclass(frozen=True, slots=True)
class ChannelView:
    """Channels as the registry knew them at a revision; a channel that is missing has not changed."""

    revision: int
    channels: tuple[SeenChannel, ...] = ()


# --- events


@dataclass(frozen=True, slots=True)
class ChannelObserved:
    """The registry's view of a channel at a revision."""

    channel: str
    cluster: str
    topic: str
    partitions: int
    consumable: bool
    registry_revision: int
    appeared_later: bool
    zone: str = ""
    reading: bool = False
    finished: bool = False
    ending: bool = False
    unproved: bool = False
    left_revision: int = 0
    in_order: bool = False


@dataclass(frozen=True, slots=True)
class ChannelClosed:
    """The channel's topic is going to be deleted; no lease on it will be granted again.

    Attributes:
        channel: Its name.
        registry_revision: Where the registry decided it.
        unread: What the group had not done in it.
    """

    channel: str
    registry_revision: int
    unread: OffsetRanges = ()


# --- commands


@dataclass(frozen=True, slots=True)
class CloseChannel:
    """The registry is about to delete a channel's topic; `unread` is what the group had not done in it."""

    channel: str
    registry_revision: int
    unread: OffsetRanges = ()


@dataclass(frozen=True, slots=True)
class FinishReading:
    """The group has done everything in a drained channel, as its cluster showed.

    Attributes:
        channel: Its name.
        resets: How many resets of the group's progress were recorded when the cluster was asked.
    """

    channel: str
    resets: int


@dataclass(frozen=True, slots=True)
class EndReading:
    """A drained channel's topic is about to be deleted: holders give their leases back first."""

    channel: str


ChannelCommand = CloseChannel | FinishReading | EndReading
