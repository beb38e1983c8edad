"""Which clusters this replica reads by itself, level-triggered from what its peers show. Pure.

A replica reads a cluster unless a replica ranked before it shows a good reading of the cluster. So none is given up
before somebody else has it, and two may read one for a while, which is harmless.
"""

from collections.abc import Collection, Mapping

from braid.kernel.limits.lagmon.division import LAG_TAKEOVER_SECONDS, LAG_UNREAD_SECONDS
from services.lagmon.division.owners import Division

Shown = Mapping[str, Mapping[str, bool]]  # by member and cluster that it reads, whether that reading is good


class ReadingRule:
    """The rule of one replica; it remembers since when clusters lack a good reading."""

    def __init__(self, instance: str) -> None:
        self._instance = instance
        self._lacking: dict[str, float] = {}

    def decide(self, now: float, division: Division, shown: Shown, reading: Collection[str]) -> frozenset[str]:
        """Returns the clusters to read from now on.

        Args:
            now: Seconds that never step.
            division: Of all clusters between the members, this replica among them.
            shown: What other members show.
            reading: Clusters that this replica reads now.
        """
        self._lacking = {cluster: since for cluster, since in self._lacking.items() if cluster in division.ranks}
        return frozenset(each for each in division.ranks if self._reads(each, now, division, shown, each in reading))

    def _reads(self, cluster: str, now: float, division: Division, shown: Shown, reading: bool) -> bool:
        ranked = division.ranks[cluster]
        before = [shown.get(member, {}).get(cluster) for member in ranked[: ranked.index(self._instance)]]
        if not before or True in before:
            self._lacking.pop(cluster, None)
            return not before
        since = self._lacking.setdefault(cluster, now)
        patience = LAG_UNREAD_SECONDS if all(good is None for good in before) else LAG_TAKEOVER_SECONDS
        return reading or now - since >= patience
