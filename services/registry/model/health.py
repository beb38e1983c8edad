"""What may be believed of a cluster, and for which reason. Values only."""

from enum import Enum


class Health(Enum):
    """What is believed of a cluster. Only a healthy one takes new traffic; a slow or dead one loses its own."""

    HEALTHY = "HEALTHY"
    SUSPECT = "SUSPECT"
    DOWN = "DOWN"
    SLOW = "SLOW"
    HALF_DEAD = "HALF_DEAD"
    FLAPPING = "FLAPPING"


class HealthVerdict(Enum):
    """Why, as a rule of `health.py` and `evidence.py` names it; untold in histories of before there were any."""

    UNTOLD = ""
    WELL = "WELL"
    DEAD = "DEAD"
    SLOW = "SLOW"
    HALF_DEAD = "HALF_DEAD"
    FLAPPING = "FLAPPING"
    PRODUCERS_CUT_OFF = "PRODUCERS_CUT_OFF"
    REGISTRY_CUT_OFF = "REGISTRY_CUT_OFF"
    NO_TOPICS = "NO_TOPICS"
