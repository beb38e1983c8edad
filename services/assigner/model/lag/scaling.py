"""How many members a group should have: the policy that operators set, and what follows from it. Values only.

`policy.desired_capacity` computes the number, `domain.scaling` decides on it, and members come and go by whatever runs
them: the assigner starts and stops no process.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from braid.kernel.limits.assigner.scaling import (
    SCALING_COOLDOWN_DEFAULT,
    SCALING_FACTOR_DEFAULT,
    SCALING_WINDOW_DEFAULT,
)


class ScalingMode(Enum):
    """Modes of a scaling policy; numbered as in `scaling.proto`."""

    OFF = 1
    PROPOSE = 2  # it is recorded and shown
    AUTOMATIC = 3  # scalers are told, too


class CapacityLimit(Enum):
    """Why a shortage of members stays; numbered as in `scaling.proto`."""

    NONE = 1
    BOUND = 2  # the policy, or the number of partitions, allows no more
    NO_GAIN = 3  # members that came did not raise the rate


@dataclass(frozen=True, slots=True)
class ScalingPolicy:
    """How a group's number of members follows its lag and load.

    Attributes:
        mode: What is done about it.
        min_members: No fewer.
        max_members: No more.
        cooldown_seconds: Between two changes, at least.
        window_seconds: So long fewer members would have been enough before fewer are asked for.
        factor: By which the number changes at once, at most.
    """

    mode: ScalingMode = ScalingMode.OFF
    min_members: int = 1
    max_members: int = 1
    cooldown_seconds: float = SCALING_COOLDOWN_DEFAULT
    window_seconds: float = SCALING_WINDOW_DEFAULT
    factor: float = SCALING_FACTOR_DEFAULT


class LaneRates(NamedTuple):
    """A group's lag and rates in one lane, as lagmon keeps them.

    Attributes:
        seconds: Age of the oldest record that is not done.
        records: Records that are not done.
        produced_per_s: Records a second that come, a mean over the last minute.
        done_per_s: Records a second that are done, likewise.
    """

    seconds: float
    records: int
    produced_per_s: float
    done_per_s: float


class SeenRates(NamedTuple):
    """Rates of a group whose members were too few.

    Attributes:
        members: How many there were; 0 when no shortage was seen.
        done_per_s: Records a second that they did.
        produced_per_s: Records a second that came.
        busy_per_s: Busy seconds a second that they reported for it.
        cpu_apart: CPU time and waiting were told apart: it is then in processors, and compares with no other.
    """

    members: int = 0
    done_per_s: float = 0.0
    produced_per_s: float = 0.0
    busy_per_s: float = 0.0
    cpu_apart: bool = False


NO_RATES: Final = SeenRates()


@dataclass(frozen=True, slots=True)
class DesiredCapacity:
    """How many members a group should have.

    Attributes:
        members: The number.
        since_ms: When it was decided, wall clock.
        reason: Why, for people.
        limit: Why that is too few all the same.
        shortage: What was seen when members were last too few.
        incarnation: Of the store in which it was decided; an older one than the store's was restored from a backup.
    """

    members: int
    since_ms: int
    reason: str
    limit: CapacityLimit = CapacityLimit.NONE
    shortage: SeenRates = NO_RATES
    incarnation: int = 0


@dataclass(frozen=True, slots=True)
class Scaling:
    """A group's policy, and the number that follows from it; None while the policy is off."""

    policy: ScalingPolicy = ScalingPolicy()
    desired: DesiredCapacity | None = None


NO_SCALING: Final = Scaling()


def is_restored(scaling: Scaling, incarnation: int) -> bool:
    """Whether a number was decided before the store was restored from a backup, and none since."""
    return scaling.desired is not None and scaling.desired.incarnation < incarnation
