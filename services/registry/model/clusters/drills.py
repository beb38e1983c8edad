"""The mark of a stream that rehearses a failure for another one. Pure: a value and its checks."""

from dataclasses import dataclass
from enum import Enum
from typing import Final

from braid.kernel.errors import Invalid
from braid.kernel.ids import check_name
from braid.kernel.limits.registry.drill import DRILL_PREFIX, DRILL_VERDICT_CHARACTERS_MAX

NO_BROKER: Final = -1


class DrillKind(Enum):
    """The kind of failure that is rehearsed."""

    MOVE = "MOVE"
    CLUSTER_LOSS = "CLUSTER_LOSS"
    BROKER_LOSS = "BROKER_LOSS"
    MEMBER_LOSS = "MEMBER_LOSS"


@dataclass(frozen=True, slots=True)
class Drill:
    """The mark of a drill: the failure it rehearses.

    Attributes:
        stream: The stream it is rehearsed for, which is not touched.
        cluster: The cluster that the drill's clients lose, or that its traffic leaves; '' for none.
        broker: The broker they lose; `NO_BROKER` for none.
    """

    stream: str
    kind: DrillKind
    cluster: str = ""
    broker: int = NO_BROKER


def check_drill(name: str, drill: Drill) -> None:
    """Raises `Invalid` if the stream `name` cannot carry this mark; `field` names what is wrong."""
    check_name(drill.stream, "spec.drill.stream")
    if not name.startswith(DRILL_PREFIX) or drill.stream == name:
        message = f"a stream that rehearses for another one is named {DRILL_PREFIX}…"
        raise Invalid(message, field="name", remedy="`braid drill` names it")
    if drill.kind is not DrillKind.MEMBER_LOSS:
        check_name(drill.cluster, "spec.drill.cluster")
    if (drill.broker >= 0) != (drill.kind is DrillKind.BROKER_LOSS):
        message = f"broker {drill.broker} does not go with {drill.kind.name}"
        raise Invalid(message, field="spec.drill.broker", remedy="name one for BROKER_LOSS alone; -1 is none")


def check_verdict(verdict: str) -> None:
    """Raises `Invalid` for a verdict that is too long to store."""
    if len(verdict) > DRILL_VERDICT_CHARACTERS_MAX:
        message = f"{len(verdict)} characters are more than {DRILL_VERDICT_CHARACTERS_MAX}"
        raise Invalid(message, field="verdict", remedy="shorten it")
