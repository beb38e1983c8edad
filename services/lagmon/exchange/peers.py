"""The other lag monitors of the mesh: found in the directory, asked for what they read, and remembered when they go."""

import asyncio
import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence

from braid.kernel.errors import Unavailable
from braid.kernel.limits.lagmon.division import LAG_MEMBERS_IDLE_SECONDS, LAG_MEMBERS_LOOK_SECONDS, LAG_PEERS_MAX
from braid.kernel.ports import Task
from braid.runtime.replica import Replica
from services.lagmon.division.views import ClusterView
from services.lagmon.exchange.peer import Peer


class LagPeers:
    """All other lag monitors of the mesh. A mesh without any costs one look into the directory now and then.

    Attributes:
        looked: Whether the directory was read once.
    """

    def __init__(self, replica: Replica, changed: Callable[[], None]) -> None:
        """`changed` is called whenever peers came, went, answered, or did not."""
        self.looked = False
        self._left: dict[str, ClusterView] = {}
        self._replica = replica
        self._changed = changed
        self._peers: dict[tuple[str, str], tuple[Peer, Task]] = {}  # by instance and address
        self._news = asyncio.Event()

    @property
    def members(self) -> Mapping[str, Peer]:
        """Peers with which clusters are divided, by name."""
        return {peer.instance: peer for peer, _ in self._peers.values() if peer.is_member}

    def views(self, cluster: str) -> Sequence[ClusterView]:
        """Returns what peers read of a cluster; last what is left of those that read it before."""
        left = self._left.get(cluster)
        return [*self._present(cluster), *([left] if left is not None else [])]

    def forget(self, cluster: str) -> None:
        """Forgets what is left of earlier readers of a cluster: somebody reads it now, or it is gone."""
        self._left.pop(cluster, None)

    def keep_only(self, clusters: Collection[str]) -> None:
        """Forgets what is left of clusters that are gone."""
        for gone in self._left.keys() - set(clusters):
            self.forget(gone)

    def asked_by(self, instance: str) -> None:
        """Hears that a replica asks; one that is not known is looked for in the directory."""
        if all(known != instance for known, _ in self._peers):
            self._news.set()

    async def run(self) -> None:
        """Follows the directory until cancelled."""
        clock = self._replica.host.clock
        try:
            while True:
                await self._look()
                self._changed()
                await clock.sleep(LAG_MEMBERS_LOOK_SECONDS)
                if not self._peers:
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(LAG_MEMBERS_IDLE_SECONDS):
                            await self._news.wait()
                self._news.clear()
        finally:
            for _, task in self._peers.values():
                task.cancel()

    async def _look(self) -> None:
        with contextlib.suppress(Unavailable):  # the directory as last read stands
            await self._take_directory()
        self.looked = True
        now = self._replica.host.clock.elapsed()
        for cluster in list(self._left):
            if any(view.standing.good(now) for view in self._present(cluster)):
                self.forget(cluster)
        for key, (peer, _) in list(self._peers.items()):
            if peer.is_gone:
                await self._leave(key)

    async def _take_directory(self) -> None:
        replica = self._replica
        found = {
            (each.instance, each.address): each.tls_address
            for each in await replica.endpoints()
            if each.service == replica.name and each.instance != replica.instance
        }
        if not replica.directory_stale:
            for key, (peer, _) in self._peers.items():
                peer.listed = key in found
        for key in sorted(found.keys() - self._peers.keys())[: max(0, LAG_PEERS_MAX - len(self._peers))]:
            self._meet(*key, found[key])

    def _meet(self, instance: str, address: str, tls_address: str) -> None:
        replica = self._replica
        channel = replica.transport.channel(address, tls_address)
        peer = Peer(replica.host, channel, instance, replica.instance, self._changed, self._keep, replica.log)
        self._peers[instance, address] = peer, replica.host.tasks.spawn(peer.run(), f"lag of {instance}")

    async def _leave(self, key: tuple[str, str]) -> None:
        """Forgets a peer, but not what it read last: that is shown with its age until somebody else reads."""
        peer, task = self._peers.pop(key)
        task.cancel()
        for view in peer.views.values():
            self._keep(view)
        await peer.close()

    def _keep(self, view: ClusterView) -> None:
        """Keeps the last view of a cluster by a peer that does not read it any more."""
        cluster = view.reading.cluster
        before = self._left.get(cluster)
        if before is None or before.standing.known_at < view.standing.known_at:
            self._left[cluster] = view

    def _present(self, cluster: str) -> Sequence[ClusterView]:
        return [view for peer, _ in self._peers.values() if (view := peer.views.get(cluster)) is not None]
