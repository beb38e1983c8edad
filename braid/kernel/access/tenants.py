"""Tenants as values: the principals that belong together, and how much of the mesh they may use. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Final

from braid.kernel.access.grants import check_principal
from braid.kernel.access.kafka_users import KafkaUser, check_kafka_users
from braid.kernel.access.refusals import REFUSAL_FACT, RefusalReason
from braid.kernel.errors import Invalid, Unauthenticated
from braid.kernel.ids import check_name
from braid.kernel.limits.access.rights import (
    BYTES_PER_SECOND_MAX,
    QUOTA_MAX,
    REQUEST_PERCENTAGE_MAX,
    TENANT_PRINCIPALS_MAX,
)
from braid.kernel.ports import CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE, REQUEST_PERCENTAGE, Caller
from braid.kernel.principals import SPIFFE

DEFAULT_TENANT: Final = "default"  # of everybody who is in no other
_ANY: Final = "*"
# Quotas that Kafka's brokers enforce: by Kafka's key, the quota here and its largest value.
KAFKA_QUOTAS: Final = {
    PRODUCER_BYTE_RATE: ("producer_bytes_per_second", BYTES_PER_SECOND_MAX),
    CONSUMER_BYTE_RATE: ("consumer_bytes_per_second", BYTES_PER_SECOND_MAX),
    REQUEST_PERCENTAGE: ("request_percentage", REQUEST_PERCENTAGE_MAX),
}
_MOST: Final = dict(KAFKA_QUOTAS.values())


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
        producer_bytes_per_second: Bytes that each of its Kafka users may write to one broker in a second.
        consumer_bytes_per_second: Bytes that each of its Kafka users may read from one broker in a second.
        request_percentage: Time of one broker's threads that each of its Kafka users may take; 100 is one thread.
    """

    streams: int = 0
    partitions: int = 0
    groups: int = 0
    members: int = 0
    open_calls: int = 0
    requests_per_second: int = 0
    producer_bytes_per_second: int = 0
    consumer_bytes_per_second: int = 0
    request_percentage: int = 0

    @property
    def of_kafka(self) -> Mapping[str, int]:
        """Quotas that Kafka's brokers enforce and that are set, by Kafka's keys."""
        found = {key: int(getattr(self, name)) for key, (name, _) in KAFKA_QUOTAS.items()}
        return {key: value for key, value in found.items() if value}


@dataclass(frozen=True, slots=True)
class Tenant:
    """A tenant as it is declared.

    Attributes:
        name: Its name.
        principals: Who is in it: principals, or beginnings of them that end with `*`.
        quotas: How much it may have.
        changed_by: The principal that declared it last.
        changed_ms: When.
        kafka_users: Users of Kafka's that are its own, for quotas that Kafka enforces.
    """

    name: str
    principals: tuple[str, ...] = ()
    quotas: Quotas = Quotas()
    changed_by: str = ""
    changed_ms: int = 0
    kafka_users: tuple[KafkaUser, ...] = ()


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
        Invalid: a name, a principal, a Kafka user or a quota is out of form, another tenant names the same principal or
            Kafka user, or a quota is for Kafka users and there are none.
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
    _check_quotas(tenant.quotas)
    rest = [(each.name, each.kafka_users) for each in others.values() if each.name != tenant.name]
    check_kafka_users(tenant.kafka_users, rest)
    _check_enforceable(tenant)
    return tenant


def _check_quotas(quotas: Quotas) -> None:
    for quota in fields(Quotas):
        limit, most = getattr(quotas, quota.name), _MOST.get(quota.name, QUOTA_MAX)
        if not 0 <= limit <= most:
            field = f"spec.quotas.{quota.name}"
            raise Invalid(f"{limit} is not between 0 and {most}", field=field, remedy="0 sets no limit")


def _check_enforceable(tenant: Tenant) -> None:
    """Checks that Kafka can tell whose bytes a tenant's quotas count."""
    named = [f"quotas.{KAFKA_QUOTAS[key][0]}" for key in tenant.quotas.of_kafka]
    if tenant.name == DEFAULT_TENANT and (tenant.kafka_users or named):
        message = "tenant default holds all principals that no other tenant names, so it has no Kafka users of its own"
        where = "kafka_users" if tenant.kafka_users else named[0]
        raise Invalid(message, field=f"spec.{where}", remedy="leave it out, or choose another name")
    if tenant.quotas.of_kafka and not tenant.kafka_users:
        name, _ = KAFKA_QUOTAS[next(iter(tenant.quotas.of_kafka))]
        message = f"Kafka enforces {name} for its own users, and the tenant names none"
        raise Invalid(message, field=f"spec.quotas.{name}", remedy="name them: spec.kafka_users: [{name: USER}]")


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
