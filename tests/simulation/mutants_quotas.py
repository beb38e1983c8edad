"""Mutants of quotas at Kafka: see `mutants`."""

from collections.abc import Sequence
from typing import Final

from services.registry.domain import clusters
from services.registry.model.clusters.client_quotas import ClientQuota, ClientQuotasEvent
from services.registry.policy import client_quotas
from services.registry.policy.client_quotas import Wish
from services.registry.reconciler import client_quotas as keeper
from tests.simulation.mutants import Mutant

_WISHES: Final = client_quotas.wishes_on
_CHANGES: Final = {"quotas": True, "fault_seconds": 15.0, "settle_seconds": 120.0}


def _forgets(kept: Sequence[ClientQuota], event: ClientQuotasEvent) -> tuple[ClientQuota, ...]:
    return tuple(kept)


def _takes_over(cluster: str, tenants: object) -> list[Wish]:
    return [each._replace(take_over=True) for each in _WISHES(cluster, tenants)]  # type: ignore[arg-type]


QUOTA_MUTANTS: Final = (
    Mutant(
        "what was set at Kafka is forgotten",
        "I20 quotas at Kafka",
        [(clusters, "evolve_quotas", _forgets)],
        (),
        _CHANGES,
    ),
    Mutant(
        "a quota of somebody else is taken over",
        "I20 quotas at Kafka",
        [(keeper, "wishes_on", _takes_over)],
        (),
        _CHANGES,
    ),
)
