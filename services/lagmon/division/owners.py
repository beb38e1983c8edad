"""The order in which replicas come to read each cluster: rendezvous hashing, with an even share for each. Pure.

Every replica computes the same from the same names. Where replicas know different members for a moment, `reading` keeps
clusters read.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b

_WEIGHT_BYTES = 8


@dataclass(frozen=True, slots=True)
class Division:
    """The division of all clusters between members.

    Attributes:
        members: Replicas that share what they read.
        ranks: By cluster, all members; the first one reads it, the next one if the first does not, and so on.
    """

    members: Collection[str]
    ranks: Mapping[str, Sequence[str]]

    def owned(self, member: str) -> frozenset[str]:
        """Returns the clusters whose first reader a member is."""
        return frozenset(cluster for cluster, ranked in self.ranks.items() if ranked[0] == member)


def divide(clusters: Collection[str], members: Collection[str]) -> Division:
    """Divides clusters, so that no member has more than an even share, rounded up.

    Pairs of a cluster and a member are taken by falling weight while both are free, so that few clusters move when a
    member comes or goes. Clusters beyond the first are ranked by weight alone.
    """
    known = sorted(set(members))
    assert known, "the asking replica is a member itself"
    weights = {(cluster, member): _weight(cluster, member) for cluster in set(clusters) for member in known}
    room = dict.fromkeys(known, -(-len(set(clusters)) // len(known)))
    owners: dict[str, str] = {}
    for cluster, member in sorted(weights, key=lambda pair: (-weights[pair], pair)):
        if cluster not in owners and room[member]:
            owners[cluster] = member
            room[member] -= 1
    ranks = {
        cluster: (owner, *sorted(set(known) - {owner}, key=lambda member: (-weights[cluster, member], member)))
        for cluster, owner in owners.items()
    }
    return Division(frozenset(known), ranks)


def _weight(cluster: str, member: str) -> int:
    name = f"{len(cluster)}:{cluster}{member}".encode()
    return int.from_bytes(blake2b(name, digest_size=_WEIGHT_BYTES).digest(), "big")
