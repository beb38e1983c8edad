"""What `doctor` can find: every check a function from facts to findings, with what to do about it. Pure."""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Final, NamedTuple

from braid.api.lagmon.v1.lag_pb2 import Lag
from braid.api.registry.v1.cluster_pb2 import (
    CLUSTER_HEALTH_DOWN,
    CLUSTER_HEALTH_HEALTHY,
    CLUSTER_HEALTH_SLOW,
    HEALTH_VERDICT_FLAPPING,
    HEALTH_VERDICT_HALF_DEAD,
    HEALTH_VERDICT_PRODUCERS_CUT_OFF,
    HEALTH_VERDICT_REGISTRY_CUT_OFF,
    HEALTH_VERDICT_SLOW,
    Cluster,
    ClusterHealth,
    DecommissionState,
)
from braid.api.registry.v1.stream_pb2 import CHANNEL_STATE_ACTIVE, CHANNEL_STATE_STANDBY, Stream
from braid.cli.documents import enum_text
from braid.cli.listing import halted, waits_for_a_person
from braid.cli.offsets import offsets_text
from braid.cli.times import age_text
from braid.kernel.errors import BraidError
from braid.kernel.limits import CLI_CLOCK_SKEW_SECONDS, ENVELOPE_UNITS_DEFAULT
from braid.kernel.ports import ClusterDescription

_OFFSETS_RETENTION_MINUTES_MIN: Final = 7 * 24 * 60  # Kafka's own default; a shorter one forgets idle groups sooner
_UNCLEAN: Final = "unclean.leader.election.enable"
_IN_SYNC: Final = "min.insync.replicas"
_OFFSETS_COPIES: Final = "offsets.topic.replication.factor"
_COPIES_WANTED: Final = 3  # where there are so many brokers: one may die while another is away
_REMEDIES: Final = {
    HEALTH_VERDICT_SLOW: "look at its disks, network and load; streams that may have moved elsewhere",
    HEALTH_VERDICT_HALF_DEAD: "bring the missing brokers back; keyed records of what is gone wait meanwhile",
    HEALTH_VERDICT_FLAPPING: "find out why it falls; it takes traffic again when it has been well for long enough",
    HEALTH_VERDICT_PRODUCERS_CUT_OFF: "look at the network between the cluster and those who use it",
    HEALTH_VERDICT_REGISTRY_CUT_OFF: "look at the network between the registries and the cluster",
}
_SERVICES: Final = ("registry", "assigner")
# What is lost while none of these answers. Records flow without them.
_BESIDE: Final = {
    "lagmon": "nobody knows how far groups are behind; records flow",
    "dlq": "dead letters are kept, but not listed or replayed",
}


class Level(Enum):
    """How bad it is."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


class Finding(NamedTuple):
    """One check's result. `remedy` is what to do; empty when there is nothing to do."""

    name: str
    check: str
    level: Level
    message: str
    remedy: str = ""


class ReplicaFacts(NamedTuple):
    """What one replica of a service said of itself. `skew_seconds` is its wall clock ahead of ours, `doubt` by how much
    that may be wrong; `error` why it did not answer."""

    service: str
    instance: str
    address: str
    leader: bool
    skew_seconds: float = 0.0
    doubt_seconds: float = 0.0
    error: BraidError | None = None


class ClusterFacts(NamedTuple):
    """A registered cluster, and what it says of itself when asked from here; None when it does not answer."""

    cluster: Cluster
    description: ClusterDescription | None
    error: BraidError | None = None


def check_services(replicas: Sequence[ReplicaFacts]) -> list[Finding]:
    """Each service is reachable, led by one, and has somebody to take over."""
    findings: list[Finding] = []
    for service in _SERVICES:
        known = [each for each in replicas if each.service == service]
        answering = [each for each in known if each.error is None]
        findings += [_unreachable(each) for each in known if each.error is not None]
        findings.append(_led(service, answering))
    for service, lost in _BESIDE.items():
        known = [each for each in replicas if each.service == service]
        findings += [_unreachable(each) for each in known if each.error is not None]
        findings.append(_beside(service, lost, [each for each in known if each.error is None]))
    return findings


def check_lag(lags: Sequence[Lag], catching_up: Sequence[str], now_ms: int) -> list[Finding]:
    """What lagmon says of lag is of now, and of every cluster.

    Args:
        lags: Rows that name their cluster.
        catching_up: Clusters whose offsets are still being read.
        now_ms: For ages.
    """
    findings: list[Finding] = []
    for cluster in sorted({each.cluster for each in lags if each.stale}):
        rows = [each for each in lags if each.stale and each.cluster == cluster]
        since = age_text(min(each.as_of_ms for each in rows), now_ms)
        groups = len({each.group for each in rows})
        message = f"of {groups} group{'s' if groups != 1 else ''} on cluster {cluster} as of {since} ago"
        remedy = f"bring the cluster back: braid describe cluster {cluster}"
        findings.append(Finding("lag", "stale", Level.WARN, message, remedy))
    if catching_up:
        message = f"offsets of {', '.join(sorted(catching_up))} are not read to their end yet: rows may be missing"
        findings.append(
            Finding("lag", "catching-up", Level.WARN, message, "wait; if it stays so, look at lagmon's log")
        )
    return findings or [Finding("lag", "lag", Level.OK, "known and fresh")]


