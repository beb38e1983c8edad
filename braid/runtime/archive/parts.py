"""Puts together the parts of a replica's archive: its objects, those of its peers, its handlers, its sweeper."""

from collections.abc import Awaitable, Callable, Sequence

from braid.kernel.ports import Host, RpcTransport
from braid.rpc.directory import KnownEndpoint
from braid.runtime.archive.log import ArchiveLog
from braid.runtime.archive.serving import Archive, ArchiveHandlers, Histories, PeerArchives, Verifiable
from braid.runtime.archive.shelf import Shelf
from braid.runtime.archive.sweeper import Sweeper
from braid.runtime.telemetry import Metrics


class ArchiveParts:
    """The archive of one replica. Without one nothing is kept, and its handlers answer so.

    Attributes:
        shelf: The archived objects; None without an archive.
    """

    def __init__(
        self,
        archive: Archive | None,
        service: str,
        host: Host,
        transport: RpcTransport,
        endpoints: Callable[[], Awaitable[Sequence[KnownEndpoint]]],
        own_address: Callable[[], str],
    ) -> None:
        """Prepares an archive; peers are asked at the other `endpoints` of the service, over `transport`."""
        self._archive = archive
        self._service = service
        self._host = host
        self._peers = PeerArchives(transport, service, endpoints, own_address)
        self.shelf = Shelf(archive.store, host.clock, self._peers.archives, archive.retention_days) if archive else None

    def handlers(
        self, log: ArchiveLog, histories: Histories, calls: Callable[[], Awaitable[Verifiable]]
    ) -> ArchiveHandlers:
        """Builds the handlers with which the replica serves the archive."""
        return ArchiveHandlers(self._service, self.shelf, log, self._archive, histories, calls)

    def sweeper(self, metrics: Metrics, leading: Callable[[], bool]) -> Sweeper | None:
        """Builds the sweeper of expired objects; None without an archive."""
        if self.shelf is None:
            return None
        return Sweeper(self.shelf, self._service, self._host.clock, metrics, self.shelf.retention_days, leading)

    async def close(self) -> None:
        """Closes the connections to peers."""
        await self._peers.close()
