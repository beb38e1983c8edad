"""Facts about a group at one moment, as responses to lag are computed from them. Values only."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from braid.kernel.limits.assigner.responses import RESPONSE_CALM


class LaneFacts(NamedTuple):
    """A lane of one stream.

    Attributes:
        stream: The stream.
        lane: Name of the lane.
        seconds: Age of its oldest record that is not done.
        records: Records that are not done.
        target_seconds: Its lag target; None for none.
        stopped: A member has stopped the lane: no response helps.
        seconds_to_zero: When nothing is undone if it goes on like this; None while that is never, or not known.
        busy_per_s: How many handlers it keeps busy.
    """

    stream: str
    lane: str
    seconds: float
    records: int
    target_seconds: float | None = None
    stopped: bool = False
    seconds_to_zero: float | None = None
    busy_per_s: float = 0.0

    @property
    def name(self) -> str:
        """Its name with the stream, such as `logs/live`."""
        return f"{self.stream}/{self.lane}"

    @property
    def late(self) -> bool:
        """Whether it is behind its target."""
        return self.target_seconds is not None and self.seconds > self.target_seconds and not self.stopped

    @property
    def calm(self) -> bool:
        """Whether it is well within its target."""
        return self.target_seconds is None or self.seconds <= self.target_seconds * RESPONSE_CALM

    @property
    def text(self) -> str:
        """How far it is behind, for people."""
        if self.target_seconds is None:
            return f"{self.name} is {self.seconds:.3g} s behind"
        side = "beyond" if self.late else "within"
        return f"{self.name} is {self.seconds:.3g} s behind, {side} its target of {self.target_seconds:g} s"


class LeaseFacts(NamedTuple):
    """A lease of a lane that is behind its target.

    Attributes:
        name: Its name.
        lane: Name of its lane.
        seconds: Age of its oldest record that is not done.
        records: Records that are not done.
    """

    name: str
    lane: str
    seconds: float
    records: int


class SplitFacts(NamedTuple):
    """A lease that is split, or was asked to be.

    Attributes:
        lane: Name of its lane.
        refused: Why its holder did not; empty where it did, or has not answered.
    """

    lane: str
    refused: str = ""


class MemberFacts(NamedTuple):
    """A member of the group beside the others.

    Attributes:
        name: Its client id, or its id.
        ratio: How many times longer a record takes at it; 0 where it cannot be compared.
        seconds: Seconds that a record takes at it.
        usual_seconds: Seconds that a record takes at the others.
        lane: The lane that was compared, with its stream.
        part: How much its handlers ran there, over those of an average member.
    """

    name: str
    ratio: float = 0.0
    seconds: float = 0.0
    usual_seconds: float = 0.0
    lane: str = ""
    part: float = 0.0


@dataclass(frozen=True, slots=True)
class ResponseFacts:
    """A group at one moment.

    Attributes:
        lanes: All lanes that it consumes, of all its streams.
        leases: Leases of lanes that are behind their targets; empty unless a policy asks for them.
        splits: By lease, those that are split now or were asked to be.
        members: By id.
        own: Shares by name of a lane, as members have them by themselves.
        dividable: How many members can be told how to divide their work.
        handlers: How many handlers members run by themselves.
        handlers_max: How many they may be asked to run.
        busy_per_s: How many handlers run, on average.
    """

    lanes: Sequence[LaneFacts]
    leases: Sequence[LeaseFacts] = ()
    splits: Mapping[str, SplitFacts] = field(default_factory=dict)
    members: Mapping[str, MemberFacts] = field(default_factory=dict)
    own: Mapping[str, int] = field(default_factory=dict)
    dividable: int = 0
    handlers: int = 0
    handlers_max: int = 0
    busy_per_s: float = 0.0

    def late(self) -> Iterator[LaneFacts]:
        """Yields the lanes behind their targets, the farthest for its target first."""
        found = [each for each in self.lanes if each.late]
        yield from sorted(found, key=lambda each: each.seconds / (each.target_seconds or 1.0), reverse=True)

    def named(self, lane: str) -> Sequence[LaneFacts]:
        """Returns the lanes of this name, one for each stream."""
        return [each for each in self.lanes if each.lane == lane]
