"""Which faults a run plays, in which order, on which mesh: a seed stands for a deck, or for a slice of one. Pure."""

import random
from collections.abc import Sequence
from typing import Final, NamedTuple

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
# Faults of clusters and whole streams.
CLUSTERS: Final = (
    "kill cluster",
    "move",
    "freeze cluster",
    "move without leader",
    "grow",
    "spread",
    "shrink",
    "decommission",
    "decommissioned cluster dies",
    "move to a dying cluster",
)
# Clusters that return without records. They are played on a cluster of one disk.
LOSING: Final = (
    "cluster returns empty",
    "cluster returns cut short",
    "cluster returns cut short amid a repartition",
)
# Faults inside a cluster, which needs several brokers.
BROKERS: Final = (
    "kill leading broker",
    "kill coordinating broker",
    "kill controlling broker",
    "freeze broker",
    "lose two of three brokers",
    "roll cluster",
    "reassign replicas",
)
# What every slice plays: the checks of a run, and its figures, need these.
ALWAYS: Final = ("kill cluster", "move")
SLICE_LARGE: Final = 6  # faults of clusters and streams in a slice; a whole deck has more than twice as many
SLICE_LARGE_OF_BROKERS: Final = 5  # killing clusters of three brokers takes longer


class Ground(NamedTuple):
    """The mesh that a run plays on.

    Attributes:
        brokers: Of each of the two large clusters; the third has one.
    """

    brokers: int = 1


PLAIN: Final = Ground()
SEVERAL_BROKERS: Final = Ground(brokers=3)
GROUNDS: Final = (PLAIN, SEVERAL_BROKERS)
# Of so many slices, how many each ground gets.
_SHARES: Final = {PLAIN: 3, SEVERAL_BROKERS: 1}


class Slice(NamedTuple):
    """A part of the catalogue, small enough for every run of the suite."""

    ground: Ground
    faults: tuple[str, ...]


def deck(seed: int, ground: Ground = PLAIN) -> list[str]:
    """All faults that a ground allows, in the order that a seed stands for."""
    chance = random.Random(f"deck/{seed}")
    return _shuffled(chance, SMALL, [*CLUSTERS, *LOSING, *further(ground)])


def slice_of(seed: int) -> Slice:
    """The part of the catalogue that a seed stands for.

    It holds all small faults, what every slice plays, one fault that loses records, one that only its ground allows,
    and others by chance. Every entry of the catalogue is in some slice.
    """
    chance = random.Random(f"slice/{seed}")
    ground = chance.choices(list(_SHARES), weights=list(_SHARES.values()))[0]
    large = [*ALWAYS, chance.choice(LOSING), *chance.sample(further(ground), min(1, len(further(ground))))]
    rest = [name for name in (*CLUSTERS, *further(ground)) if name not in large]
    most = SLICE_LARGE if ground == PLAIN else SLICE_LARGE_OF_BROKERS
    return Slice(ground, tuple(_shuffled(chance, SMALL, [*large, *chance.sample(rest, most - len(large))])))


def further(ground: Ground) -> Sequence[str]:
    """Faults that this ground allows beside those of every ground."""
    return BROKERS if ground.brokers > 1 else ()


def _shuffled(chance: random.Random, small: Sequence[str], large: Sequence[str]) -> list[str]:
    small, large = list(small), list(large)
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
