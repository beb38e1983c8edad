"""The state of the kind `cluster`: one Kafka cluster as the registry knows it. Pure.

Commands are in `commands.py`, events in `events.py`, the rules between them in `domain/clusters.py`.
"""

from dataclasses import dataclass

from services.registry.model.belonging import Belonging
from services.registry.model.clusters.client_quotas import ClientQuota
from services.registry.model.clusters.health import Health, HealthVerdict
from services.registry.model.clusters.specs import ClusterSpec

LEFT = (Health.DOWN, Health.SLOW)  # traffic goes elsewhere
_UNDECLARED = ClusterSpec("")
_NOT_LOOKED = Belonging()


@dataclass(frozen=True, slots=True)
class Cluster:
    """The state of one cluster's history; `exists` is False before registration and after deletion.

    Attributes:
        changes: Number of events so far; the etag.
        kafka_cluster_id: The Kafka cluster at the address; topics made on another one are gone.
        cordoned: An operator excludes it from new traffic.
        decommissioning: Everything on it is to leave.
        discard_drained: Whether drained topics are deleted at once instead of after their streams' retention.
        emptied: Nothing was left on it.
        verdict: Why its health is what it is.
        falls_ms: The latest times at which its traffic had to leave.
        usual_append_seconds: Seconds below which nine of ten appends stay; 0 if unknown.
        belonging: The mesh it belongs to, and its topics and groups that no history knows.
        usual_brokers: Numbers of the brokers it usually has, including absent ones; empty if unknown.
        client_quotas: Quotas of Kafka users that Braid set or is about to set, sorted, until they are seen to be gone.
        balance_blocked: Why it carries too much and no stream can be moved; empty if that is not so.
    """

    name: str
    exists: bool = False
    spec: ClusterSpec = _UNDECLARED
    kafka_cluster_id: str = ""
    health: Health = Health.HEALTHY
    health_reason: str = ""
    health_since_ms: int = 0
    cordoned: bool = False
    create_time_ms: int = 0
    changes: int = 0
    decommissioning: bool = False
    decommission_since_ms: int = 0
    decommission_reason: str = ""
    discard_drained: bool = False
    emptied: bool = False
    verdict: HealthVerdict = HealthVerdict.UNTOLD
    falls_ms: tuple[int, ...] = ()
    usual_append_seconds: float = 0.0
    usual_brokers: tuple[int, ...] = ()
    belonging: Belonging = _NOT_LOOKED
    client_quotas: tuple[ClientQuota, ...] = ()
    balance_blocked: str = ""

    @property
    def etag(self) -> str:
        """The etag, which changes with every change of the cluster."""
        return str(self.changes)

    @property
    def takes_traffic(self) -> bool:
        """Whether new traffic may be sent here."""
        return self.exists and self.health is Health.HEALTHY and not self.refusal

    @property
    def last_resort(self) -> bool:
        """Whether traffic without any other place may be sent here."""
        return self.exists and self.health in (Health.HALF_DEAD, Health.FLAPPING) and not self.refusal

    @property
    def closed(self) -> str:
        """Why an operator admits no new traffic, for people; '' if it is open."""
        if self.decommissioning:
            return "being decommissioned"
        return "cordoned" if self.cordoned else ""

    @property
    def refusal(self) -> str:
        """Why nothing new may be placed here (an operator's decision, or ownership), for people; '' if it may."""
        return self.belonging.refusal or self.closed

    @property
    def reachable(self) -> bool:
        """Whether work on it is worth an attempt."""
        return self.exists and self.health is not Health.DOWN

    @property
    def holds_traffic(self) -> bool:
        """Whether its present traffic may stay."""
        return self.exists and self.health not in LEFT
