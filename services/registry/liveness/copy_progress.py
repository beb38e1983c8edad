"""How far a reassignment has come, as whoever leads knows it. Pure."""

from dataclasses import dataclass
from typing import NamedTuple

from services.registry.model.channels import ChannelRef


class CopiesKey(NamedTuple):
    """A channel whose copies are looked after."""

    stream: str
    ref: ChannelRef


@dataclass(frozen=True, slots=True)
class CopiesProgress:
    """How far a reassignment has come.

    Attributes:
        partitions_left: Those that do not have their copies yet.
        waits_for: Why it does not go on; '' while it does.
    """

    partitions_left: int = 0
    waits_for: str = ""
