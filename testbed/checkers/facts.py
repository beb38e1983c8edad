"""Facts of a run, as a journal holds them in the order they happened. Values only.

A fact is what somebody trustworthy saw (a sink, a broker, the event store), never what the code under test claims.
"""

from dataclasses import dataclass
from typing import NamedTuple

from braid.kernel.offset_ranges import OffsetRanges
from braid.kernel.ports import HistoryId
from testbed.checkers.places import LogId as LogId
from testbed.checkers.places import Place as Place

# --- records


@dataclass(frozen=True, slots=True)
class Sent:
    """An application is about to hand a record to a producer."""

    value: bytes


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """`send` returned: the record counts as stored."""

    value: bytes
    place: Place


@dataclass(frozen=True, slots=True)
class Appended:
    """A broker wrote a record. `deliverable` is False for what no application sent (the canary of a seal).

    `leader_epoch` is that of the leader that took it; -1 where nobody looked.
    """

    place: Place
    value: bytes
    deliverable: bool = True
    leader_epoch: int = -1


@dataclass(frozen=True, slots=True)
class Processed:
    """A member's sink holds the record, synced."""

    value: bytes
    group: str
    place: Place
    epoch: int


@dataclass(frozen=True, slots=True)
class Rejected:
    """A handler refused the record in place."""

    value: bytes
    group: str
    place: Place


@dataclass(frozen=True, slots=True)
class DeadLettered:
    """A broker wrote the copy of a record that lies at `place`; the copy lies at `copy`, where somebody looked."""

    value: bytes
    group: str
    place: Place
    copy: Place | None = None


@dataclass(frozen=True, slots=True)
class Indexed:
    """The dlq service's index holds the letter that lies at `place`: so much does its group do with a record."""

    group: str
    place: Place


@dataclass(frozen=True, slots=True)
class Replayed:
    """A broker wrote a record that was given up before, and is sent again for a group."""

    value: bytes
    group: str
    place: Place


@dataclass(frozen=True, slots=True)
class Expired:
    """A log lost everything below an offset."""

    log: LogId
    start: int


@dataclass(frozen=True, slots=True)
class Destroyed:
    """A cluster lost what a log held from `first` up to `stop`, although it had acknowledged it."""

    log: LogId
    first: int
    stop: int


@dataclass(frozen=True, slots=True)
class Committed:
    """A broker stored a group's commit. `beside` is what lay where it points to, where somebody looked.

    `leader_epoch` is the one that Kafka stores beside it.
    """

    group: str
    log: LogId
    offset: int
    metadata: str
    beside: tuple[bytes | None, bytes | None] | None = None
    leader_epoch: int = -1


# --- handlers


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


# --- what a run does


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


# --- what members were told


@dataclass(frozen=True, slots=True)
class LeaseTold:
    """A member of a group, in a process, works on a lease under an epoch from now on."""

    process: str
    group: str
    lease: str
    member: str
    epoch: int


@dataclass(frozen=True, slots=True)
class LeaseDropped:
    """The process takes up nothing more of it: it was asked back, taken, or given up."""

    process: str
    group: str
    lease: str
    epoch: int


@dataclass(frozen=True, slots=True)
class Steady:
    """From now on nothing befalls a group's members; or, where not `steady`, something may again."""

    group: str
    steady: bool


# --- clusters


@dataclass(frozen=True, slots=True)
class Ailing:
    """Something ails a cluster from now on, or no more: `dead`, `full`, `slow`, `broker`; somebody is cut off from it:
    `registry`, `producer`, `member`.
    """

    cluster: str
    ailment: str
    begins: bool


# --- the event store


@dataclass(frozen=True, slots=True)
class BatchAppended:
    """The event store wrote events."""

    history: HistoryId
    first: int
    events: tuple[bytes, ...]
    revision: int


@dataclass(frozen=True, slots=True)
class Folded:
    """A replica's live state of a history after an event, as its codec writes it."""

    instance: str
    history: HistoryId
    sequence: int
    state: bytes


@dataclass(frozen=True, slots=True)
class BatchWatched:
    """A watch delivered a batch."""

    watch: int
    service: str
    after_revision: int
    revision: int
    history: HistoryId
    first: int


@dataclass(frozen=True, slots=True)
class AppendAnswered:
    """A client's append ended: how it was reported (`appended`, `refused`, `unknown`), how often it was carried out."""

    history: HistoryId
    reported: str
    carried_out: int


@dataclass(frozen=True, slots=True)
class StoreBackedUp:
    """Somebody copied the event store."""


@dataclass(frozen=True, slots=True)
class StoreRestored:
    """The event store is what its newest copy holds: what it wrote since is forgotten, and no cluster knows of that."""


# --- what histories tell


@dataclass(frozen=True, slots=True)
class EventDecided:
    """A leader of a service wrote an event; `leading` is the epoch of whom the store held for the leader just then."""

    service: str
    leader_epoch: int
    leading: int


@dataclass(frozen=True, slots=True)
class LeaseGranted:
    """A member holds a lease under an epoch; decided at a wall-clock time (ms) of its leader."""

    group: str
    lease: str
    member: str
    epoch: int
    at_ms: int


@dataclass(frozen=True, slots=True)
class LeaseFreed:
    """A lease is nobody's: what was granted under the epoch has ended."""

    group: str
    lease: str
    epoch: int


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


class Topic(NamedTuple):
    """One channel's topic."""

    cluster: str
    name: str


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


Fact = (
    Sent
    | Acknowledged
    | Appended
    | Processed
    | Rejected
    | DeadLettered
    | Indexed
    | Replayed
    | Expired
    | Destroyed
    | Committed
    | HandlerStarted
    | HandlerEnded
    | Failed
    | Troubled
    | Flooded
    | ReplayAsked
    | Paused
    | Killed
    | CutOff
    | LeaseTold
    | LeaseDropped
    | Steady
    | BatchAppended
    | Ailing
    | Folded
    | BatchWatched
    | AppendAnswered
    | StoreBackedUp
    | StoreRestored
    | EventDecided
    | LeaseGranted
    | LeaseFreed
    | ReplayMade
    | ReplayMoved
    | ReplayEnded
    | Subscribed
    | SealRecorded
    | EndsRecorded
    | DrainRecorded
    | ResetAsked
    | LossRecorded
    | GivenUp
    | TopicCreated
    | TakenOver
    | TopicDeleted
)
