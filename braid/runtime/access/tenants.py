"""Tenants at a replica: it follows their list, says which tenant a caller is in, and keeps each tenant's door.

Whose principal proves who it is cannot choose a tenant. In plaintext nothing is proved, and the tenant that a caller
says is the one that counts. The mesh's services and its admins pass without a quota, so that a flood stops neither
Braid nor whoever changes a quota. The event store tells the list; with the store away, what was read last stands.
"""

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from braid.kernel.access.quotas import TenantDoor
from braid.kernel.access.requests import Need
from braid.kernel.access.revocations import find_revocation
from braid.kernel.access.roles import MESH, Action
from braid.kernel.access.tenants import DEFAULT_TENANT, Tenant, TenantFinder
from braid.kernel.errors import QuotaExceeded
from braid.kernel.ports import Caller
from braid.runtime.access.side_history import SideHistory
from braid.runtime.access.tenant_codec import TENANTS
from braid.runtime.access.tenant_history import HISTORIES, HISTORY, Command, TenantsState
from braid.runtime.histories.aggregates import Aggregates
from braid.runtime.histories.kinds import Change, Reloaded

if TYPE_CHECKING:
    from braid.runtime.replica import Replica

_UNLIMITED: Final = (Action.SERVE, Action.GRANT)  # on the mesh: its services, and its admins


class Tenants:
    """The tenants of a mesh as one replica knows them, and its door for each."""

    def __init__(self, replica: "Replica") -> None:
        """Prepares it; `run` follows the list."""
        self._replica = replica
        self._metrics = replica.metrics.tenants
        self._history = SideHistory(replica, TENANTS, (HISTORIES, HISTORY), self._changed)
        self._finder = TenantFinder()
        self._doors: dict[str, TenantDoor] = {}

    # --- what is known

    @property
    def state(self) -> TenantsState:
        """All tenants, as this replica knows them."""
        return self._history.state

    @property
    def histories(self) -> Aggregates:
        """The history of tenants, as this replica follows it."""
        return self._history.aggregates

    def owns(self, history: str) -> bool:
        """Whether a history, `<kind>/<id>` or `<kind>`, is that of tenants."""
        return self._history.owns(history)

    def tenant(self, name: str) -> Tenant:
        """A tenant by its name; one without quotas where none is declared."""
        return self.state.tenants.get(name) or Tenant(name)

    def open_calls(self, name: str) -> int:
        """How many calls a tenant has open at this replica."""
        door = self._doors.get(name)
        return door.open_calls if door is not None else 0

    async def known(self) -> None:
        """Waits until the list was read once."""
        await self._history.known.wait()

    def require_known(self) -> None:
        """Raises `Unavailable` before the list was read for the first time."""
        self._history.require_known("the tenants yet")

    # --- changing it

    async def execute(self, command: Command, caller: Caller) -> TenantsState:
        """Records a caller's command, at the registry's leader. Raises what `Aggregates.execute` does."""
        return await self._history.execute(command, caller)

    # --- its life

    async def run(self) -> None:
        """Follows the list until cancelled."""
        await self._history.follow()

    def _changed(self, _: Change | Reloaded) -> None:
        found = self.state
        self._finder = TenantFinder(found.all())
        for name in self._doors.keys() - found.tenants.keys():
            del self._doors[name]
            self._metrics.forget(name)
        for tenant in found.all():
            door = self._doors.get(tenant.name)
            if door is None:
                door = self._doors[tenant.name] = TenantDoor(tenant.name, tenant.quotas)
                self._metrics.open_calls.labels(tenant.name).set_function(partial(getattr, door, "open_calls"))
            elif door.quotas != tenant.quotas:
                door.change(tenant.quotas)

    # --- the door

    def door(self, caller: Caller) -> tuple[Caller, TenantDoor | None]:
        """The caller in the tenant that it is found to be in, and the door that it passes; None for no door.

        Raises:
            Unauthenticated: the caller says that it is of another tenant than its principal.
            Unavailable: the tenants were not read yet.
        """
        tenant = self._tenant_of(caller)
        if tenant != caller.tenant:
            caller = replace(caller, tenant=tenant)
        door = self._doors.get(tenant)
        return caller, None if door is None or self._passes(caller) else door

    def refused(self, error: QuotaExceeded) -> TenantDoor | None:
        """Counts a call that a door has refused. Returns that door, if it stands still."""
        tenant = error.metadata["tenant"]
        self._metrics.refusals.labels(tenant, error.metadata["quota"]).inc()
        return self._doors.get(tenant)

    def _tenant_of(self, caller: Caller) -> str:
        if caller.authenticated and not self._history.known.is_set() and not self._passes(caller):
            self._replica.identities.require_known()
            self.require_known()
        return self._finder.tenant_of(caller)

    def _passes(self, caller: Caller) -> bool:
        """Whether a caller is not counted: a service, an admin, or one whom its handler refuses anyway."""
        if not caller.authenticated:
            return caller.tenant in ("", DEFAULT_TENANT)  # as services call without a proof
        decide = self._replica.access.decide
        if any(decide(caller.principal, Need(action, MESH)).allowed for action in _UNLIMITED):
            return True
        return find_revocation(self._replica.identities.revoked.revocations, caller) is not None
