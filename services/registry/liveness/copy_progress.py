"""Progress of reassignments, as the leader knows it. Pure."""

from dataclasses import dataclass
from typing import NamedTuple

from services.registry.model.channels import ChannelRef


class CopiesKey(NamedTuple):
    """A channel whose number of copies is maintained."""

    stream: str
    ref: ChannelRef


@dataclass(frozen=True, slots=True)
class CopiesProgress:
    """The progress of one reassignment.

    Attributes:
        partitions_left: Number of partitions that lack copies.
        waits_for: Why it does not continue; '' while it does.
    """

    partitions_left: int = 0
    waits_for: str = ""
