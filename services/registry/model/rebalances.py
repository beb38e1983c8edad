"""Values of moves that even out load between clusters: proposals, moves that were made, and settings. Pure."""

from dataclasses import dataclass
from enum import Enum

from braid.kernel.limits.registry.balancing import BALANCE_BAND, BALANCE_BYTES_PER_DAY, BALANCE_MOVES_AT_ONCE


class BalanceMode(Enum):
    """Whether the registry ignores uneven load, proposes moves, or makes them."""

    OFF = "off"
    PROPOSE = "propose"
    AUTOMATIC = "automatic"


@dataclass(frozen=True, slots=True)
class BalanceRules:
    """How load is evened out in the whole mesh.

    Attributes:
        mode: What is done; a stream whose `failover` is less gets less.
        band: Part of the mean by which a cluster may exceed it.
        moves_at_once: Streams that change over at the same time; 0 for none.
        bytes_per_day: Kept bytes of streams that may move within a day; 0 for none.
    """

    mode: BalanceMode = BalanceMode.OFF
    band: float = BALANCE_BAND
    moves_at_once: int = BALANCE_MOVES_AT_ONCE
    bytes_per_day: int = BALANCE_BYTES_PER_DAY


@dataclass(frozen=True, slots=True)
class Rebalance:
    """A move that evens out load: from where to where, the bytes that stay behind, and why."""

    from_cluster: str
    to_cluster: str
    kept_bytes: int
    reason: str


@dataclass(frozen=True, slots=True)
class RebalanceProposal:
    """A move that an operator is asked to make."""

    from_cluster: str
    to_cluster: str
    reason: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class MadeRebalance:
    """A move that was made, for the budgets."""

    at_ms: int
    kept_bytes: int
