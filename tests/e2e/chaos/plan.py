"""Which faults a run plays, in which order, on which mesh: a seed stands for a deck, or for a slice of one. Pure."""

import random
from collections.abc import Mapping, Sequence
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
    "members 1 to 8 to 1",
    "another mesh on the cluster",
    "another mesh takes a cluster over",
    "cut member off",
    "cut what member says",
    "cut what member hears",
    "cut producer off",
    "clock of a replica steps",
    "clocks of a service step",
    "restore the store",
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
    "disk of one broker full",
)
# Faults of the store, which needs etcd of three members.
STORE: Final = ("kill etcd leader", "lose etcd quorum", "lose etcd quorum for long")
# A disk that is full, which needs disks small enough to fill.
INDEX_DISK: Final = "index's disk full"
DISKS: Final = ("broker's disk full", "store's disk full", INDEX_DISK)
# What every slice plays: the checks of a run, and its figures, need these.
ALWAYS: Final = ("kill cluster", "move")
SLICE_LARGE: Final = 4  # faults of clusters and streams in a slice; a whole deck has six times as many


class Ground(NamedTuple):
    """The mesh that a run plays on.

    Attributes:
        name: Its own.
        brokers: Of each of the two large clusters; the third has one.
        store_members: Of etcd; 0 where the store is SQLite.
        small_disks: Whether brokers have disks of their own, small enough to fill.
        secure: Whether services and applications speak mutual TLS, and rights are enforced.
    """

    name: str
    brokers: int = 1
    store_members: int = 0
    small_disks: bool = False
    secure: bool = True


PLAIN: Final = Ground("plain")
SEVERAL_BROKERS: Final = Ground("brokers", brokers=3, small_disks=True)
ETCD: Final = Ground("etcd", store_members=3)
SMALL_DISKS: Final = Ground("disks", small_disks=True, secure=False)  # so that plain text is played, too
WHOLE: Final = Ground("whole", brokers=3, store_members=3, small_disks=True)  # all that can happen to one mesh
# What each ground allows beside the faults of every ground, and how many of so many slices it gets.
FURTHER: Final[Mapping[Ground, Sequence[str]]] = {
    PLAIN: (),
    SEVERAL_BROKERS: BROKERS,
    ETCD: STORE,
    SMALL_DISKS: DISKS,
    WHOLE: (*BROKERS, *STORE, INDEX_DISK),
}
_SHARES: Final = {PLAIN: 2, SEVERAL_BROKERS: 1, ETCD: 1, SMALL_DISKS: 1}  # the whole one is for hours, not for slices
GROUNDS: Final = tuple(FURTHER)


class Slice(NamedTuple):
    """A part of the catalogue, small enough for every run of the suite."""

    ground: Ground
    faults: tuple[str, ...]


def deck(seed: int, ground: Ground = PLAIN) -> list[str]:
    """All faults that a ground allows, in the order that a seed stands for."""
    chance = random.Random(f"deck/{seed}")
    return _shuffled(chance, SMALL, [*CLUSTERS, *LOSING, *FURTHER[ground]])


def slice_of(seed: int) -> Slice:
    """The part of the catalogue that a seed stands for.

    It holds all small faults, what every slice plays, one fault that loses records, one that only its ground allows,
    and others by chance. Every entry of the catalogue is in some slice.
    """
    chance = random.Random(f"slice/{seed}")
    ground = chance.choices(list(_SHARES), weights=list(_SHARES.values()))[0]
    further = FURTHER[ground]
    large = [*ALWAYS, chance.choice(LOSING), *chance.sample(further, min(1, len(further)))]
    rest = [name for name in (*CLUSTERS, *further) if name not in large]
    return Slice(ground, tuple(_shuffled(chance, SMALL, [*large, *chance.sample(rest, SLICE_LARGE - len(large))])))


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
