"""Events and commands of a replay job. Values only."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from services.dlq.model.letters import Cursor
from services.dlq.model.sent_letters import SentLetter


class Position(NamedTuple):
    """Up to where the dead letters of one partition of a dlq channel belong to a job."""

    generation: int
    partition: int
    next_offset: int


class Skips(NamedTuple):
    """Letters left out for one reason."""

    reason: str
    letters: int


@dataclass(frozen=True, slots=True)
class ReplaySpec:
    """What is wanted, see `replay.proto`. An empty destination is the origin."""

    stream: str
    filter: str = ""
    destination: str = ""
    rate_per_s: float = 0.0
    broadcast: bool = False


# --- events


@dataclass(frozen=True, slots=True)
class ReplayCreated:
    """A job exists; `through` fixes which letters can be part of it, sorted."""

    spec: ReplaySpec
    matched: int
    through: tuple[Position, ...]


@dataclass(frozen=True, slots=True)
class BatchBegun:
    """The intent: the letters after the cursor up to and with `end` are about to be sent."""

    end: Cursor
    letters: int


@dataclass(frozen=True, slots=True)
class ReplayAdvanced:
    """The result: the open batch is acknowledged; `repeated` of those sent may have been sent before.

    `sent_letters`, sorted, are those of which can be proved later whether their group has handled them. No state of a
    job holds them: replicas keep them in their indexes.
    """

    cursor: Cursor
    sent: int
    repeated: int
    skipped: tuple[Skips, ...] = ()
    sent_letters: tuple[SentLetter, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class ReplayPaused:
    """Nothing is sent until it is resumed."""


@dataclass(frozen=True, slots=True)
class ReplayResumed:
    """It goes on."""


@dataclass(frozen=True, slots=True)
class ReplayCancelled:
    """It will never go on."""


@dataclass(frozen=True, slots=True)
class ReplayFinished:
    """Everything that matched was sent or skipped."""


@dataclass(frozen=True, slots=True)
class ReplayFailed:
    """It cannot go on."""

    reason: str


Event = (
    ReplayCreated
    | BatchBegun
    | ReplayAdvanced
    | ReplayPaused
    | ReplayResumed
    | ReplayCancelled
    | ReplayFinished
    | ReplayFailed
)


# --- commands


@dataclass(frozen=True, slots=True)
class CreateReplay:
    """Makes the job; what it names was found to exist."""

    spec: ReplaySpec
    matched: int
    through: Sequence[Position]


@dataclass(frozen=True, slots=True)
class BeginBatch:
    """The runner is about to send a batch."""

    end: Cursor
    letters: int


@dataclass(frozen=True, slots=True)
class Advance:
    """The runner finished the open batch; `sent_again` were sent more than once by itself."""

    sent: int
    sent_again: int
    skipped: Sequence[Skips]
    sent_letters: Sequence[SentLetter] = ()


@dataclass(frozen=True, slots=True)
class PauseReplay:
    """A person's wish."""


@dataclass(frozen=True, slots=True)
class ResumeReplay:
    """A person's wish."""


@dataclass(frozen=True, slots=True)
class CancelReplay:
    """A person's wish."""


@dataclass(frozen=True, slots=True)
class FinishReplay:
    """The runner found nothing more."""


@dataclass(frozen=True, slots=True)
class FailReplay:
    """The runner cannot go on."""

    reason: str


Command = CreateReplay | BeginBatch | Advance | PauseReplay | ResumeReplay | CancelReplay | FinishReplay | FailReplay
