"""What the registry and the clusters say about channels and their topics, and the dlq about replays."""

from dataclasses import dataclass
from typing import NamedTuple

from braid.kernel.offset_ranges import OffsetRanges


class Topic(NamedTuple):
    """One channel's topic."""

    cluster: str
    name: str


@dataclass(frozen=True, slots=True)
class ReplayMade:
    """A replay is to send so many letters again."""

    replay: str
    letters: int


@dataclass(frozen=True, slots=True)
class ReplayMoved:
    """All its letters up to that one are sent, but for so many; letters are ordered by generation of their channel,
    partition and offset of their copies.
    """

    replay: str
    letter: tuple[int, int, int]
    skipped: int


@dataclass(frozen=True, slots=True)
class ReplayEnded:
    """It is over; `why`, where not because all is sent."""

    replay: str
    why: str


@dataclass(frozen=True, slots=True)
class Subscribed:
    """A group consumes these topics' lane from now on."""

    group: str
    lane: str


@dataclass(frozen=True, slots=True)
class SealRecorded:
    """The registry believes a channel sealed; `refuses` is whether its cluster really refuses appends."""

    topic: Topic
    refuses: bool


@dataclass(frozen=True, slots=True)
class EndsRecorded:
    """The registry believes a channel ends here."""

    topic: Topic
    offsets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DrainRecorded:
    """The registry believes a channel done."""

    topic: Topic
    lane: str


@dataclass(frozen=True, slots=True)
class ResetAsked:
    """A group's progress in a channel is going to be set to these offsets, by partition; -1: it stays there."""

    group: str
    topic: Topic
    offsets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LossRecorded:
    """The registry believes that a channel lost these offsets: all it knows by now."""

    topic: Topic
    ranges: OffsetRanges


@dataclass(frozen=True, slots=True)
class GivenUp:
    """A person ended a channel's drain, and named these offsets as what is given up."""

    topic: Topic
    ranges: OffsetRanges


@dataclass(frozen=True, slots=True)
class TopicCreated:
    """A cluster made a topic."""

    topic: Topic


@dataclass(frozen=True, slots=True)
class TakenOver:
    """A cluster carries another mesh's mark from now on."""

    cluster: str


@dataclass(frozen=True, slots=True)
class TopicDeleted:
    """A cluster deleted a topic."""

    topic: Topic
