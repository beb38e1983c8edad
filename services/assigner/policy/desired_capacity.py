"""Computes how many members a group should have from its lag, its rates and its load. Pure; no clock.

More members are needed when a lane is behind its target and cannot work its backlog off within a time T at the present
rate. With `produced` and `done` in records a second, a lane needs the rate

    required = produced + (backlog - produced * target) / T

because a backlog of `produced * target` records keeps the target by itself (Little's law, L = λW). Members share the
lanes of their group, so the need is the mean of `required / done`, weighted by what each lane costs them:

    members needed = present members * sum(weight * required / done)

That is the ratio by which Kubernetes' HorizontalPodAutoscaler scales, over rates as in DS2 (Kalavri and others, *Three
steps is all you need*, OSDI 2018). `produced`, `done` and the backlog come from Kafka's logs and commits, so what
members claim about themselves only shifts the weights between lanes.

Fewer members are enough when their capacity carries the load with head-room, and when they are enough by the rate at
which members once were too few. The second is what a measurement says, and stands until the load changes: so fewer
members that were not enough are not tried again.
"""

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from braid.kernel.limits.assigner.scaling import (
    SCALING_ARRIVALS_GROWN,
    SCALING_CATCH_UP_SECONDS,
    SCALING_GAIN_MIN,
    SCALING_LOAD_MAX,
    SCALING_RATE_MAX,
    SCALING_SHORTAGE_SECONDS,
    SCALING_TOLERANCE,
)
from services.assigner.model.lag.scaling import (
    NO_RATES,
    CapacityLimit,
    DesiredCapacity,
    Scaling,
    ScalingMode,
    SeenRates,
)

_CHEAPER_BOUNDS: Final = (0.25, 4.0)  # how far the cost of a record may change what was learned of members
_CHEAPER_NOISE: Final = 1.5  # a cost of a record within this factor of the former one counts as the same


class LaneLag(NamedTuple):
    """A lane with a lag target, as it is now.

    Attributes:
        name: `<stream>/<lane>`.
        target_seconds: Its target.
        seconds: Age of its oldest record that is not done.
        records: Records that are not done.
        produced_per_s: Records a second that come.
        done_per_s: Records a second that are done.
        busy_per_s: Busy seconds a second of its leases, as members report them.
        stopped: A member has stopped the lane: more members do not help.
    """

    name: str
    target_seconds: float
    seconds: float
    records: int
    produced_per_s: float
    done_per_s: float
    busy_per_s: float = 0.0
    stopped: bool = False

    @property
    def late(self) -> bool:
        """Whether the lane is behind its target."""
        return self.seconds > self.target_seconds

    @property
    def catch_up_seconds(self) -> float:
        """Returns the time in which a backlog is to be worked off."""
        return max(self.target_seconds, SCALING_CATCH_UP_SECONDS)

    @property
    def required_per_s(self) -> float:
        """Returns the rate that works the backlog off in time."""
        behind = max(self.records - max(self.produced_per_s, 0.0) * self.target_seconds, 0.0)
        return max(self.produced_per_s, 0.0) + behind / self.catch_up_seconds


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """A group as it is measured now.

    Attributes:
        lanes: Lanes with a target; empty when none has one, or when the lag of one is not known.
        members: Members that may hold leases.
        leases: Partitions that members can share: no more members than that have work.
        fitting: How few members carry the load, by their capacities; `members` when that was not measured.
        busy_per_s: Busy seconds a second of all leases.
        cpu_apart: They are in processors, because CPU time and waiting are told apart.
    """

    lanes: Sequence[LaneLag]
    members: int
    leases: int
    fitting: int
    busy_per_s: float = 0.0
    cpu_apart: bool = False

    @property
    def rates(self) -> SeenRates:
        """Returns what the members do now."""
        done, produced = (sum(getattr(lane, name) for lane in self.lanes) for name in ("done_per_s", "produced_per_s"))
        return SeenRates(self.members, done, produced, self.busy_per_s, self.cpu_apart)


class Wish(NamedTuple):
    """The number of members that a look leads to; see `CapacityDesired`."""

    members: int
    reason: str
    limit: CapacityLimit = CapacityLimit.NONE
    shortage: SeenRates = NO_RATES


