"""The health of a cluster, and the reason for it. Values only."""

from enum import Enum


class Health(Enum):
    """The judged health of a cluster. Only a healthy one takes new traffic; traffic leaves a slow or dead one."""

    HEALTHY = "HEALTHY"
    SUSPECT = "SUSPECT"
    DOWN = "DOWN"
    SLOW = "SLOW"
    HALF_DEAD = "HALF_DEAD"
    FLAPPING = "FLAPPING"


class HealthVerdict(Enum):
    """The rule of `judge.py` or `evidence.py` that a health rests on; untold in histories older than verdicts."""

    UNTOLD = ""
    WELL = "WELL"
    DEAD = "DEAD"
    SLOW = "SLOW"
    HALF_DEAD = "HALF_DEAD"
    FLAPPING = "FLAPPING"
    PRODUCERS_CUT_OFF = "PRODUCERS_CUT_OFF"
    REGISTRY_CUT_OFF = "REGISTRY_CUT_OFF"
    NO_TOPICS = "NO_TOPICS"
