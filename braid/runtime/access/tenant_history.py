"""Kind `tenants`: which tenants there are, who is in them, and their quotas. Pure.

One history for the mesh, under a name of its own in the store, as the grants have one: a release that does not know
it passes it over.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from braid.kernel.access.kafka_users import KafkaUser
from braid.kernel.access.tenants import Quotas, Tenant, check_tenant
from braid.kernel.decider import Context
from braid.kernel.errors import Exhausted, NotFound
from braid.kernel.limits.access.rights import TENANTS_MAX

HISTORIES: Final = "tenants"  # the name in the store under which the history lies
HISTORY: Final = "mesh"  # its id: there is one


@dataclass(frozen=True, slots=True)
class TenantsState:
    """State of a history of kind `tenants`.

    Attributes:
        tenants: Those that were not deleted, by name.
    """

    tenants: Mapping[str, Tenant] = field(default_factory=lambda: MappingProxyType({}))

    def all(self) -> Iterator[Tenant]:
        """All of them, in the order of their names."""
        return (self.tenants[each] for each in sorted(self.tenants))


# --- events


@dataclass(frozen=True, slots=True)
class TenantSet:
    """A tenant is these principals from now on, with these quotas; and these users at Kafka."""

    name: str
    principals: tuple[str, ...]
    quotas: Quotas
    kafka_users: tuple[KafkaUser, ...] = ()


@dataclass(frozen=True, slots=True)
class TenantDeleted:
    """Its principals are in no tenant any more; what it created keeps its name."""

    name: str


Event = TenantSet | TenantDeleted


# --- commands


@dataclass(frozen=True, slots=True)
class SetTenant:
    """Declares a tenant, or declares it anew."""

    name: str
    principals: tuple[str, ...]
    quotas: Quotas
    kafka_users: tuple[KafkaUser, ...] = ()


@dataclass(frozen=True, slots=True)
class DeleteTenant:
    """Deletes a tenant; what it created stays."""

    name: str


Command = SetTenant | DeleteTenant


@dataclass(frozen=True, slots=True)
class TenantsDecider:
    """Rules of the kind `tenants`."""

    def initial(self, history: str) -> TenantsState:
        """A mesh without tenants."""
        return TenantsState()

    def decide(self, state: TenantsState, command: Command, context: Context) -> Sequence[Event]:
        """See `Decider.decide`. What is declared already, alike, leads to nothing.

        Raises:
            Invalid: as `check_tenant` says.
            NotFound: there is no such tenant to delete.
            Exhausted: the mesh has as many tenants as there may be.
        """
        match command:
            case SetTenant(name, principals, quotas, users):
                return _set(state, Tenant(name, principals, quotas, kafka_users=users))
            case DeleteTenant(name):
                if name not in state.tenants:
                    raise NotFound(f"there is no tenant {name}", field="name", remedy="see: braid get tenants")
                return [TenantDeleted(name)]

    def evolve(self, state: TenantsState, event: Event, context: Context) -> TenantsState:
        """See `Decider.evolve`."""
        kept = dict(state.tenants)
        match event:
            case TenantSet(name, principals, quotas, users):
                kept[name] = Tenant(name, principals, quotas, context.actor, context.now_ms, users)
            case TenantDeleted(name):
                kept.pop(name, None)
        return TenantsState(kept)


def _set(state: TenantsState, tenant: Tenant) -> Sequence[Event]:
    check_tenant(tenant, state.tenants)
    known = state.tenants.get(tenant.name)
    if known is not None and replace(known, changed_by="", changed_ms=0) == tenant:
        return []
    if known is None and len(state.tenants) >= TENANTS_MAX:
        message = f"the mesh has {TENANTS_MAX} tenants, which is the most"
        raise Exhausted(message, remedy="delete some: braid delete tenant NAME")
    return [TenantSet(tenant.name, tenant.principals, tenant.quotas, tenant.kafka_users)]
