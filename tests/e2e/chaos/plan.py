"""Which faults a run plays, in which order: a seed stands for a deck. Pure."""

import random
from collections.abc import Sequence
from typing import Final

# One deck holds every kind of fault, more than twenty kills in all. Faults of clusters lie apart from one another:
# a cluster that returned is trusted again after ten seconds.
SMALL: Final = (
    *("kill member",) * 4,
    "freeze member for half a lease",
    "freeze member for 1.5 leases",
    "freeze member for 3 leases",
    *("kill producer",) * 3,
    "freeze producer",
    "kill registry leader",
    "kill assigner leader",
    "freeze registry leader",
    "freeze assigner leader",
    "kill all registries",
    "kill all assigners",
)
# What a smoke plays of clusters and whole streams; `FURTHER` comes on top of it where there is time.
CLUSTERS: Final = (
    "kill cluster",
    "move",
    "freeze cluster",
    "move without leader",
    "grow",
    "spread",
    "cluster returns empty",
)
FURTHER: Final = (
    "shrink",
    "decommission",
    "decommissioned cluster dies",
    "move to a dying cluster",
    "cluster returns cut short",
    "cluster returns cut short amid a repartition",
)
# What a run plays on top where clusters have several brokers. Such clusters do not come back empty or cut short: that
# takes every disk at once.
BROKERS: Final = (
    "kill leading broker",
    "kill coordinating broker",
    "kill controlling broker",
    "freeze broker",
    "lose two of three brokers",
    "roll cluster",
    "reassign replicas",
)
_ONE_DISK: Final = "cluster returns"


def deck(seed: int, *, whole: bool = True, brokers: int = 1) -> list[str]:
    """The faults a seed stands for, in order; a smoke's alone where not `whole`.

    Args:
        seed: The deck's.
        whole: Whether there is time for all.
        brokers: Of a cluster.
    """
    chance = random.Random(f"deck/{seed}")
    small, large = list(SMALL), list(CLUSTERS + (FURTHER if whole else ()))
    if brokers > 1:
        large = [*(name for name in large if not name.startswith(_ONE_DISK)), *BROKERS]
    chance.shuffle(small)
    chance.shuffle(large)
    return _interleaved(small, large)


def _interleaved(small: Sequence[str], large: Sequence[str]) -> list[str]:
    """Spreads the large ones evenly, the first one early."""
    step = -(-len(small) // len(large))
    found: list[str] = []
    for number, each in enumerate(large):
        found += [*small[number * step : number * step + step // 2], each]
        found += small[number * step + step // 2 : (number + 1) * step]
    return found
