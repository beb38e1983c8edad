"""Leases a member has been sent and has not released. Pure."""

from collections.abc import Mapping, Set
from types import MappingProxyType


class SentLeases:
    """The sent leases of one member by cluster, so that a new generation reads only its own cluster's leases."""

    def __init__(self) -> None:
        self._epochs: dict[str, dict[str, int]] = {}
        self._clusters: dict[str, str] = {}

    @property
    def clusters(self) -> Set[str]:
        """Clusters on which the member has leases."""
        return self._epochs.keys()

    def on(self, cluster: str) -> Mapping[str, int]:
        """The leases on a cluster, with their epochs."""
        return MappingProxyType(self._epochs.get(cluster, {}))

    def add(self, lease: str, epoch: int, cluster: str) -> None:
        """Adds a lease that was sent to the member."""
        if (known := self._clusters.get(lease)) is not None:
            self.drop(lease, self._epochs[known][lease])
        self._clusters[lease] = cluster
        self._epochs.setdefault(cluster, {})[lease] = epoch

    def drop(self, lease: str, epoch: int) -> bool:
        """Removes a lease under this epoch; returns whether the member held it."""
        cluster = self._clusters.get(lease)
        if cluster is None or self._epochs[cluster][lease] != epoch:
            return False
        del self._clusters[lease], self._epochs[cluster][lease]
        if not self._epochs[cluster]:
            del self._epochs[cluster]
        return True
