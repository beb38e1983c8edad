"""Events of the kind `cluster`: facts, in the past tense. Their wire form is `events.proto`, see `codec`. Pure."""

from dataclasses import dataclass

from services.registry.model.belonging import BelongingEvent
from services.registry.model.cluster_specs import ClusterSpec
from services.registry.model.health import Health, HealthVerdict


@dataclass(frozen=True, slots=True)
class ClusterRegistered:
    """The cluster exists."""

    spec: ClusterSpec
    kafka_cluster_id: str


@dataclass(frozen=True, slots=True)
class ClusterUpdated:
    """Its declaration was replaced."""

    spec: ClusterSpec


@dataclass(frozen=True, slots=True)
class ClusterHealthChanged:
    """The registry believes something else of it."""

    health: Health
    reason: str
    verdict: HealthVerdict = HealthVerdict.UNTOLD


@dataclass(frozen=True, slots=True)
class AppendTimeLearnt:
    """What its appends usually take."""

    usual_seconds: float


@dataclass(frozen=True, slots=True)
class ClusterBrokersObserved:
    """The brokers it usually has are others; `spec` is the declaration, for releases that know nothing else of this."""

    brokers: tuple[int, ...]
    spec: ClusterSpec


@dataclass(frozen=True, slots=True)
class ClusterCordoned:
    """It takes no new traffic, or takes it again."""

    cordoned: bool


@dataclass(frozen=True, slots=True)
class DecommissionIntended:
    """Intent: everything on it is to leave."""

    reason: str
    discard_drained: bool


@dataclass(frozen=True, slots=True)
class DecommissionCancelled:
    """It may stay, and takes traffic as it did before."""


@dataclass(frozen=True, slots=True)
class ClusterEmptied:
    """Result: nothing is left on it."""


@dataclass(frozen=True, slots=True)
class ClusterIdentityChanged:
    """Behind the same address answers another Kafka cluster: it was replaced, and what was on it is gone."""

    kafka_cluster_id: str
    previous_kafka_cluster_id: str


@dataclass(frozen=True, slots=True)
class ClusterDeleted:
    """It is forgotten."""


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
)
