"""The one door of a replica: calls begin here and are counted until they end, for their caller and its tenant.

A caller may have so many calls open at once, and a tenant too, which also begins so many in a second. Both are asked
before a request is read. What lets a call in counts it for both, and its one release gives both back.
"""

from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from braid.kernel.access.open_calls import UNARY, counted_as, counted_for
from braid.kernel.access.quotas import TenantDoor
from braid.kernel.access.refusals import REFUSAL_FACT, RefusalReason
from braid.kernel.errors import BraidError, Exhausted, QuotaExceeded
from braid.kernel.limits.access.rights import DOOR_HELD_MAX, DOOR_HOLD_MAX_SECONDS, DOOR_HOLD_SECONDS
from braid.kernel.ports import Admitted, Caller, RefusalHandler
from braid.runtime.access.refusals import Refusals

if TYPE_CHECKING:
    from braid.runtime.replica import Replica


class Admissions:
    """The calls that are open at one replica."""

    def __init__(self, replica: "Replica", streams: Collection[str], refused: RefusalHandler) -> None:
        """`streams` are the full names of the methods that are streams; `refused` hears of calls that may not begin."""
        self._tenants = replica.tenants
        self._host = replica.host
        self._streams = frozenset(streams)
        self._refused = refused
        self._refusals = Refusals(replica.host.clock, replica.metrics, replica.log)
        self._open: Counter[tuple[str, str]] = Counter()

    def __len__(self) -> int:
        """The number of open calls."""
        return self._open.total()

    async def admit(self, method: str, caller: Caller) -> Admitted:
        """Lets a call begin, before its request is parsed; see `RpcService.admit`.

        Raises:
            Unauthenticated: the caller says that it is of another tenant than its principal.
            Exhausted: the caller has as many calls open as one may.
            QuotaExceeded: its tenant has as many calls open as it may have, or begins too many.
            Unavailable: the tenants were not read yet.
        """
        try:
            return self._enter(method, caller)
        except BraidError as error:
            tenant = error.metadata.get("tenant", caller.tenant)
            self._refused(method, caller if tenant == caller.tenant else replace(caller, tenant=tenant), error)
            if isinstance(error, QuotaExceeded):
                await self._hold(self._tenants.refused(error))
            raise

    def _enter(self, method: str, caller: Caller) -> Admitted:
        short = method.rpartition("/")[2]
        caller, door = self._tenants.door(caller)
        kind, limit = counted_as(short, stream=method in self._streams)
        key = (counted_for(caller), kind)
        if self._open[key] >= limit:
            raise self._too_many(short, kind, limit, caller)
        if door is not None:
            door.enter(self._host.clock.elapsed())
        self._open[key] += 1
        return Admitted(caller, partial(self._leave, key, door))

    def _leave(self, key: tuple[str, str], door: TenantDoor | None) -> None:
        self._open[key] -= 1
        if not self._open[key]:
            del self._open[key]
        if door is not None:
            door.leave()

    async def _hold(self, door: TenantDoor | None) -> None:
        """Lets a refused call wait a little: a caller that asks again at once costs as much as one that is answered.

        Each waits for a time of its own. Else calls that were refused together would all come back together.
        """
        if door is None or door.held >= DOOR_HELD_MAX:
            return
        door.held += 1
        try:
            await self._host.clock.sleep(self._host.randomness.uniform(DOOR_HOLD_SECONDS, DOOR_HOLD_MAX_SECONDS))
        finally:
            door.held -= 1

    def _too_many(self, method: str, kind: str, limit: int, caller: Caller) -> Exhausted:
        what = "calls" if kind == UNARY else f"{kind} streams"
        message = f"{method}: {counted_for(caller) or 'the caller'} has {limit} {what} open here, and no more may be"
        reason = RefusalReason.TOO_MANY_OPEN.value
        self._refusals.record(method, reason, caller, message)
        remedy = "end some that are not needed any more; or let some of the processes call under another principal"
        return Exhausted(message, remedy=remedy, metadata={REFUSAL_FACT: reason, "limit": str(limit)})
