"""A model of a group whose members come and go as is desired: arrivals, a backlog, members with a rate each."""

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from braid.kernel.decider import Context
from braid.kernel.limits.assigner.scaling import SCALING_LAG_SECONDS, SCALING_LOOK_SECONDS
from services.assigner.domain import scaling
from services.assigner.model.group import Group, GroupSpec
from services.assigner.model.lag.scaling import Scaling, ScalingMode, ScalingPolicy
from services.assigner.model.lag.scaling_events import DesireCapacity, SetScaling
from services.assigner.policy.desired_capacity import GroupFacts, LaneLag, ScalingMemory, fitting_members

HOUR = 3_600.0
Arrivals = Callable[[float], float]
POLICY = ScalingPolicy(ScalingMode.AUTOMATIC, 1, 40)


@dataclass
class ScaledGroup:
    """A group that time passes for.

    Attributes:
        arrivals: Records a second, by seconds since the start.
        rate: Records a second that a member does at most.
        declared: Capacity that members declare; each is busy for 1 at most.
        start_seconds: Until a member that is asked for is at work.
        useful: No more members than that make any difference.
    """

    arrivals: Arrivals
    policy: ScalingPolicy = POLICY
    members: int = 1
    rate: float = 100.0
    declared: float = 1.0
    target: float = 30.0
    leases: int = 64
    start_seconds: float = 40.0
    useful: int = 10**6
    memory: Callable[[float], ScalingMemory] = ScalingMemory
    now: float = 0.0
    backlog: float = 0.0
    changes: list[tuple[float, int, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.state = Group("indexer", GroupSpec(("logs",)))
        self._coming: deque[float] = deque()
        self._rates: deque[tuple[float, float]] = deque(maxlen=round(SCALING_LAG_SECONDS / SCALING_LOOK_SECONDS))
        self._memory = self.memory(0.0)
        self._do(SetScaling(self.policy))
        desired = self.scaling.desired
        assert desired is not None
        self.members = max(self.members, desired.members)
        self._do(DesireCapacity(self.members, "", desired.limit, desired.shortage, self.scaling))

    @property
    def scaling(self) -> Scaling:
        """The policy, and the number as it is desired now."""
        return self.state.scaling

    @property
    def desired(self) -> int:
        """How many members are desired now."""
        desired = self.scaling.desired
        return desired.members if desired is not None else 0

    def run(self, seconds: float) -> "ScaledGroup":
        """Lets time pass."""
        end = self.now + seconds
        while self.now < end:
            self.step()
        return self

    def new_leader(self) -> None:
        """Another leader goes on: it knows the history, and nothing else."""
        self._memory = self.memory(self.now)

    def step(self, *, known: bool = True) -> None:
        """One look's time."""
        self.now += SCALING_LOOK_SECONDS
        while self._coming and self._coming[0] <= self.now:
            self._coming.popleft()
            self.members += 1
        arrived = self.arrivals(self.now)
        able = min(self.members, self.useful) * self.rate
        done = min(able, arrived + self.backlog / SCALING_LOOK_SECONDS)
        self.backlog = max(self.backlog + (arrived - done) * SCALING_LOOK_SECONDS, 0.0)
        self._rates.append((arrived, done))
        wish = self._memory.look(self.scaling, self.facts() if known else None, self.now)
        if wish is not None:
            before = self.scaling
            self._do(DesireCapacity(wish.members, wish.reason, wish.limit, wish.shortage, before))
            if self.scaling != before:
                self.changes.append((self.now, wish.members, wish.reason))
                self._follow()

    def facts(self) -> GroupFacts:
        """Measures the group as a leader does."""
        produced, done = (sum(each[at] for each in self._rates) / len(self._rates) for at in (0, 1))
        seconds = self.backlog / max(produced, 1e-9) if self.backlog else 0.0
        busy = done / self.rate
        lane = LaneLag("logs/live", self.target, seconds, math.ceil(self.backlog), produced, done, busy)
        fitting = fitting_members([self.declared] * self.members, busy)
        return GroupFacts([lane], self.members, self.leases, fitting, busy)

    def numbers(self, since: float = 0.0) -> list[int]:
        """The numbers that were decided since a time."""
        return [members for at, members, _ in self.changes if at > since]

    def _follow(self) -> None:
        while self.members + len(self._coming) < self.desired:
            self._coming.append(self.now + self.start_seconds)
        if self.members > self.desired:
            self._coming.clear()
            self.members = self.desired

    def _do(self, command: SetScaling | DesireCapacity) -> None:
        here = Context(round(self.now * 1000), "assigner-0")
        for event in scaling.decide(self.state, command, here):
            self.state = scaling.evolve(self.state, event, here)