def check_clocks(replicas: Sequence[ReplicaFacts]) -> list[Finding]:
    """Wall clocks agree: lags, retention and histories are read by them."""
    findings: list[Finding] = []
    for each in replicas:
        if each.error is not None:
            continue
        wrong = abs(each.skew_seconds) - each.doubt_seconds > CLI_CLOCK_SKEW_SECONDS
        direction = "ahead of" if each.skew_seconds > 0 else "behind"
        message = f"its clock is {abs(each.skew_seconds):.1f} s {direction} this machine's" if wrong else "clock agrees"
        remedy = "synchronise both clocks (NTP): lags and retention are judged by them" if wrong else ""
        level = Level.FAIL if wrong else Level.OK
        findings.append(Finding(each.instance, "clock", level, message, remedy))
    return findings


def check_cluster(facts: ClusterFacts) -> list[Finding]:
    """A cluster is healthy, reachable from here, the one that was registered, and set up so that nothing is lost."""
    cluster, description = facts.cluster, facts.description
    name = f"cluster/{cluster.name}"
    findings = [_health(name, cluster)]
    if description is None and findings[0].level is Level.FAIL:
        return findings
    if description is None:
        reason = facts.error.message if facts.error is not None else "no answer"
        remedy = "check the network from this machine, and its advertised listeners"
        return [*findings, Finding(name, "reachable", Level.FAIL, f"not reachable from here: {reason}", remedy)]
    findings.append(_identity(name, cluster, description))
    findings += _settings(name, cluster, description)
    findings += _copies_out_of_step(name, cluster)
    if all(each.level is Level.OK for each in findings):
        brokers = len(description.brokers)
        message = f"{brokers} broker{'s' if brokers != 1 else ''}, {version_text(description.default_config)}"
        return [Finding(name, "cluster", Level.OK, message)]
    return [each for each in findings if each.level is not Level.OK]


def check_versions(clusters: Sequence[ClusterFacts]) -> list[Finding]:
    """Clusters of one mesh are of one age: a failover should not change what brokers can do."""
    known = {
        facts.cluster.name: version_text(facts.description.default_config)
        for facts in clusters
        if facts.description is not None
    }
    if len(set(known.values())) < 2:
        return []
    told = ", ".join(f"{name} {version}" for name, version in sorted(known.items()))
    remedy = "bring them to one version: a failover changes what brokers can do"
    return [Finding("clusters", "versions", Level.WARN, f"of different versions: {told}", remedy)]


def check_stream(stream: Stream) -> list[Finding]:
    """Every lane has a route, somewhere to go, and nothing in its way."""
    name = f"stream/{stream.name}"
    findings: list[Finding] = []
    if stream.status.blocked_reason:
        remedy = "add a cluster, or uncordon one: braid get clusters"
        message = f"traffic cannot leave: {stream.status.blocked_reason}"
        findings.append(Finding(name, "blocked", Level.FAIL, message, remedy))
    findings += _lost(name, stream)
    findings += _lanes(name, stream)
    findings += _stranded(name, stream)
    findings += _halted(name, stream)
    return findings or [Finding(name, "stream", Level.OK, "every lane has a route and a standby")]


def version_text(config: Mapping[str, str]) -> str:
    """A broker's age, read from what it can be configured with: brokers tell no version to clients."""
    for setting, version in (
        ("group.share.enable", "Kafka 4"),
        ("share.coordinator.append.linger.ms", "Kafka 4"),
        ("group.coordinator.rebalance.protocols", "Kafka 3.7 to 3.9"),
        ("process.roles", "Kafka 3"),
    ):
        if setting in config:
            return version
    return "of unknown version" if not config else "Kafka older than 3"


def _unreachable(replica: ReplicaFacts) -> Finding:
    reason = replica.error.message if replica.error is not None else "no answer"
    remedy = "start it again, or look at its log; a replica that is gone leaves the list within seconds"
    return Finding(replica.instance, "reachable", Level.FAIL, f"no answer at {replica.address}: {reason}", remedy)