def fitting_members(capacities: Sequence[float], busy_per_s: float) -> int:
    """Returns how few members carry a load, whichever of them stay.

    Args:
        capacities: Of all members. One that declares more than the median counts as the median.
        busy_per_s: The load, busy seconds a second.
    """
    if not capacities:
        return 0
    ordered = sorted(capacities)
    median = ordered[len(ordered) // 2]
    carried = 0.0
    for number, capacity in enumerate(ordered, start=1):
        carried += min(capacity, median) * SCALING_LOAD_MAX
        if carried >= busy_per_s:
            return number
    return len(ordered)


def needed_members(facts: GroupFacts) -> float:
    """Returns how many members work all backlogs off in time; the present number where more would not help."""
    busy = [max(lane.busy_per_s, 0.0) for lane in facts.lanes]
    if not sum(busy):
        busy = [max(lane.done_per_s, 0.0) for lane in facts.lanes]
    whole = sum(busy)
    if not whole:
        return float(facts.members)
    ratio = sum(weight / whole * _ratio(lane) for weight, lane in zip(busy, facts.lanes, strict=True))
    return facts.members * ratio


def _ratio(lane: LaneLag) -> float:
    if not lane.late or lane.stopped or lane.done_per_s <= 0:
        return 1.0
    return max(lane.required_per_s / lane.done_per_s, 1.0)


def enough_by_rate(facts: GroupFacts, shortage: SeenRates) -> int:
    """Returns how few members are enough by the rate that they had when they were too few; 1 if that never was seen.

    A record that costs less handler time than then lets a member do more of them, within bounds.
    """
    if not shortage.members or shortage.done_per_s <= 0:
        return 1
    now = facts.rates
    rate = shortage.done_per_s / shortage.members
    alike = now.cpu_apart == shortage.cpu_apart
    if alike and now.busy_per_s > 0 and now.done_per_s > 0 and shortage.busy_per_s > 0:
        cheaper = (shortage.busy_per_s / shortage.done_per_s) / (now.busy_per_s / now.done_per_s)
        if not 1 / _CHEAPER_NOISE < cheaper < _CHEAPER_NOISE:
            rate *= min(max(cheaper, _CHEAPER_BOUNDS[0]), _CHEAPER_BOUNDS[1])
    return max(math.ceil(max(now.produced_per_s, now.done_per_s) / (SCALING_RATE_MAX * rate)), 1)


class ScalingMemory:
    """One group's looks during a term: since when it is short, and how many members would have been enough.

    It is a leader's memory and nothing more. The next leader begins its cool-down and its window anew, so a change of
    the leader delays a change of the number, and never makes one.
    """

    def __init__(self, now: float) -> None:
        """Begins at `now`, in seconds on a clock that never falls."""
        self._changed_at = now
        self._seen: Scaling | None = None
        self._short_since: float | None = None
        self._calm_since: float | None = None
        self._enough: deque[tuple[float, int]] = deque()  # falling numbers: the first is the most in the window

    def look(self, scaling: Scaling, facts: GroupFacts | None, now: float) -> Wish | None:
        """Returns the number of members that the group should have from now on; None when nothing changes.

        Args:
            scaling: The group's policy and present number.
            facts: What is measured; None when lag is stale or not known, which changes nothing.
            now: As in `__init__`.
        """
        if scaling != self._seen:
            if self._seen is not None:
                self._changed_at = now
            self._seen, self._short_since = scaling, None
            self._restart()
        desired = scaling.desired
        if desired is None or scaling.policy.mode is ScalingMode.OFF:
            return None
        if facts is None or not facts.lanes or not facts.members:
            self._short_since = None
            self._restart()
            return None
        if self._short(facts):
            self._restart()
            return self._more(scaling, desired, facts, now)
        self._short_since = None
        if any(lane.late for lane in facts.lanes):
            self._restart()  # it catches up by itself
            return None
        return self._fewer(scaling, desired, facts, now)

    def _restart(self) -> None:
        self._calm_since = None
        self._enough.clear()

    @staticmethod
    def _short(facts: GroupFacts) -> bool:
        return needed_members(facts) > facts.members * (1 + SCALING_TOLERANCE)

    def _more(self, scaling: Scaling, desired: DesiredCapacity, facts: GroupFacts, now: float) -> Wish | None:
        """Asks for more members after a lasting shortage, once those that were asked for before are here."""
        policy = scaling.policy
        if self._short_since is None:
            self._short_since = now
        waited = (
            now - self._short_since >= SCALING_SHORTAGE_SECONDS and now - self._changed_at >= policy.cooldown_seconds
        )
        if not waited or facts.members < desired.members:
            return None
        if desired.limit is CapacityLimit.NO_GAIN and not _grown(facts, desired.shortage):
            return None
        if desired.limit is CapacityLimit.NONE and _in_vain(facts, desired):
            return Wish(desired.members, _vain_text(facts, desired), CapacityLimit.NO_GAIN, facts.rates)
        most = max(min(policy.max_members, facts.leases), policy.min_members)
        step = max(math.floor(facts.members * policy.factor), facts.members + 1)
        wanted = min(math.ceil(needed_members(facts)), step, most)
        if wanted > desired.members:
            return Wish(wanted, _more_text(facts, wanted, step, most), CapacityLimit.NONE, facts.rates)
        if desired.limit is CapacityLimit.BOUND:
            return None
        bound = "the policy allows" if policy.max_members <= facts.leases else "there are partitions for"
        reason = f"{_late_text(facts)}, and {bound} no more than {most} members"
        return Wish(desired.members, reason, CapacityLimit.BOUND, facts.rates)

    def _fewer(self, scaling: Scaling, desired: DesiredCapacity, facts: GroupFacts, now: float) -> Wish | None:
        """Asks for fewer members once fewer would have been enough for the whole window."""
        policy = scaling.policy
        if self._calm_since is None:
            self._calm_since = now
        enough = max(facts.fitting, enough_by_rate(facts, desired.shortage))
        step = min(math.ceil(desired.members / policy.factor), desired.members - 1)
        least = max(policy.min_members, step)
        while self._enough and self._enough[-1][1] <= enough:
            self._enough.pop()
        self._enough.append((now, enough))
        while self._enough[0][0] < now - policy.window_seconds:
            self._enough.popleft()
        if now - max(self._calm_since, self._changed_at) < policy.window_seconds:
            return None
        fewer = max(self._enough[0][1], least)
        minutes = policy.window_seconds / 60
        calm = f"lag kept its target for {minutes:g} min"
        if fewer < desired.members:
            load = f"a load of {facts.busy_per_s:.3g} busy seconds a second is within {SCALING_LOAD_MAX:.0%}"
            return Wish(fewer, f"{calm}, and {load} of what {fewer} members bear")
        return None if desired.limit is CapacityLimit.NONE else Wish(desired.members, calm)


def after_restore(scaling: Scaling, members: int) -> Wish | None:
    """Returns the number of members after the store was restored: nobody is sent away by what a backup says.

    Args:
        scaling: The policy and number of the backup.
        members: How many are here.
    """
    policy, desired = scaling.policy, scaling.desired
    if desired is None:
        return None
    wanted = min(max(members, desired.members, policy.min_members), policy.max_members)
    reason = f"the store was restored from a backup, where {desired.members} were desired; {members} members are here"
    return Wish(wanted, reason)


def _grown(facts: GroupFacts, shortage: SeenRates) -> bool:
    return facts.rates.produced_per_s > shortage.produced_per_s * SCALING_ARRIVALS_GROWN


def _in_vain(facts: GroupFacts, desired: DesiredCapacity) -> bool:
    """Whether members that were asked for came, and the group does hardly more."""
    before = desired.shortage
    if not before.members or desired.members <= before.members or facts.members <= before.members:
        return False
    more = facts.members / before.members - 1
    return facts.rates.done_per_s < before.done_per_s * (1 + SCALING_GAIN_MIN * more)


def _late_text(facts: GroupFacts) -> str:
    worst = max(facts.lanes, key=lambda lane: lane.seconds / lane.target_seconds)
    rates = f"{worst.produced_per_s:.3g} records a second come, {worst.done_per_s:.3g} are done"
    return f"{worst.name} is {worst.seconds:.3g} s behind, beyond its target of {worst.target_seconds:g} s; {rates}"


def _more_text(facts: GroupFacts, wanted: int, step: int, most: int) -> str:
    needed = math.ceil(needed_members(facts))
    bounds = {step: "one step allows", most: "there may be"}
    capped = f", of which {bounds[wanted]} {wanted}" if wanted < needed and wanted in bounds else ""
    worst = max(lane.catch_up_seconds for lane in facts.lanes if lane.late)
    return f"{_late_text(facts)}: {needed} members work that off within {worst:g} s{capped}"


def _vain_text(facts: GroupFacts, desired: DesiredCapacity) -> str:
    before = desired.shortage
    did = f"{facts.members} members do {facts.rates.done_per_s:.3g} records a second"
    return f"{_late_text(facts)}; more members do not help: {did}, {before.members} did {before.done_per_s:.3g}"
