"""What handlers and processes of a run do, and what befalls them and the clusters."""

from dataclasses import dataclass

from testbed.checkers.places import LogId, Place


@dataclass(frozen=True, slots=True)
class HandlerStarted:
    """A handler of a group began with a record of a partition; -1: nobody looked with which."""

    group: str
    process: str
    log: LogId
    handler: int
    offset: int = -1


@dataclass(frozen=True, slots=True)
class HandlerEnded:
    """It ended, however."""

    process: str
    handler: int


@dataclass(frozen=True, slots=True)
class Failed:
    """A handler of a group ended without the record: it raised, or was cancelled."""

    value: bytes
    group: str
    place: Place


@dataclass(frozen=True, slots=True)
class Paused:
    """A process was stopped."""

    process: str


@dataclass(frozen=True, slots=True)
class Killed:
    """A process died."""

    process: str


@dataclass(frozen=True, slots=True)
class CutOff:
    """A process reaches no assigner from now on, until it says that it holds something new."""

    process: str


@dataclass(frozen=True, slots=True)
class Troubled:
    """From now on something that lasts befalls somebody; or, where not `begins`, all of it is over."""

    begins: bool


@dataclass(frozen=True, slots=True)
class Flooded:
    """A lane gets many times as many records as usual from now on; or, where not `begins`, no more."""

    lane: str
    begins: bool


@dataclass(frozen=True, slots=True)
class ReplayAsked:
    """Somebody is about to ask for a replay of all dead letters there are."""


@dataclass(frozen=True, slots=True)
class Ailing:
    """Something ails a cluster from now on, or no more: `dead`, `full`, `slow`, `broker`; somebody is cut off from it:
    `registry`, `producer`, `member`.
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