def _led(service: str, answering: Sequence[ReplicaFacts]) -> Finding:
    leaders = [each.instance for each in answering if each.leader]
    if not answering:
        return Finding(service, "led", Level.FAIL, "no replica answers", _start_one(service))
    if not leaders:
        remedy = "wait a few seconds; if it stays so, look at the store the replicas share"
        return Finding(service, "led", Level.FAIL, f"{len(answering)} answer, none leads", remedy)
    if len(answering) == 1:
        remedy = "start a second replica: it takes over when this one dies"
        return Finding(service, "led", Level.WARN, f"{leaders[0]} leads, and nobody could take over", remedy)
    return Finding(service, "led", Level.OK, f"{leaders[0]} leads, {len(answering) - 1} could take over")


def _beside(service: str, lost: str, answering: Sequence[ReplicaFacts]) -> Finding:
    if not answering:
        return Finding(service, "answers", Level.WARN, f"no replica answers: {lost}", _start_one(service))
    leaders = [each.instance for each in answering if each.leader]
    if not leaders:
        remedy = "wait a few seconds; if it stays so, look at the store the replicas share"
        return Finding(service, "answers", Level.WARN, f"{len(answering)} answer, none leads", remedy)
    others = len(answering) - 1
    rest = f"{others} could take over" if others else "alone"
    return Finding(service, "answers", Level.OK, f"{leaders[0]} leads, {rest}")


def _start_one(service: str) -> str:
    return f"start one: python -m services.{service}"


def _health(name: str, cluster: Cluster) -> Finding:
    status = cluster.status
    if status.health != CLUSTER_HEALTH_HEALTHY:
        health = enum_text(ClusterHealth.DESCRIPTOR, status.health).upper()
        left = status.health in (CLUSTER_HEALTH_DOWN, CLUSTER_HEALTH_SLOW)
        remedy = _REMEDIES.get(status.verdict, "bring its brokers back; streams that may have moved elsewhere")
        level = Level.FAIL if left else Level.WARN
        return Finding(name, "health", level, f"{health}: {status.health_reason or 'no reason told'}", remedy)
    if status.HasField("decommission"):
        state = enum_text(DecommissionState.DESCRIPTOR, status.decommission.state)
        remedy = f"see what is left: braid describe cluster {cluster.name}"
        return Finding(name, "health", Level.WARN, f"it is being decommissioned: {state}", remedy)
    if status.cordoned:
        remedy = f"when the work on it is done: braid uncordon cluster {cluster.name}"
        return Finding(name, "health", Level.WARN, "cordoned: it takes no new traffic", remedy)
    return Finding(name, "health", Level.OK, "healthy")


def _identity(name: str, cluster: Cluster, description: ClusterDescription) -> Finding:
    known = cluster.status.kafka_cluster_id
    if known and description.cluster_id != known:
        message = f"Kafka cluster {description.cluster_id} answers there, {known} is registered"
        return Finding(name, "identity", Level.FAIL, message, "check the bootstrap address and the brokers' disks")
    return Finding(name, "identity", Level.OK, description.cluster_id)


def _settings(name: str, cluster: Cluster, description: ClusterDescription) -> list[Finding]:
    findings: list[Finding] = []
    if description.auto_creates_topics:
        allowed = cluster.spec.allow_auto_create_topics
        remedy = "set auto.create.topics.enable=false on its brokers: deleted topics rise again otherwise"
        level = Level.WARN if allowed else Level.FAIL
        findings.append(Finding(name, "auto-create", level, "brokers create topics by themselves", remedy))
    minutes = description.offsets_retention_minutes
    if minutes < _OFFSETS_RETENTION_MINUTES_MIN:
        message = f"progress of idle groups is forgotten after {minutes / 1440:.1f} days"
        remedy = f"set offsets.retention.minutes to {_OFFSETS_RETENTION_MINUTES_MIN} or more on its brokers"
        findings.append(Finding(name, "offsets-retention", Level.WARN, message, remedy))
    if description.default_config.get(_UNCLEAN, "false") == "true":
        message = "a broker that lags may become leader: acknowledged records can be lost"
        findings.append(Finding(name, "unclean-election", Level.FAIL, message, f"set {_UNCLEAN}=false on its brokers"))
    findings += _copies(name, description)
    units = description.offset_metadata_max_units
    if units < ENVELOPE_UNITS_DEFAULT:
        message = f"commits carry {units} units of progress, {ENVELOPE_UNITS_DEFAULT} are usual"
        remedy = f"set offset.metadata.max.bytes to {ENVELOPE_UNITS_DEFAULT} on its brokers"
        findings.append(Finding(name, "commit-metadata", Level.WARN, message, remedy))
    return findings


