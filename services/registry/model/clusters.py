"""One Kafka cluster as the registry knows it: the state of the kind `cluster`. Pure.

Commands are `cluster_commands.py`, events `cluster_events.py`, the rules between them `domain/clusters.py`.
"""

from dataclasses import dataclass

from services.registry.model.belonging import Belonging
from services.registry.model.cluster_specs import ClusterSpec
from services.registry.model.health import Health, HealthVerdict

LEFT = (Health.DOWN, Health.SLOW)  # traffic goes elsewhere
_UNDECLARED = ClusterSpec("")
_NOT_LOOKED = Belonging()


@dataclass(frozen=True, slots=True)
class Cluster:
    """State of one cluster's history; `exists` is False before it was registered and after it was deleted.

    Attributes:
        changes: Events so far; the etag.
        kafka_cluster_id: Which Kafka cluster answers there; topics made on another one are gone.
        cordoned: A person keeps new traffic off it.
        decommissioning: Everything on it is to leave.
        discard_drained: Of what leaves, drained topics go at once, not after their streams' retention.
        emptied: Nothing was left on it.
        verdict: Why its health is what it is.
        falls_ms: When its traffic had to leave, the last times.
        usual_append_seconds: Nine of its ten appends take less; 0 where nobody knows.
        belonging: Which mesh it belongs to, and what of it no history knows.
        usual_brokers: Brokers it usually has, by number, those away for now included; empty where nobody knows.
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

    @property
    def etag(self) -> str:
        """Changes with every change."""
        return str(self.changes)

    @property
    def takes_traffic(self) -> bool:
        """Whether new traffic may be sent here."""
        return self.exists and self.health is Health.HEALTHY and not self.refusal

    @property
    def last_resort(self) -> bool:
        """Whether traffic may be sent here that would otherwise be nowhere."""
        return self.exists and self.health in (Health.HALF_DEAD, Health.FLAPPING) and not self.refusal

    @property
    def closed(self) -> str:
        """Why a person lets no new traffic in, for people; '' when it is open."""
        if self.decommissioning:
            return "being decommissioned"
        return "cordoned" if self.cordoned else ""

    @property
    def refusal(self) -> str:
        """Why nothing new may be put here, for people: a person says so, or whose it is; '' when it may."""
        return self.belonging.refusal or self.closed

    @property
    def reachable(self) -> bool:
        """Whether work on it is worth trying."""
        return self.exists and self.health is not Health.DOWN

    @property
    def holds_traffic(self) -> bool:
        """Whether the traffic it carries may stay."""
        return self.exists and self.health not in LEFT
