"""Grants as values, and which principals have rights without one. No decisions."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from braid.kernel.access.roles import Resource, ResourceKind, Role
from braid.kernel.errors import Invalid
from braid.kernel.limits.names import SPIFFE_ID_BYTES_MAX
from braid.kernel.principals import DNS, SPIFFE, TOKEN

_SERVICE_PATH: Final = "/service/"


@dataclass(frozen=True, slots=True)
class Grant:
    """A role that a principal has on a resource. Principal, role and resource name it: there is one of each.

    Attributes:
        principal: Who has it: a SPIFFE id, or `dns:` or `jwt:` and a name.
        role: What it may do.
        resource: Where; a pattern for many.
        expire_ms: When it ends, by the wall clock, milliseconds since the epoch; 0 for never.
        reason: Why it was given, for people.
        granted_by: The principal that gave it.
        granted_ms: When.
    """

    principal: str
    role: Role
    resource: Resource
    expire_ms: int = 0
    reason: str = ""
    granted_by: str = ""
    granted_ms: int = 0

    @property
    def key(self) -> tuple[str, str, str]:
        """The parts that distinguish it from other grants, sortable."""
        return self.principal, self.role.value, str(self.resource)

    def holds(self, now_ms: int) -> bool:
        """Whether it has not ended."""
        return not self.expire_ms or now_ms < self.expire_ms

    def __str__(self) -> str:
        where = "" if self.resource.kind is ResourceKind.MESH else f" on {self.resource}"
        return f"{self.role.value}{where}"


@dataclass(frozen=True, slots=True)
class ServicePrincipals:
    """The principals that the mesh accepts as its own services.

    Attributes:
        trust_domain: Of the mesh's own certificates; its names under `/service/` are services. Empty for none.
        named: Further principals; one that ends with `*` stands for all that begin so.
    """

    trust_domain: str = ""
    named: Collection[str] = ()

    def includes(self, principal: str) -> bool:
        """Whether a verified principal is a service. A token never names one."""
        if principal.startswith(TOKEN):
            return False
        prefix = f"{SPIFFE}{self.trust_domain}{_SERVICE_PATH}"
        if self.trust_domain and principal.startswith(prefix) and len(principal) > len(prefix):
            return True
        return any(_matches(name, principal) for name in self.named)


@dataclass(frozen=True, slots=True)
class Rights:
    """All that a decision is made from.

    Attributes:
        grants: By principal.
        admins: Principals that are admins by the settings of the service, as long as they are named there.
        services: Whom it takes for a service.
    """

    grants: Mapping[str, Sequence[Grant]] = field(default_factory=dict)
    admins: Collection[str] = ()
    services: ServicePrincipals = field(default_factory=ServicePrincipals)


def by_principal(grants: Iterable[Grant]) -> Mapping[str, Sequence[Grant]]:
    """Grants by their principal, each in the order of role and resource."""
    found: dict[str, list[Grant]] = {}
    for grant in sorted(grants, key=lambda each: each.key):
        found.setdefault(grant.principal, []).append(grant)
    return found


def check_principal(text: str, field: str) -> str:
    """Returns a principal that is in form.

    Raises:
        Invalid: it is neither `spiffe://TRUST-DOMAIN/PATH`, `dns:NAME` nor `jwt:NAME`, has blanks, or is too long.
    """
    domain, _, path = text.removeprefix(SPIFFE).partition("/")
    named = any(text.startswith(kind) and len(text) > len(kind) for kind in (DNS, TOKEN))
    known = named or (text.startswith(SPIFFE) and domain and path)
    if not known or not text.isascii() or not text.isprintable() or " " in text or len(text) > SPIFFE_ID_BYTES_MAX:
        remedy = "write spiffe://TRUST-DOMAIN/PATH or dns:NAME, as its certificate has it, or jwt:NAME of a token"
        raise Invalid(f"{text[:200]!r} is no principal", field=field, remedy=remedy)
    return text


def _matches(pattern: str, principal: str) -> bool:
    return principal.startswith(pattern[:-1]) if pattern.endswith("*") else principal == pattern
