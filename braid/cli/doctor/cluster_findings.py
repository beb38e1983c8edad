"""`doctor`'s findings on a cluster as a whole: health, identity, copies, disks, release. Pure."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from braid.api.registry.v1.cluster_pb2 import (
    CLUSTER_HEALTH_DOWN,
    CLUSTER_HEALTH_HEALTHY,
    CLUSTER_HEALTH_SLOW,
    HEALTH_VERDICT_FLAPPING,
    HEALTH_VERDICT_HALF_DEAD,
    HEALTH_VERDICT_NO_TOPICS,
    HEALTH_VERDICT_PRODUCERS_CUT_OFF,
    HEALTH_VERDICT_REGISTRY_CUT_OFF,
    HEALTH_VERDICT_SLOW,
    Cluster,
    ClusterHealth,
    DecommissionState,
)
from braid.cli.core.documents import enum_text
from braid.cli.doctor.broker_findings import BrokerFacts, TopicFacts, check_brokers, check_topics
from braid.cli.doctor.findings import Finding, Level
from braid.cli.doctor.releases import version_text
from braid.cli.resources.clusters.loads import bytes_text, free_text
from braid.kernel.errors import BraidError, ClusterAccessDenied
from braid.kernel.ports import ClusterDescription

_DISK_FREE_MIN: Final = 0.1  # of the fullest one; brokers end when there is nothing left
_REMEDIES: Final = {
    HEALTH_VERDICT_SLOW: "look at its disks, network and load; streams that may have moved elsewhere",
    HEALTH_VERDICT_HALF_DEAD: "bring the missing brokers back; keyed records of what is gone wait meanwhile",
    HEALTH_VERDICT_NO_TOPICS: "look at its controllers, and at what we may do there; what it carries goes on meanwhile",
    HEALTH_VERDICT_FLAPPING: "find out why it falls; it takes traffic again when it has been well for long enough",
    HEALTH_VERDICT_PRODUCERS_CUT_OFF: "look at the network between the cluster and its applications",
    HEALTH_VERDICT_REGISTRY_CUT_OFF: "look at the network between the registries and the cluster",
}


class ClusterFacts(NamedTuple):
    """A registered cluster, and its own description as read from here; None if it does not answer.

    `brokers` and `topics` are the settings of each broker and of each of Braid's topics there; `unread` says why topic
    settings cannot be read.
    """

    cluster: Cluster
    description: ClusterDescription | None
    error: BraidError | None = None
    brokers: Sequence[BrokerFacts] = ()
    topics: Sequence[TopicFacts] = ()
    unread: BraidError | None = None

    def version(self) -> str:
        """Its Kafka release, as reported by a broker that answers; '' if none does."""
        if self.description is None:
            return ""
        told = next((each.description for each in self.brokers if each.description is not None), None)
        return version_text(told.finalized if told is not None else {}, self.description.default_config)


def check_cluster(facts: ClusterFacts) -> list[Finding]:
    """Checks that a cluster is healthy, reachable from here, the registered one, and set up to lose nothing."""
    cluster, description = facts.cluster, facts.description
    name = f"cluster/{cluster.name}"
    findings = [_health(name, cluster), *_quorum(name, cluster), *_access(name, cluster), *_belonging(name, cluster)]
    if description is None and findings[0].level is Level.FAIL:
        return findings
    if description is None:
        reason = facts.error.message if facts.error is not None else "no answer"
        remedy = "check the network from this machine, and its advertised listeners"
        if isinstance(facts.error, ClusterAccessDenied):
            happened = "nothing was sent there" if facts.error.withheld else "it refuses this client"
            reason, remedy = f"{happened}: {reason}", facts.error.remedy
        return [*findings, Finding(name, "reachable", Level.FAIL, f"not reachable from here: {reason}", remedy)]
    findings.append(_identity(name, cluster, description))
    usual = {*cluster.status.usual_brokers, *description.brokers}
    findings += check_brokers(name, cluster.spec.allow_auto_create_topics, description, facts.brokers, usual)
    findings += check_topics(name, len(usual), facts.topics, away=len(usual) - len(description.brokers))
    findings += _brokers_away(name, sorted(usual - description.brokers.keys()), len(usual))
    if facts.unread is not None:
        message = f"settings of topics cannot be read: {facts.unread.message}"
        findings.append(Finding(name, "topics", Level.WARN, message, facts.unread.remedy))
    findings += [*_copies_out_of_step(name, cluster), *_disk(name, cluster)]
    if all(each.level is Level.OK for each in findings):
        brokers = len(description.brokers)
        message = f"{brokers} broker{'s' if brokers != 1 else ''}, {facts.version()}"
        return [Finding(name, "cluster", Level.OK, message)]
    return [each for each in findings if each.level is not Level.OK]


def _belonging(name: str, cluster: Cluster) -> list[Finding]:
    """Checks which mesh the cluster belongs to, and whether it holds topics or groups that no history knows."""
    status, found = cluster.status, list[Finding]()
    if status.foreign_mesh:
        message = f"it carries the mark of mesh {status.foreign_mesh}: nothing new goes there, nothing is deleted there"
        remedy = f"find out who runs that mesh; to take it back: create cluster --take-over {status.foreign_mesh}"
        found.append(Finding(name, "mesh", Level.FAIL, message, remedy))
    if status.orphans:
        first = ", ".join([*status.orphan_topics, *status.orphan_groups][:3])
        message = f"{status.orphans} topics and groups there are in no history: {first}"
        remedy = f"see them all: braid describe cluster {cluster.name} -o yaml; delete unused ones with Kafka's tools"
        found.append(Finding(name, "orphans", Level.WARN, message, remedy))
    return found


def check_versions(clusters: Sequence[ClusterFacts]) -> list[Finding]:
    """Checks that all clusters of a mesh have the same release, so that a failover does not change what brokers can
    do."""
    known = {facts.cluster.name: version for facts in clusters if (version := facts.version())}
    if len(set(known.values())) < 2:
        return []
    told = ", ".join(f"{name} {version}" for name, version in sorted(known.items()))
    remedy = "bring them to one version: a failover changes what brokers can do"
    return [Finding("clusters", "versions", Level.WARN, f"of different versions: {told}", remedy)]


def _health(name: str, cluster: Cluster) -> Finding:
    status = cluster.status
    if status.health != CLUSTER_HEALTH_HEALTHY:
        health = enum_text(ClusterHealth.DESCRIPTOR, status.health).upper()
        left = status.health in (CLUSTER_HEALTH_DOWN, CLUSTER_HEALTH_SLOW)
        remedy = _REMEDIES.get(status.verdict, "bring its brokers back; streams that may have moved elsewhere")
        level = Level.FAIL if left else Level.WARN
        return Finding(name, "health", level, f"{health}: {status.health_reason or 'no reason is known'}", remedy)
    if status.HasField("decommission"):
        state = enum_text(DecommissionState.DESCRIPTOR, status.decommission.state)
        remedy = f"see what is left: braid describe cluster {cluster.name}"
        return Finding(name, "health", Level.WARN, f"it is being decommissioned: {state}", remedy)
    if status.cordoned:
        remedy = f"when the work on it is done: braid uncordon cluster {cluster.name}"
        return Finding(name, "health", Level.WARN, "cordoned: it takes no new traffic", remedy)
    return Finding(name, "health", Level.OK, "healthy")


def _quorum(name: str, cluster: Cluster) -> list[Finding]:
    """Checks for a lost quorum: if most brokers are silent and also controllers, no leader is elected and no topic is
    created."""
    evidence = cluster.status.evidence
    silent, usual = list(evidence.silent_brokers), {*cluster.status.usual_brokers, *evidence.silent_brokers}
    if 2 * len(silent) <= len(usual):
        return []
    named = ", ".join(map(str, silent))
    message = (
        f"brokers {named} of {len(usual)} do not answer: if they are its controllers too, there is no quorum, "
        "no leader is elected and no topic made"
    )
    needed = len(silent) - (len(usual) - 1) // 2
    remedy = f"start {'one' if needed == 1 else needed} of brokers {named}, then the rest; records wait or go elsewhere"
    return [Finding(name, "quorum", Level.FAIL, message, remedy)]


def _access(name: str, cluster: Cluster) -> list[Finding]:
    """Checks the registry's access: a cluster that refuses it cannot be judged, drained or prepared."""
    denied = cluster.status.evidence.denied
    if not denied:
        return []
    message = f"the registry has no access, so it cannot judge the cluster: {denied}"
    remedy = "check the security profile on the registry's machine, and the permissions of its principal"
    return [Finding(name, "access", Level.FAIL, message, remedy)]


