"""Quotas of Kafka users that Braid keeps on a cluster (KIP-546), as the cluster's history remembers them. Pure.

A quota is remembered before it is set, and until it was seen to be gone. So no leader forgets what another one set, and
none touches a quota that somebody else set.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from braid.kernel.errors import Exhausted
from braid.kernel.limits.registry.resources import CLIENT_QUOTAS_MAX
from braid.kernel.ports import QuotaEntity
from services.registry.model.clusters.specs import ClusterSpec


class QuotaKey(NamedTuple):
    """The identity of one quota: whom it is about, and Kafka's name for what it bounds."""

    entity: QuotaEntity
    key: str


@dataclass(frozen=True, slots=True, order=True)
class ClientQuota:
    """One value of one user, or of one client id of a user."""

    user: str
    client_id: str
    key: str
    value: int

    @property
    def about(self) -> QuotaKey:
        """The identity of this quota."""
        return QuotaKey(QuotaEntity(self.user, self.client_id), self.key)


# --- commands


@dataclass(frozen=True, slots=True)
class IntendClientQuotas:
    """Records quotas that are about to be set."""

    quotas: tuple[ClientQuota, ...]


@dataclass(frozen=True, slots=True)
class ReleaseClientQuotas:
    """Records that the cluster does not have some quotas any more."""

    quotas: tuple[ClientQuota, ...]


ClientQuotasCommand = IntendClientQuotas | ReleaseClientQuotas


# --- events; `spec` is the present declaration, for releases that know nothing else of them


@dataclass(frozen=True, slots=True)
class ClientQuotasIntended:
    """Intent: these quotas are going to be set. From now on they are Braid's to change and to remove."""

    quotas: tuple[ClientQuota, ...]
    spec: ClusterSpec


@dataclass(frozen=True, slots=True)
class ClientQuotasReleased:
    """Result: the cluster does not have these quotas any more."""

    quotas: tuple[ClientQuota, ...]
    spec: ClusterSpec


ClientQuotasEvent = ClientQuotasIntended | ClientQuotasReleased


def decide(kept: Sequence[ClientQuota], command: ClientQuotasCommand, spec: ClusterSpec) -> Sequence[ClientQuotasEvent]:
    """The events that a command leads to; none if it is recorded already.

    Raises:
        Exhausted: the cluster would have more quotas of Braid's than it may.
    """
    known = by_key(kept)
    match command:
        case IntendClientQuotas():
            new = tuple(sorted(each for each in command.quotas if known.get(each.about) != each))
            if len(known | by_key(new)) > CLIENT_QUOTAS_MAX:
                message = f"more than {CLIENT_QUOTAS_MAX} quotas of Kafka users on one cluster"
                raise Exhausted(message, remedy="let applications share users")
            return [ClientQuotasIntended(new, spec)] if new else []
        case ReleaseClientQuotas():
            gone = tuple(sorted(known[each.about] for each in command.quotas if each.about in known))
            return [ClientQuotasReleased(gone, spec)] if gone else []


def evolve(kept: Sequence[ClientQuota], event: ClientQuotasEvent) -> tuple[ClientQuota, ...]:
    """The remembered quotas after an event, sorted."""
    known = by_key(kept)
    match event:
        case ClientQuotasIntended():
            known |= by_key(event.quotas)
        case ClientQuotasReleased():
            for each in event.quotas:
                known.pop(each.about, None)
    return tuple(sorted(known.values()))


def by_key(quotas: Sequence[ClientQuota]) -> dict[QuotaKey, ClientQuota]:
    """Quotas by what they are about."""
    return {each.about: each for each in quotas}
