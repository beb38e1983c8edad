"""Events and commands of a replay job. Values only."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from services.dlq.model.letters import Cursor
from services.dlq.model.sent_letters import SentLetter


class Position(NamedTuple):
    """The end of a job's range in one partition of a dlq channel: letters up to here belong to the job."""

    generation: int
    partition: int
    next_offset: int


class Skips(NamedTuple):
    """The number of letters skipped for one reason."""

    reason: str
    letters: int


@dataclass(frozen=True, slots=True)
class ReplaySpec:
    """The declared replay, see `replay.proto`. An empty destination is the origin."""

    stream: str
    filter: str = ""
    destination: str = ""
    rate_per_s: float = 0.0
    broadcast: bool = False


# --- events


@dataclass(frozen=True, slots=True)
class ReplayCreated:
    """A job was created; `through` fixes which letters can be part of it, sorted."""

    spec: ReplaySpec
    matched: int
    through: tuple[Position, ...]


@dataclass(frozen=True, slots=True)
class BatchBegun:
    """The intent: the letters after the cursor up to and including `end` are about to be sent."""

    end: Cursor
    letters: int


@dataclass(frozen=True, slots=True)
class ReplayAdvanced:
    """The result: the open batch is acknowledged; `repeated` of its letters may have been sent before.

    `sent_letters`, sorted, are those for which it can be proved later whether their group handled them. No state of a
    job holds them: replicas keep them in their indexes.
    """

    cursor: Cursor
    sent: int
    repeated: int
    skipped: tuple[Skips, ...] = ()
    sent_letters: tuple[SentLetter, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class ReplayPaused:
    """The job was paused: nothing is sent until it is resumed."""


@dataclass(frozen=True, slots=True)
class ReplayResumed:
    """The job was resumed and sends again."""


@dataclass(frozen=True, slots=True)
class ReplayCancelled:
    """The job was cancelled and will never resume."""


@dataclass(frozen=True, slots=True)
class ReplayFinished:
    """The job sent or skipped every letter that matched."""


@dataclass(frozen=True, slots=True)
class ReplayFailed:
    """The job failed for a reason and cannot continue."""

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
    """Creates the job; the shell has checked that what it names exists."""

    spec: ReplaySpec
    matched: int
    through: Sequence[Position]


@dataclass(frozen=True, slots=True)
class BeginBatch:
    """Announces that the runner is about to send a batch."""

    end: Cursor
    letters: int


@dataclass(frozen=True, slots=True)
class Advance:
    """Records that the runner finished the open batch; `sent_again` letters were sent more than once by this run."""

    sent: int
    sent_again: int
    skipped: Sequence[Skips]
    sent_letters: Sequence[SentLetter] = ()


@dataclass(frozen=True, slots=True)
class PauseReplay:
    """Pauses the job at an operator's request."""


@dataclass(frozen=True, slots=True)
class ResumeReplay:
    """Resumes the job at an operator's request."""


@dataclass(frozen=True, slots=True)
class CancelReplay:
    """Cancels the job at an operator's request."""


@dataclass(frozen=True, slots=True)
class FinishReplay:
    """Ends the job because the runner found no more letters."""


@dataclass(frozen=True, slots=True)
class FailReplay:
    """Ends the job because the runner cannot continue."""

    reason: str


Command = CreateReplay | BeginBatch | Advance | PauseReplay | ResumeReplay | CancelReplay | FinishReplay | FailReplay
