"""One history of the mesh beside a service's own: the registry's leader writes it, every replica follows it.

It lies under a name of its own in the event store, which tells it. So a replica knows it while the registry is away,
and with the store away, what was read last stands.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar

from braid.kernel.errors import Unavailable
from braid.kernel.ports import Caller
from braid.runtime.histories.aggregates import Aggregates
from braid.runtime.histories.kinds import Change, Kind, Reloaded, SideAuthority

if TYPE_CHECKING:
    from braid.runtime.replica import Replica

S = TypeVar("S")
C = TypeVar("C")
E = TypeVar("E")


class SideHistory(Generic[S, C, E]):
    """Grants, revocations, tenants or approvals, as one replica follows them.

    Attributes:
        aggregates: The history, with its events.
        known: Set once it was read.
    """

    def __init__(
        self,
        replica: "Replica",
        kind: Kind[S, C, E],
        place: tuple[str, str],
        changed: Callable[[Change | Reloaded], None] = lambda change: None,
    ) -> None:
        """Prepares it; `follow` reads it.

        Args:
            replica: That which follows it.
            kind: Its kind, whose name also stands for it in logs.
            place: The name in the store under which it lies, and its id.
            changed: Receives each change, once the history counts as known.
        """
        self._kind = kind
        self._instance = replica.instance
        histories, self._id = place
        stands = f"{kind.name} are not followed any more: those read before stand"
        authority = SideAuthority(replica.require_leader, lambda why: replica.log.error(stands, reason=why))
        kinds = {kind.name: kind}
        self.aggregates = Aggregates(replica.store, kinds, replica.host, histories, authority, replica.metrics)
        self.known = asyncio.Event()
        self._changed = changed

    @property
    def state(self) -> S:
        """All of it, as this replica knows it."""
        return self.aggregates.state(self._kind, self._id)

    def owns(self, history: str) -> bool:
        """Whether a history, `<kind>/<id>` or `<kind>`, is this one."""
        return history.partition("/")[0] == self._kind.name

    def require_known(self, what: str) -> None:
        """Raises `Unavailable` before it was read for the first time; `what` says what the replica has not read."""
        if not self.known.is_set():
            text = f"{self._instance} has not read {what}"
            raise Unavailable(text, remedy="ask again in a moment, or see whether the event store answers")

    async def execute(self, command: C, caller: Caller, request_id: str | None = None) -> S:
        """Records a caller's command, at the registry's leader. Raises what `Aggregates.execute` does."""
        outcome = await self.aggregates.execute(
            self._kind,
            self._id,
            command,
            actor=caller.principal or "anonymous",
            tenant=caller.tenant,
            request_id=caller.request_id if request_id is None else request_id,
        )
        return outcome.state

    async def follow(self) -> None:
        """Follows it until cancelled."""
        unsubscribe = self.aggregates.subscribe(self._tell)
        try:
            await self.aggregates.follow()
        finally:
            unsubscribe()

    def _tell(self, change: Change | Reloaded) -> None:
        self.known.set()
        self._changed(change)
