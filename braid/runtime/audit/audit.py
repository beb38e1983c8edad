"""The audit of one replica: what it records of its own calls, and where those of all replicas are read."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from braid.kernel.audit.calls import AUDIT
from braid.kernel.ports import Endpoint, HistoryId, RpcService
from braid.runtime.archive.shelf import Shelf
from braid.runtime.audit.codec import CHANGES
from braid.runtime.audit.recorded import recorded
from braid.runtime.audit.recorder import Recorder
from braid.runtime.audit.serving import AuditHistories
from braid.runtime.audit.settings import AuditSettings
from braid.runtime.audit.writer import AuditWriter

if TYPE_CHECKING:
    from braid.runtime.replica import Replica


class Audit:
    """Composition of recorder, writer and reader; without settings nothing is recorded, and still all is read."""

    def __init__(
        self, replica: "Replica", shelf: Shelf | None, session_ttl_seconds: float, settings: AuditSettings | None
    ) -> None:
        """Prepares it; `run` writes. Raises `Invalid` where the file for lines cannot be written."""
        self._replica = replica
        self._shelf = shelf
        self._recorder: Recorder | None = None
        self._writer: AuditWriter | None = None
        if settings is None:
            return
        clock, metrics = replica.host.clock, replica.metrics
        self._recorder = Recorder(replica.name, clock, replica.access.lookup, settings.reads, metrics)
        endpoint = Endpoint(replica.name, replica.instance, "")
        self._writer = AuditWriter(
            replica.store, replica.host, endpoint, session_ttl_seconds, self._recorder, settings, metrics, shelf
        )

    @property
    def records(self) -> bool:
        """Whether calls of this replica are recorded."""
        return self._writer is not None

    def recorded(self, service: RpcService) -> RpcService:
        """The same service, whose calls are recorded."""
        return service if self._recorder is None else recorded(service, self._recorder)

    async def run(self) -> None:
        """Writes what is recorded, until cancelled."""
        if self._writer is not None:
            await self._writer.run()

    async def close(self) -> None:
        """Writes what is left."""
        if self._writer is not None:
            await self._writer.close()

    def owns(self, history: str) -> bool:
        """Whether a history that is asked for is one of records of calls: `audit`, `audit/<kind>` and so on."""
        return history.partition("/")[0] == AUDIT

    async def histories(self) -> AuditHistories:
        """The records of all replicas of all services, as the store has them now. Raises `Unavailable`."""
        known, revision = await self._replica.store.histories(AUDIT)
        return self._read(known, revision)

    async def archived(self) -> AuditHistories:
        """The records that this replica's archive should have. Raises `Unavailable`.

        A directory has those of this replica; a bucket has those of all replicas of the service, also of former ones.
        """
        known, revision = await self._replica.store.histories(AUDIT)
        shared = self._shelf is not None and self._shelf.shared
        service, own = f"{self._replica.name}.", f"{self._replica.name}.{self._replica.instance}"
        mine = [each for each in known if each.id == own or (shared and each.id.startswith(service))]
        return self._read([each for each in mine if each.kind == CHANGES.name], revision)

    def _read(self, known: Sequence[HistoryId], revision: int) -> AuditHistories:
        return AuditHistories(self._replica.store, self._shelf, self._replica.host.clock, known, revision)
