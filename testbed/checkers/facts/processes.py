"""Facts about handlers and processes of a run, and about the faults of processes and clusters."""

from dataclasses import dataclass

from testbed.checkers.places import LogId, Place


@dataclass(frozen=True, slots=True)
class HandlerStarted:
    """A handler of a group began with a record of a partition; offset -1 if it was not observed."""

    group: str
    process: str
    log: LogId
    handler: int
    offset: int = -1


@dataclass(frozen=True, slots=True)
class HandlerEnded:
    """A handler ended, in whatever way."""

    process: str
    handler: int


@dataclass(frozen=True, slots=True)
class Failed:
    """A handler of a group ended without finishing the record: it raised, or was cancelled."""

    value: bytes
    group: str
    place: Place


@dataclass(frozen=True, slots=True)
class Paused:
    """A process was stopped by SIGSTOP."""

    process: str


@dataclass(frozen=True, slots=True)
class Killed:
    """A process was killed at this moment."""

    process: str


@dataclass(frozen=True, slots=True)
class CutOff:
    """A process reaches no assigner from now on, until it reports a new lease."""

    process: str


@dataclass(frozen=True, slots=True)
class Troubled:
    """A lasting fault affects somebody from now on; or, if not `begins`, all faults are over."""

    begins: bool


@dataclass(frozen=True, slots=True)
class Flooded:
    """A lane gets many times its usual records from now on; or, if not `begins`, no longer."""

    lane: str
    begins: bool


@dataclass(frozen=True, slots=True)
class ReplayAsked:
    """A replay of all present dead letters is about to be requested."""


@dataclass(frozen=True, slots=True)
class Ailing:
    """A cluster has a fault from now on, or no longer: `dead`, `full`, `slow`, `broker`; or it is cut off from
    somebody: `registry`, `producer`, `member`.
    """

    cluster: str
    ailment: str
    begins: bool


@dataclass(frozen=True, slots=True)
class FalselyCalled:
    """Somebody called who says it is another than it can prove, and was answered, or refused."""

    proved: str
    claimed: str
    answered: bool


@dataclass(frozen=True, slots=True)
class FalselyReported:
    """A producer reported what it cannot know.

    Attributes:
        report: The report, for people.
        heeded: Whether it was not refused.
    """

    report: str
    heeded: bool
