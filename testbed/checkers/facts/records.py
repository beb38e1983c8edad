"""What became of records: sent, stored, handled, given up, lost, committed."""

from dataclasses import dataclass

from testbed.checkers.places import LogId, Place


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
