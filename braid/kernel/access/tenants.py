"""Tenants as values: the principals that belong together, and how much of the mesh they may use. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Final

from braid.kernel.access.grants import check_principal
from braid.kernel.access.refusals import REFUSAL_FACT, RefusalReason
from braid.kernel.errors import Invalid, Unauthenticated
from braid.kernel.ids import check_name
from braid.kernel.limits.access import QUOTA_MAX, TENANT_PRINCIPALS_MAX
from braid.kernel.ports import Caller
from braid.kernel.principals import SPIFFE

DEFAULT_TENANT: Final = "default"  # of everybody who is in no other
_ANY: Final = "*"


@dataclass(frozen=True, slots=True)
class Quotas:
    """How much one tenant may have or do; 0 sets no limit.

    Attributes:
        streams: Streams that it created and that exist.
        partitions: Partitions of all lanes of these streams, as they are declared or moved to.
        groups: Groups that it created and that exist.
        members: Members of these groups.
        open_calls: Calls and streams that it has open at one replica.
        requests_per_second: Calls that it begins in a second at one replica.
    """

    streams: int = 0
    partitions: int = 0
    groups: int = 0
    members: int = 0
    open_calls: int = 0
    requests_per_second: int = 0


@dataclass(frozen=True, slots=True)
class Tenant:
    """A tenant as it is declared.

    Attributes:
        name: Its name.
        principals: Who is in it: principals, or beginnings of them that end with `*`.
        quotas: How much it may have.
        changed_by: The principal that declared it last.
        changed_ms: When.
    """

    name: str
    principals: tuple[str, ...] = ()
    quotas: Quotas = Quotas()
    changed_by: str = ""
    changed_ms: int = 0


class TenantFinder:
    """Finds the tenant of a principal: the one that names it, else the one with the longest beginning of it."""

    def __init__(self, tenants: Iterable[Tenant] = ()) -> None:
        self._exact: dict[str, str] = {}
        self._beginnings: dict[str, str] = {}
        for tenant in tenants:
            for text in tenant.principals:
                found, key = (self._beginnings, text[:-1]) if text.endswith(_ANY) else (self._exact, text)
                found[key] = tenant.name
        self._lengths = sorted({len(each) for each in self._beginnings}, reverse=True)

    def find(self, principal: str) -> str:
        """The tenant's name; `default` for a principal that no tenant names."""
        if name := self._exact.get(principal):
            return name
        for length in self._lengths:
            if name := self._beginnings.get(principal[:length]):
                return name
        return DEFAULT_TENANT

    def tenant_of(self, caller: Caller) -> str:
        """The tenant of a caller: its principal decides; only a caller without a proof is in the one that it says.

        Raises:
            Unauthenticated: it proves a principal of one tenant, and says that it is of another.
        """
        if not caller.authenticated:
            return caller.tenant or DEFAULT_TENANT
        found = self.find(caller.principal)
        if caller.tenant not in ("", DEFAULT_TENANT, found):  # clients that name none say `default`
            raise Unauthenticated(
                f"the call claims to be of tenant {caller.tenant[:100]!r}, but {caller.principal} is of {found}",
                field="braid-tenant",
                remedy="send no braid-tenant: the principal says which tenant it is",
                metadata={REFUSAL_FACT: RefusalReason.FALSE_CLAIM.value},
            )
        return found


def check_tenant(tenant: Tenant, others: Mapping[str, Tenant]) -> Tenant:
    """Returns a tenant that may stand beside the others.

    Raises:
        Invalid: a name, a principal or a quota is out of form, or another tenant names the same principal.
    """
    check_name(tenant.name, "name")
    if tenant.name == DEFAULT_TENANT and tenant.principals:
        message = "tenant default has the principals that no other tenant names"
        raise Invalid(message, field="spec.principals", remedy="leave them out, or choose another name")
    if len(tenant.principals) > TENANT_PRINCIPALS_MAX:
        message = f"{len(tenant.principals)} principals are more than {TENANT_PRINCIPALS_MAX}"
        raise Invalid(message, field="spec.principals", remedy="name beginnings: spiffe://DOMAIN/team/*")
    owners = {text: each.name for each in others.values() if each.name != tenant.name for text in each.principals}
    for position, text in enumerate(tenant.principals):
        where = f"spec.principals[{position}]"
        check_pattern(text, where)
        if text in tenant.principals[:position]:
            raise Invalid(f"{text} is named twice", field=where)
        if text in owners:
            message = f"{text} is of tenant {owners[text]} already"
            raise Invalid(message, field=where, remedy=f"take it from there first: braid get tenant {owners[text]}")
    for quota in fields(Quotas):
        limit = getattr(tenant.quotas, quota.name)
        if not 0 <= limit <= QUOTA_MAX:
            field = f"spec.quotas.{quota.name}"
            raise Invalid(f"{limit} is not between 0 and {QUOTA_MAX}", field=field, remedy="0 sets no limit")
    return tenant


def check_pattern(text: str, field: str) -> str:
    """Returns a principal, or the beginning of principals with a `*` after it.

    Raises:
        Invalid: it is neither, or the beginning does not name a whole trust domain.
    """
    if not text.endswith(_ANY):
        return check_principal(text, field)
    beginning = text[:-1]
    if beginning.startswith(SPIFFE) and "/" not in beginning.removeprefix(SPIFFE):
        remedy = "write spiffe://TRUST-DOMAIN/*, or more of the path"
        raise Invalid(f"{text[:200]!r} names no whole trust domain", field=field, remedy=remedy)
    check_principal(f"{beginning}x", field)
    return text