def _copies_out_of_step(name: str, cluster: Cluster) -> list[Finding]:
    """What the leading registry sees of brokers and copies, while nothing is gone."""
    evidence = cluster.status.evidence
    if not evidence.under_replicated_partitions and not evidence.missing_brokers:
        return []
    missing = ", ".join(map(str, evidence.missing_brokers))
    thin = f"{evidence.under_replicated_partitions} of {evidence.partitions} partitions lack copies in step"
    message = f"{thin}; brokers missing: {missing}" if missing else thin
    return [Finding(name, "copies", Level.WARN, message, "bring them back before the next one goes")]


def _copies(name: str, description: ClusterDescription) -> list[Finding]:
    """How many copies a cluster keeps of what it acknowledged, and of the progress of groups."""
    brokers = len(description.brokers)
    wanted = min(_COPIES_WANTED, brokers)
    findings: list[Finding] = []
    in_sync = int(description.default_config.get(_IN_SYNC, min(2, wanted)))
    if in_sync > brokers > 0:
        message = f"a record needs {in_sync} copies, there are {brokers} brokers: nothing is acknowledged"
        remedy = f"set {_IN_SYNC} to at most {max(1, brokers - 1)}, or bring its brokers back"
        findings.append(Finding(name, "in-sync", Level.FAIL, message, remedy))
    elif in_sync == brokers > 1:
        message = f"a record needs all {brokers} brokers: when one is away nothing is acknowledged"
        findings.append(Finding(name, "in-sync", Level.WARN, message, f"set {_IN_SYNC}={brokers - 1} on its brokers"))
    elif in_sync < 2 and wanted == _COPIES_WANTED:
        message = "progress, and records of streams with two copies, may be acknowledged by one and lost with it"
        findings.append(Finding(name, "in-sync", Level.WARN, message, f"set {_IN_SYNC}=2 on its brokers"))
    copies = int(description.default_config.get(_OFFSETS_COPIES, wanted))
    if copies < wanted:
        message = f"progress of groups is kept {copies} time{'s' if copies != 1 else ''}, on {brokers} brokers"
        remedy = f"set {_OFFSETS_COPIES}={wanted} on its brokers, and reassign __consumer_offsets"
        findings.append(Finding(name, "offsets-copies", Level.WARN, message, remedy))
    return findings


def _lanes(name: str, stream: Stream) -> list[Finding]:
    unrouted: list[str] = []
    alone: list[str] = []
    for lane in sorted(stream.spec.lanes):
        channels = [each for each in stream.status.channels if each.lane == lane]
        active = {each.cluster for each in channels if each.state == CHANNEL_STATE_ACTIVE}
        ready = {each.cluster for each in channels if each.state == CHANNEL_STATE_STANDBY}
        if not active:
            unrouted.append(lane)
        elif len(active | ready) < 2:
            alone.append(lane)
    findings: list[Finding] = []
    if unrouted:
        remedy = f"see why: braid describe stream {stream.name}"
        findings.append(Finding(name, "route", Level.FAIL, f"no route, sends wait: {', '.join(unrouted)}", remedy))
    if alone:
        message = f"no standby, a failover would first make topics: {', '.join(alone)}"
        remedy = "bring up, uncordon or register a second cluster the stream may use"
        findings.append(Finding(name, "standby", Level.WARN, message, remedy))
    return findings


def _lost(name: str, stream: Stream) -> list[Finding]:
    """A drain waits for a person; a channel that carries traffic goes on, with whatever it lost told."""
    findings: list[Finding] = []
    for channel in stream.status.channels:
        told = f"{channel.name} on cluster {channel.cluster}: {offsets_text(channel.lost)} ({channel.lost_evidence})"
        if waits_for_a_person(channel):
            remedy = f"bring them back, or go on without: braid close channel {channel.name} --dry-run"
            findings.append(Finding(name, "lost", Level.FAIL, told, remedy))
        elif channel.lost and channel.state == CHANNEL_STATE_ACTIVE:
            remedy = f"it carries on without them; since when: braid events --for {name}"
            findings.append(Finding(name, "lost", Level.WARN, told, remedy))
    return findings


def _stranded(name: str, stream: Stream) -> list[Finding]:
    clusters: dict[str, list[str]] = {}
    for channel in stream.status.channels:
        if channel.stranded:
            clusters.setdefault(channel.cluster, []).append(channel.name)
    remedy = "bring it back; what is not consumed there is kept"
    return [
        Finding(name, "stranded", Level.WARN, f"waiting for cluster {cluster}: {', '.join(channels)}", remedy)
        for cluster, channels in sorted(clusters.items())
    ]


def _halted(name: str, stream: Stream) -> list[Finding]:
    return [
        Finding(
            name,
            "halted",
            Level.FAIL,
            f"{channel.name} is not consumed, to keep the order: {', '.join(channel.waits_for)} comes first",
            f"bring back what that one lacks, or go on without it: braid release channel {channel.name}",
        )
        for channel in halted(stream)
    ]