def _identity(name: str, cluster: Cluster, description: ClusterDescription) -> Finding:
    known = cluster.status.kafka_cluster_id
    if known and description.cluster_id != known:
        message = f"Kafka cluster {description.cluster_id} answers there, {known} is registered"
        return Finding(name, "identity", Level.FAIL, message, "check the bootstrap address and the brokers' disks")
    return Finding(name, "identity", Level.OK, description.cluster_id)


def _brokers_away(name: str, away: Sequence[int], usual: int) -> list[Finding]:
    """Checks for brokers that the cluster usually has and does not list now."""
    if not away:
        return []
    named = ", ".join(map(str, away))
    message = f"{len(away)} of {usual} brokers {'is' if len(away) == 1 else 'are'} away: {named}"
    remedy = "bring them back before the next one goes; one that left for good is forgotten once it keeps no copy"
    return [Finding(name, "brokers-away", Level.WARN, message, remedy)]


def _copies_out_of_step(name: str, cluster: Cluster) -> list[Finding]:
    """Checks the leading registry's view of brokers and copies, while nothing is unavailable."""
    evidence = cluster.status.evidence
    if not evidence.under_replicated_partitions and not evidence.missing_brokers:
        return []
    missing = ", ".join(map(str, evidence.missing_brokers))
    thin = f"{evidence.under_replicated_partitions} of {evidence.partitions} partitions lack copies in step"
    message = f"{thin}; brokers missing: {missing}" if missing else thin
    return [Finding(name, "copies", Level.WARN, message, "bring them back before the next one goes")]


def _disk(name: str, cluster: Cluster) -> list[Finding]:
    """Checks the fullest disk that the leading registry measured."""
    load = cluster.status.load
    if not load.total_bytes or load.free_bytes >= _DISK_FREE_MIN * load.total_bytes:
        return []
    message = f"the fullest disk, of broker {load.broker}, has {bytes_text(load.free_bytes)} left ({free_text(load)})"
    return [Finding(name, "disk", Level.WARN, message, "free disk space: a broker with a full disk stops")]
