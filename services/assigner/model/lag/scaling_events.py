"""Events and commands about how many members a group should have. Values only; `domain.scaling` says what they mean."""

from dataclasses import dataclass

from services.assigner.model.group import GroupSpec
from services.assigner.model.lag.scaling import NO_RATES, CapacityLimit, Scaling, ScalingPolicy, SeenRates


@dataclass(frozen=True, slots=True)
class ScalingSet:
    """An operator set the group's scaling policy; its present spec travels beside (see `codec`)."""

    spec: GroupSpec
    policy: ScalingPolicy


@dataclass(frozen=True, slots=True)
class CapacityDesired:
    """The group should have so many members from now on, or has too few for a reason that more would not mend.

    Attributes:
        spec: The group's present spec, which travels beside (see `codec`).
        members: How many.
        reason: Why, for people.
        limit: Why that is too few all the same.
        shortage: What was seen when members were too few; empty where they were not.
    """

    spec: GroupSpec
    members: int
    reason: str
    limit: CapacityLimit = CapacityLimit.NONE
    shortage: SeenRates = NO_RATES


ScalingEvent = ScalingSet | CapacityDesired


@dataclass(frozen=True, slots=True)
class SetScaling:
    """Sets a group's scaling policy."""

    policy: ScalingPolicy


@dataclass(frozen=True, slots=True)
class DesireCapacity:
    """Records how many members the group should have.

    Attributes:
        seen: The policy and number that this was computed from; it counts only while they stand.
    """

    members: int
    reason: str
    limit: CapacityLimit
    shortage: SeenRates
    seen: Scaling


ScalingCommand = SetScaling | DesireCapacity
