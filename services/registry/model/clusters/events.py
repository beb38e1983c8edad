"""Events of the kind `cluster`: facts, in the past tense. Pure. `events.proto` defines their wire form, see `codec`."""

from dataclasses import dataclass

from services.registry.model.belonging import BelongingEvent
from services.registry.model.clusters.client_quotas import ClientQuotasEvent
from services.registry.model.clusters.health import Health, HealthVerdict
from services.registry.model.clusters.specs import ClusterSpec


@dataclass(frozen=True, slots=True)
class ClusterRegistered:
    """The cluster was registered in this mesh."""

    spec: ClusterSpec
    kafka_cluster_id: str


@dataclass(frozen=True, slots=True)
class ClusterUpdated:
    """The cluster's declaration was replaced."""

    spec: ClusterSpec


@dataclass(frozen=True, slots=True)
class ClusterHealthChanged:
    """The registry judges the cluster's health differently."""

    health: Health
    reason: str
    verdict: HealthVerdict = HealthVerdict.UNTOLD


@dataclass(frozen=True, slots=True)
class AppendTimeLearnt:
    """The cluster's usual append time changed noticeably."""

    usual_seconds: float


@dataclass(frozen=True, slots=True)
class ClusterBrokersObserved:
    """The cluster's usual brokers changed; `spec` is its declaration, for releases that do not know this event."""

    brokers: tuple[int, ...]
    spec: ClusterSpec


@dataclass(frozen=True, slots=True)
class ClusterCordoned:
    """The cluster takes no new traffic, or takes it again."""

    cordoned: bool


@dataclass(frozen=True, slots=True)
class DecommissionIntended:
    """Intent: everything on the cluster is to leave."""

    reason: str
    discard_drained: bool


@dataclass(frozen=True, slots=True)
class DecommissionCancelled:
    """The decommission was cancelled: the cluster takes traffic as before."""


@dataclass(frozen=True, slots=True)
class ClusterEmptied:
    """Result: nothing is left on the cluster."""


@dataclass(frozen=True, slots=True)
class ClusterIdentityChanged:
    """Another Kafka cluster answers at the address: the old one was replaced, and its topics are gone."""

    kafka_cluster_id: str
    previous_kafka_cluster_id: str


@dataclass(frozen=True, slots=True)
class ClusterDeleted:
    """The cluster was deleted from the mesh."""


@dataclass(frozen=True, slots=True)
class BalanceBlocked:
    """The cluster carries too much, and no stream can be moved to change that. The `spec` is its declaration, as in
    `ClusterBrokersObserved`."""

    reason: str
    spec: ClusterSpec


@dataclass(frozen=True, slots=True)
class BalanceUnblocked:
    """The cluster carries too much no more, or streams can be moved again. The `spec` is as in `BalanceBlocked`."""

    spec: ClusterSpec


ClusterEvent = (
    ClusterRegistered
    | ClusterUpdated
    | ClusterHealthChanged
    | AppendTimeLearnt
    | ClusterBrokersObserved
    | ClusterCordoned
    | DecommissionIntended
    | DecommissionCancelled
    | ClusterEmptied
    | ClusterIdentityChanged
    | ClusterDeleted
    | BelongingEvent
    | ClientQuotasEvent
    | BalanceBlocked
    | BalanceUnblocked
)
