"""Commands to the kind `cluster`. Pure."""

from dataclasses import dataclass

from services.registry.model.belonging import BelongingCommand
from services.registry.model.cluster_specs import ClusterSpec
from services.registry.model.health import Health, HealthVerdict


@dataclass(frozen=True, slots=True)
class RegisterCluster:
    """Adds a cluster the shell has just reached under this Kafka cluster id, with these brokers."""

    spec: ClusterSpec
    kafka_cluster_id: str
    brokers: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class UpdateCluster:
    """Replaces the declaration; an empty etag updates whatever is there."""

    spec: ClusterSpec
    etag: str = ""


@dataclass(frozen=True, slots=True)
class SetHealth:
    """Records what the health judge concluded."""

    health: Health
    reason: str
    verdict: HealthVerdict = HealthVerdict.UNTOLD


@dataclass(frozen=True, slots=True)
class LearnAppendTime:
    """Writes down what is usual here, for the next leader; the shell asks when that is worth an event."""

    usual_seconds: float


@dataclass(frozen=True, slots=True)
class ObserveBrokers:
    """The brokers that the cluster usually has, sorted; `gaps.py` says which these are."""

    brokers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Cordon:
    """Takes the cluster out of the choice for new traffic, or back into it."""

    cordoned: bool


@dataclass(frozen=True, slots=True)
class Decommission:
    """Asks everything on the cluster to leave. Told again, it can only discard more."""

    reason: str = ""
    discard_drained: bool = False


@dataclass(frozen=True, slots=True)
class CancelDecommission:
    """Takes it back; what has left stays where it is."""


@dataclass(frozen=True, slots=True)
class RecordEmptied:
    """No channel is left on it; the shell has looked at all streams while no channel could be planned."""


@dataclass(frozen=True, slots=True)
class RepeatDecommission:
    """Whether it is empty is not known any more: the store was restored, and the cluster may hold later channels."""


@dataclass(frozen=True, slots=True)
class ObserveIdentity:
    """The cluster said which Kafka cluster it is."""

    kafka_cluster_id: str


@dataclass(frozen=True, slots=True)
class DeleteCluster:
    """Forgets the cluster; the shell has checked that nothing uses it."""

    etag: str = ""


ClusterCommand = (
    RegisterCluster
    | UpdateCluster
    | SetHealth
    | LearnAppendTime
    | ObserveBrokers
    | Cordon
    | Decommission
    | CancelDecommission
    | RecordEmptied
    | RepeatDecommission
    | ObserveIdentity
    | DeleteCluster
    | BelongingCommand
)
