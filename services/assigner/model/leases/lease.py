"""A lease, and the parts of its name. Values only."""

from dataclasses import dataclass
from enum import Enum
from typing import Final

_DIGITS_MAX: Final = 9


class LeaseState(Enum):
    """The state of a lease; numbered as in `group.proto`."""

    FREE = 1
    HELD = 2
    REVOKING = 3


@dataclass(frozen=True, slots=True)
class Lease:
    """A partition that was granted at least once.

    Attributes:
        state: Whether it is held.
        holder: The member's id; empty while it is free.
        epoch: Of the newest grant, also while it is free.
        since_ms: Of this state, wall clock.
        deadline_ms: Until when it is to be given back, while it is asked for.
        reason: Why it is asked for.
        home: Client id of who held it and went; to whom it returns.
        home_since_ms: When that was.
    """

    state: LeaseState
    holder: str
    epoch: int
    since_ms: int
    deadline_ms: int = 0
    reason: str = ""
    home: str = ""
    home_since_ms: int = 0


def channel_of(lease: str) -> str:
    """Returns the channel's name in a lease's name."""
    return lease.rpartition("/")[0]


def partition_of(lease: str) -> int:
    """Returns the partition's number in a lease's name."""
    return int(lease.rpartition("/")[2])


def split(name: str) -> tuple[str, int]:
    """Returns channel and partition; -1 for a partition not in canonical decimal form, so that names stay unique."""
    channel, _, tail = name.rpartition("/")
    plain = tail.isascii() and tail.isdecimal() and len(tail) <= _DIGITS_MAX and (tail[0] != "0" or tail == "0")
    return channel, int(tail) if plain else -1
