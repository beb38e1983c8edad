"""Commands of the kind `cluster`, as values. Pure."""

from dataclasses import dataclass

from services.registry.model.belonging import BelongingCommand
from services.registry.model.clusters.client_quotas import ClientQuotasCommand
from services.registry.model.clusters.health import Health, HealthVerdict
from services.registry.model.clusters.specs import ClusterSpec


@dataclass(frozen=True, slots=True)
class RegisterCluster:
    """Registers a cluster that the shell has reached, with its Kafka cluster id and brokers."""

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
    """Records the health judge's conclusion."""

    health: Health
    reason: str
    verdict: HealthVerdict = HealthVerdict.UNTOLD


@dataclass(frozen=True, slots=True)
class LearnAppendTime:
    """Records the usual append time for the next leader; the shell sends it when that is worth an event."""

    usual_seconds: float


@dataclass(frozen=True, slots=True)
class ObserveBrokers:
    """Records the brokers that the cluster usually has, sorted; `gaps.py` defines which these are."""

    brokers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Cordon:
    """Excludes the cluster from new traffic, or ends that."""

    cordoned: bool


@dataclass(frozen=True, slots=True)
class Decommission:
    """Starts to move everything off the cluster. Repeated, it can only add that drained topics are discarded."""

    reason: str = ""
    discard_drained: bool = False


@dataclass(frozen=True, slots=True)
class CancelDecommission:
    """Cancels a decommission; streams that have left stay where they are."""


@dataclass(frozen=True, slots=True)
class RecordEmptied:
    """Records that no channel is left; the shell has checked all streams while no channel could be planned."""


@dataclass(frozen=True, slots=True)
class RepeatDecommission:
    """Reopens a decommission after a restore of the store: the cluster may hold channels planned after the backup."""


@dataclass(frozen=True, slots=True)
class ObserveIdentity:
    """Records the Kafka cluster id that the cluster reports."""

    kafka_cluster_id: str


@dataclass(frozen=True, slots=True)
class DeleteCluster:
    """Deletes the cluster; the shell has checked that nothing uses it."""

    etag: str = ""


@dataclass(frozen=True, slots=True)
class BlockBalance:
    """Records why no stream can be moved off a cluster that carries too much; an empty reason ends that."""

    reason: str


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
    | ClientQuotasCommand
    | BlockBalance
)
