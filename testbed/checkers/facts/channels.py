"""Facts from the registry and the clusters about channels and topics, and from the dlq service about replays."""

from dataclasses import dataclass
from typing import NamedTuple

from braid.kernel.offset_ranges import OffsetRanges


class Topic(NamedTuple):
    """The topic of one channel."""

    cluster: str
    name: str


@dataclass(frozen=True, slots=True)
class ReplayMade:
    """A replay job with this many letters was created."""

    replay: str
    letters: int


@dataclass(frozen=True, slots=True)
class ReplayMoved:
    """A replay has sent all its letters up to this one, except this many. Letters are ordered by generation of their
    channel, partition and offset of their copies.
    """

    replay: str
    letter: tuple[int, int, int]
    skipped: int


@dataclass(frozen=True, slots=True)
class ReplayEnded:
    """A replay ended; `why`, unless it sent everything."""

    replay: str
    why: str


@dataclass(frozen=True, slots=True)
class Subscribed:
    """A group consumes the lane of these topics from now on."""

    group: str
    lane: str


@dataclass(frozen=True, slots=True)
class SealRecorded:
    """The registry recorded a channel as sealed; `refuses` is whether its cluster really refuses appends."""

    topic: Topic
    refuses: bool


@dataclass(frozen=True, slots=True)
class EndsRecorded:
    """The registry recorded a channel's end offsets."""

    topic: Topic
    offsets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DrainRecorded:
    """The registry recorded a channel as drained."""

    topic: Topic
    lane: str


@dataclass(frozen=True, slots=True)
class ResetAsked:
    """A group's progress in a channel is about to be set to these offsets, by partition; -1 leaves it."""

    group: str
    topic: Topic
    offsets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LossRecorded:
    """The registry recorded these offsets of a channel as lost: all it knows by now."""

    topic: Topic
    ranges: OffsetRanges


@dataclass(frozen=True, slots=True)
class GivenUp:
    """An operator ended a channel's drain, and named these offsets as given up."""

    topic: Topic
    ranges: OffsetRanges


@dataclass(frozen=True, slots=True)
class TopicCreated:
    """A cluster created a topic with this id."""

    topic: Topic


@dataclass(frozen=True, slots=True)
class TakenOver:
    """A cluster carries another mesh's mark from now on."""

    cluster: str


@dataclass(frozen=True, slots=True)
class TopicDeleted:
    """A cluster deleted a topic."""

    topic: Topic
