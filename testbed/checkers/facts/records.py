"""Facts about records: sent, stored, handled, given up, lost, committed."""

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
    """A broker wrote a record. `deliverable` is False for records that no application sent (the canary of a seal).

    `leader_epoch` is that of the leader that wrote it; -1 if it was not observed.
    """

    place: Place
    value: bytes
    deliverable: bool = True
    leader_epoch: int = -1


@dataclass(frozen=True, slots=True)
class Processed:
    """A member's sink holds the record, synced to disk."""

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
    """A broker wrote the copy of the record at `place`; the copy is at `copy`, if that was observed."""

    value: bytes
    group: str
    place: Place
    copy: Place | None = None


@dataclass(frozen=True, slots=True)
class Indexed:
    """The dlq service's index holds the letter at `place`: that is all its group does with a record."""

    group: str
    place: Place


@dataclass(frozen=True, slots=True)
class Replayed:
    """A broker wrote a record that had been given up, and is sent again for a group."""

    value: bytes
    group: str
    place: Place


@dataclass(frozen=True, slots=True)
class Expired:
    """A log deleted everything below an offset."""

    log: LogId
    start: int


@dataclass(frozen=True, slots=True)
class Destroyed:
    """A cluster lost the records from `first` up to `stop`, although it had acknowledged them."""

    log: LogId
    first: int
    stop: int


@dataclass(frozen=True, slots=True)
class Committed:
    """A broker stored a group's commit. `beside` is the record it points to, if that was observed.

    `leader_epoch` is the one that Kafka stores with it.
    """

    group: str
    log: LogId
    offset: int
    metadata: str
    beside: tuple[bytes | None, bytes | None] | None = None
    leader_epoch: int = -1
