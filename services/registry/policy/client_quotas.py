"""Decides what becomes of a cluster's quotas of Kafka users. Pure.

It compares what tenants want with what the cluster's history remembers and with what the cluster has.

Only quotas that the history remembers as Braid's are changed and removed. One that somebody else set stays, unless the
tenant says that Braid may take it over.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from braid.kernel.access.kafka_users import KafkaUser, users_on
from braid.kernel.access.tenants import Tenant
from braid.kernel.errors import Refused
from braid.kernel.ports import QuotaEntity
from services.registry.model.clusters.client_quotas import ClientQuota, by_key

FoundQuotas = Mapping[QuotaEntity, Mapping[str, float]]


class Wish(NamedTuple):
    """A quota that a tenant wants on a cluster."""

    tenant: str
    quota: ClientQuota
    take_over: bool = False


@dataclass(frozen=True, slots=True)
class Comparison:
    """The steps to take on one cluster, in this order.

    Attributes:
        intend: To be recorded before they are set.
        change: To be set, or removed where None, by whom they are about.
        absent: Remembered, no longer wanted, and not on the cluster.
        refused: Tenants with a quota that is not Braid's to set, and why.
    """

    intend: Sequence[ClientQuota] = ()
    change: Mapping[QuotaEntity, Mapping[str, float | None]] = field(default_factory=dict)
    absent: Sequence[ClientQuota] = ()
    refused: Mapping[str, Refused] = field(default_factory=dict)


def wishes_on(cluster: str, tenants: Iterable[Tenant]) -> list[Wish]:
    """Quotas that tenants want on a cluster, in the order of their names."""
    return [wish for tenant in tenants for wish in _wishes_of(tenant, users_on(tenant.kafka_users, cluster))]


def without_own(wishes: Sequence[Wish], user: str, cluster: str) -> tuple[list[Wish], dict[str, Refused]]:
    """Wishes that are not about the user that the registry itself logs in as; and the tenants that named it."""
    kept, refused = list[Wish](), dict[str, Refused]()
    for wish in wishes:
        if user and wish.quota.user == user:
            refused[wish.tenant] = own_user_refusal(user, cluster)
        else:
            kept.append(wish)
    return kept, refused


def own_user_refusal(user: str, cluster: str) -> Refused:
    """Why a user of Braid's own services is given no quota."""
    message = f"Kafka user {user} is the one that Braid's registry logs in as on cluster {cluster}"
    return Refused(message, remedy="name the users of the tenant's applications, and give services another user")


def compare(wishes: Sequence[Wish], remembered: Sequence[ClientQuota], found: FoundQuotas) -> Comparison:
    """Compares what is wanted with what Braid remembers to have set and with what the cluster has."""
    known, wanted = by_key(remembered), {wish.quota.about: wish for wish in wishes}
    intend: list[ClientQuota] = []
    absent: list[ClientQuota] = []
    change: dict[QuotaEntity, dict[str, float | None]] = {}
    refused: dict[str, Refused] = {}
    for about, wish in wanted.items():
        present = found.get(about.entity, {}).get(about.key)
        if present is not None and about not in known and not wish.take_over:
            refused.setdefault(wish.tenant, _conflict(wish.quota, present))
            continue
        if known.get(about) != wish.quota:
            intend.append(wish.quota)
        if present != wish.quota.value:
            change.setdefault(about.entity, {})[about.key] = wish.quota.value
    for about, quota in known.items():
        if about in wanted:
            continue
        if about.key in found.get(about.entity, {}):
            change.setdefault(about.entity, {})[about.key] = None
        else:
            absent.append(quota)
    return Comparison(intend, change, absent, refused)


def _wishes_of(tenant: Tenant, users: Iterator[KafkaUser]) -> Iterator[Wish]:
    for user in users:
        for key, value in tenant.quotas.of_kafka.items():
            yield Wish(tenant.name, ClientQuota(user.name, user.client_id, key, value), user.take_over)


def _conflict(quota: ClientQuota, present: float) -> Refused:
    entity = quota.about.entity
    message = f"{entity} has {quota.key} {present:g}, which Braid did not set"
    given = f"--entity-type users --entity-name {quota.user}"
    given += f" --entity-type clients --entity-name {quota.client_id}" if quota.client_id else ""
    remedy = f"write take_over: true for the user; or remove it: kafka-configs.sh --alter {given} --delete-config"
    return Refused(message, remedy=f"{remedy} {quota.key}")
