"""A day of a group that answers lag and whose members come and go as is desired, in its own time."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from braid.kernel.decider import Context
from braid.kernel.limits.assigner.scaling import SCALING_LAG_SECONDS, SCALING_LOOK_SECONDS
from services.assigner.domain import scaling
from services.assigner.model.lag.scaling import ScalingMode, ScalingPolicy
from services.assigner.model.lag.scaling_events import DesireCapacity, SetScaling
from services.assigner.policy.desired_capacity import GroupFacts, LaneLag, ScalingMemory, fitting_members
from tests.unit.assigner.policy.answering_group import AnsweringGroup

SCALING: Final = ScalingPolicy(ScalingMode.AUTOMATIC, 2, 12)
_HANDLERS: Final = 8  # of a member
_START_SECONDS: Final = 40.0  # until a member that is asked for is at work


class Worked(NamedTuple):
    """One second of a lane: records that came, and records that were done."""

    came: float
    done: float


@dataclass
class AnsweringDay(AnsweringGroup):
    """A group with all three kinds of answers: shares, handlers and members.

    Attributes:
        members: How many are at work.
        scaled: When another number of members was decided, and which.
    """

    members: int = 2
    scaled: list[tuple[float, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        seconds = round(SCALING_LAG_SECONDS)
        self._worked: Mapping[str, deque[Worked]] = {lane: deque(maxlen=seconds) for lane in ("live", "bulk")}
        self._coming: deque[float] = deque()
        super().__post_init__()
        self.scale(SetScaling(SCALING))

    def new_leader(self) -> None:
        """See `AnsweringGroup`."""
        super().new_leader()
        self._scaling = ScalingMemory(self.now)

    def step(self, *, known: bool = True) -> None:
        """See `AnsweringGroup`."""
        while self._coming and self._coming[0] <= self.now:
            self._coming.popleft()
            self.members += 1
        self.handlers = _HANDLERS * self.members
        super().step(known=known)
        if self.now % SCALING_LOOK_SECONDS:
            return
        before = self.state.scaling
        wish = self._scaling.look(before, self._group_facts() if known else None, self.now)
        if wish is not None:
            self.scale(DesireCapacity(wish.members, wish.reason, wish.limit, wish.shortage, before))

    def scale(self, command: SetScaling | DesireCapacity) -> None:
        """Decides on a command about the number of members, and lets them come and go."""
        before = self.state.scaling.desired
        for event in scaling.decide(self.state, command, Context(round(self.now * 1000), "assigner-0")):
            self.state = scaling.evolve(self.state, event, Context(round(self.now * 1000), "assigner-0"))
        desired = self.state.scaling.desired
        assert desired is not None
        if before is not None and desired.members != before.members:
            self.scaled.append((self.now, desired.members))
        while self.members + len(self._coming) < desired.members:
            self._coming.append(self.now + _START_SECONDS)
        if self.members > desired.members:
            self._coming.clear()
            self.members = desired.members

    def changed(self, since: float, until: float) -> Sequence[float]:
        """The moments at which a response or the number of members changed."""
        moments = [*(each.at for each in self.changes), *(at for at, _ in self.scaled)]
        return sorted(at for at in moments if since < at <= until)

    def _work(self) -> None:
        before = {lane: backlog.records for lane, backlog in self.lanes.items()}
        super()._work()
        for lane, arrivals in (("live", self.live), ("bulk", self.bulk)):
            came = max(arrivals(self.now), 0.0)
            self._worked[lane].append(Worked(came, max(before[lane] + came - self.lanes[lane].records, 0.0)))

    def _group_facts(self) -> GroupFacts:
        """Measures the group as a leader does for the number of members."""
        lanes = [self._lane_lag("live", self.target)]
        busy = sum(sum(each.done for each in worked) / len(worked) for worked in self._worked.values()) / self.rate
        return GroupFacts(lanes, self.members, 64, fitting_members([float(_HANDLERS)] * self.members, busy), busy)

    def _lane_lag(self, lane: str, target: float) -> LaneLag:
        worked, backlog = self._worked[lane], self.lanes[lane]
        came, done = (sum(each[at] for each in worked) / len(worked) for at in (0, 1))
        seconds = backlog.seconds(self.now)
        return LaneLag(f"logs/{lane}", target, seconds, round(backlog.records), came, done, done / self.rate)
